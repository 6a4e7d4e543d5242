"""What a point was measured on and under: campaign, device, state, runtime, window, idle power."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from joulesim.measure.reading import Count, NonNegative, Observed


class Campaign(Observed):
    """The declared set of measurements that a point belongs to."""

    name: str
    hash: str = ""
    """Hash of the declaration, split included."""
    point: str = ""
    """Name of the point in the declaration."""
    repeat: Count = 0
    role: Literal["fit", "test", "drift", "baseline", ""] = ""
    """Side of the split that was fixed before the first run."""


class Device(Observed):
    """The hardware that took part."""

    names: tuple[str, ...] = ()
    """Names as the driver gives them, one a device."""
    ids: tuple[str, ...] = ()
    """Serial names (UUID, bus address), one a device."""
    count: Count = 0
    driver: str = ""
    firmware: str = ""
    memory: NonNegative | None = None
    """Memory of one device. [B]"""
    host: str = ""
    """CPU model and operating system of the host."""


class State(Observed):
    """Clocks, caps and surroundings while measuring."""

    power_mode: str = ""
    power_source: Literal["ac", "battery", ""] = ""
    power_limit: NonNegative | None = None
    """Enforced cap of one device. [W]"""
    chip_clock: NonNegative | None = None
    """[Hz]"""
    memory_clock: NonNegative | None = None
    """[Hz]"""
    temperature: float | None = None
    """[degC]"""
    performance_state: str = ""
    throttle_reasons: tuple[str, ...] = ()
    display_active: bool | None = None
    ecc: bool | None = None
    persistence: bool | None = None
    background_load: NonNegative | None = None
    """CPU use of other processes. [cores]"""
    sampling: NonNegative | None = None
    """CPU time that sampling the meter took over the window; null where nothing was sampled. [cores]"""
    core_probe: NonNegative | None = None
    """CPU time of a fixed piece of work while the median call ran: how fast the core was just then. [s]"""
    memory_probe: NonNegative | None = None
    """That of its part that waits for memory. [s]"""


class Runtime(Observed):
    """The engine that ran."""

    name: str
    version: str = ""
    build: str = ""
    """Build number, commit and flags."""
    backend: str = ""
    threads: Count | None = None
    settings: dict[str, str | int | float | bool | None] = Field(default_factory=dict)


class Window(Observed):
    """Start and stop of the point on one clock."""

    start: float
    """[s]"""
    stop: float
    """[s]"""
    clock: str = "monotonic"
    """Clock of start and stop; stamps of two clocks are never subtracted."""
    started_at: str = ""
    """Start on the wall clock, ISO 8601 with zone."""

    @model_validator(mode="after")
    def _forward(self):
        if self.stop < self.start:
            raise ValueError(f"expected a stop after the start, got {self.start:.9g} to {self.stop:.9g}")
        return self


class Idle(Observed):
    """Power with nothing to do, at the boundary of the record. [W]"""

    empty: NonNegative | None = None
    """No process on the device."""
    resident: NonNegative | None = None
    """Weights loaded, no request running."""


class RowSource(Observed):
    """Where an imported point stands."""

    ref: str
    """Address or citation."""
    file: str = ""
    line: Count | None = None
    note: str = ""
