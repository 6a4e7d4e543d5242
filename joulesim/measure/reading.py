"""What a meter is, and what it says about one window."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from joulesim.measure.validity import Reason

MeterBoundary = Literal["chip", "board", "module", "host", "wall"]
"""The boundaries of :data:`joulesim.specs.hardware.Boundary` and ``module``: superchips (GH200, GB200) meter
CPU, GPU and memory together, which no boundary of a discrete device equals."""

NonNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]

UPDATES_PER_WINDOW = 100
"""A window holds at least this many update periods: its two edges then cost about 1 % of its energy."""


class Observed(BaseModel):
    """Base of what was seen: frozen, closed, finite numbers in SI."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class MeterInfo(Observed):
    """A meter as probed: what it measures, how finely, or why it is absent."""

    name: str
    available: bool = True
    reason: Reason | None = None
    """Why it cannot be used."""
    remedy: str = ""
    """What to run or install so that it can."""
    boundary: MeterBoundary | None = None
    scope: str = ""
    """What its joules include, in words."""
    method: Literal["counter", "sampled power", "interval averages", "none"] = "none"
    fields: tuple[str, ...] = ()
    """What is read, in the vendor's own names."""
    devices: tuple[str, ...] = ()
    energy_resolution: NonNegative | None = None
    """Smallest step of the energy counter. [J]"""
    power_resolution: NonNegative | None = None
    """Smallest step of the power reading. [W]"""
    update_period: NonNegative | None = None
    """Time between two fresh values of the device. [s]"""
    averaging_time: NonNegative = 0.0
    """Length of the trailing average behind a power value. [s]"""
    live: bool = True
    """False for a recorded trace."""
    notes: tuple[str, ...] = ()

    @property
    def shortest_window(self) -> float:
        """Shortest window that this meter can be asked about. [s]"""
        return UPDATES_PER_WINDOW * max(self.update_period or 0.0, self.averaging_time)


class Reading(Observed):
    """Energy of one window from one meter, or the reason why there is none."""

    meter: MeterInfo
    start: float
    """Start on :attr:`clock`. [s]"""
    stop: float
    """End on :attr:`clock`. [s]"""
    clock: str = "monotonic"
    energy: NonNegative | None = None
    """Gross energy of all devices within the meter's boundary. [J]"""
    energy_reason: Reason | None = None
    parts: dict[str, NonNegative | None] = Field(default_factory=dict)
    """Energy by device or domain; they add up to :attr:`energy`. [J]"""
    resolution: NonNegative | None = None
    """Energy that the meter cannot tell apart in this window. [J]"""
    cross_check: NonNegative | None = None
    """The same energy by the meter's other method. [J]"""
    samples: int = 0
    reasons: tuple[Reason, ...] = ()
    overhead: NonNegative | None = None
    """CPU time that sampling took over the length of the window; ``None`` where nothing was sampled. [cores]"""

    @model_validator(mode="after")
    def _energy_or_reason(self):
        if (self.energy is None) == (self.energy_reason is None):
            raise ValueError("expected an energy or the reason why there is none, not both or neither")
        return self

    @property
    def time(self) -> float:
        """Length of the window. [s]"""
        return self.stop - self.start

    @property
    def power(self) -> float | None:
        """Mean power over the window. [W]"""
        return None if self.energy is None or self.time <= 0 else self.energy / self.time
