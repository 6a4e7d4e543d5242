"""One measured or published point, complete enough to be understood on its own."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from joulesim.measure.reading import MeterBoundary, MeterInfo, NonNegative, Observed, Reading
from joulesim.measure.validity import Reason, Validity

SCHEMA_VERSION = 1
"""Raised when a field changes its meaning or goes; a new optional field keeps it."""

Count = Annotated[int, Field(ge=0)]

_CLOSE_ENOUGH = 0.02
"""Energy and power times time may differ by rounding, no more."""


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


class Tokens(Observed):
    """What went in and came out, over the whole window. [token]"""

    prompt: NonNegative | None = None
    cached: NonNegative | None = None
    """Prompt tokens that came from a prefix cache."""
    output: NonNegative | None = None
    drafted: NonNegative | None = None
    verified: NonNegative | None = None
    accepted: NonNegative | None = None
    requests: Count | None = None
    """Requests completed. [request]"""
    failed: Count | None = None
    """Requests that failed; their energy is in, their tokens are not. [request]"""
    counted_by: str = ""
    """Who counted: the engine, or a tokenizer afterwards."""
    output_recounted: NonNegative | None = None
    """The other count of the same output."""


class Throughput(Observed):
    """Rates over the window; the field says what was counted."""

    prompt: NonNegative | None = None
    """Prefill rate. [token/s]"""
    output: NonNegative | None = None
    """Decode or serving rate, output tokens only. [token/s]"""
    mixed: NonNegative | None = None
    """Prompt and output tokens together. [token/s]"""
    requests: NonNegative | None = None
    """[request/s]"""
    goodput: NonNegative | None = None
    """Requests that kept the declared latency limits. [request/s]"""
    sd: NonNegative | None = None
    """Standard deviation of the repeats, in the unit of the rate. [token/s]"""
    samples: tuple[NonNegative, ...] = ()
    """The rate of each repeat. [token/s]"""


class Spread(Observed):
    """A latency over requests or tokens. [s]"""

    mean: NonNegative | None = None
    median: NonNegative | None = None
    sd: NonNegative | None = None
    percentiles: dict[str, NonNegative] = Field(default_factory=dict)
    """By percent, e.g. ``{"99": 0.61}``."""
    n: Count | None = None


class Latency(Observed):
    """Times as a client sees them."""

    ttft: Spread | None = None
    tpot: Spread | None = None
    itl: Spread | None = None
    e2e_latency: Spread | None = None


class Correctness(Observed):
    """Answers checked. Failed, empty and truncated ones are attempts and are not correct."""

    correct: Count
    attempted: Count
    truncated: Count = 0
    empty: Count = 0
    failed: Count = 0

    @model_validator(mode="after")
    def _no_more_than_attempted(self):
        if self.correct > self.attempted:
            got = f"{self.correct} of {self.attempted}"
            raise ValueError(f"expected at most as many correct answers as attempts, got {got}")
        return self


class Ratios(Observed):
    """Energies that a source states by unit of work, when it states no energy of a whole run."""

    energy_per_output_token: NonNegative | None = None
    """[J/token]"""
    energy_per_prompt_token: NonNegative | None = None
    """[J/token]"""
    energy_per_total_token: NonNegative | None = None
    """[J/token]"""
    energy_per_request: NonNegative | None = None
    """[J/request]"""
    energy_per_correct_answer: NonNegative | None = None
    """[J/answer]"""


class RowSource(Observed):
    """Where an imported point stands."""

    ref: str
    """Address or citation."""
    file: str = ""
    line: Count | None = None
    note: str = ""


class Record(Observed):
    """
    A point as measured or published: the scenario, the machine, the meter, what was seen, and its verdict.

    ``None`` is unknown and never 0; an unknown energy has its reason beside it.
    """

    schema_version: Literal[1] = 1
    provenance: Literal["measured", "published", "modelled"]
    """``modelled``: somebody computed it (TDP, CPU time); never used to fit or to judge a model."""
    scenario: dict[str, Any]
    """The scenario as in its file, whole."""
    campaign: Campaign | None = None
    device: Device = Device()
    state: State = State()
    runtime: Runtime | None = None
    meter: MeterInfo | None = None
    boundary: MeterBoundary | None = None
    resolution: NonNegative | None = None
    """Energy that the meter cannot tell apart in this window. [J]"""
    window: Window | None = None
    clock: Literal["wall", "cpu"] = "wall"
    """Clock of the throughput and latencies: wall time, or CPU time of the process."""
    energy: NonNegative | None = None
    """Gross energy of the window, idle power included. [J]"""
    energy_reason: Reason | None = None
    power: NonNegative | None = None
    """Mean power over the window. [W]"""
    time: NonNegative | None = None
    """Length of the window. [s]"""
    cpu_time: NonNegative | None = None
    """CPU time of the runtime's process within the window. [s]"""
    idle: Idle = Idle()
    tokens: Tokens = Tokens()
    throughput: Throughput = Throughput()
    latency: Latency = Latency()
    correctness: Correctness | None = None
    ratios: Ratios = Ratios()
    other_readings: tuple[Reading, ...] = ()
    """The same window seen by further meters, each at its own boundary."""
    validity: Validity = Validity()
    source: RowSource | None = None

    @field_validator("scenario")
    @classmethod
    def _plain(cls, scenario: dict) -> dict:
        try:
            json.dumps(scenario, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"expected plain data (text, finite numbers, lists); {error}") from None
        return scenario

    @model_validator(mode="after")
    def _consistent(self):
        if self.energy is None and self.energy_reason is None:
            raise ValueError("energy: expected joules or a reason, got neither; set energy_reason")
        if self.energy is not None and self.energy_reason is not None:
            raise ValueError(f"energy: expected joules or a reason, got both ({self.energy_reason.code})")
        stated = (self.energy, self.power, *self.ratios.model_dump().values())
        if self.boundary is None and any(value is not None for value in stated):
            raise ValueError("boundary: expected what the joules include, got nothing; name the boundary")
        measured = self.energy is not None and self.provenance == "measured"
        if measured and (self.meter is None or self.time is None):
            raise ValueError("meter: expected the meter and the time of a measured energy, got nothing")
        if self.provenance == "published" and self.source is None:
            raise ValueError("source: expected where the published row stands, got nothing")
        if None not in (self.energy, self.power, self.time):
            product = self.power * self.time
            if not math.isclose(self.energy, product, rel_tol=_CLOSE_ENOUGH):
                got = f"{self.energy:.6g} J"
                raise ValueError(f"energy: expected power times time ({product:.6g} J), got {got}")
        return self

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the content; the same for the same content whatever the order of its fields."""
        return content_hash(self.plain())

    @cached_property
    def scenario_hash(self) -> str:
        """SHA-256 of the scenario alone."""
        return content_hash(self.scenario)

    def plain(self) -> dict[str, Any]:
        """The record as plain data: unknown fields left out, energy always there, scenario word for word."""
        data = _without_unknown(self.model_dump(mode="json", exclude={"scenario"}))
        return {**data, "scenario": self.scenario, "energy": self.energy}

    @property
    def energy_per_output_token(self) -> float | None:
        """[J/token]"""
        return self._per(self.tokens.output, self.ratios.energy_per_output_token)

    @property
    def energy_per_request(self) -> float | None:
        """[J/request]"""
        return self._per(self.tokens.requests, self.ratios.energy_per_request)

    @property
    def energy_per_correct_answer(self) -> float | None:
        """Energy of all attempts over the correct ones; ``None`` when none is correct. [J/answer]"""
        correct = self.correctness.correct if self.correctness else None
        return self._per(correct, self.ratios.energy_per_correct_answer)

    @property
    def idle_adjusted_energy(self) -> float | None:
        """Energy above the resident idle power; reported beside the gross energy, never instead of it. [J]"""
        if None in (self.energy, self.time, self.idle.resident):
            return None
        return self.energy - self.idle.resident * self.time

    def _per(self, amount: float | None, stated: float | None) -> float | None:
        if self.energy is None or not amount:
            return stated
        return self.energy / amount


def content_hash(data: Any) -> str:
    """
    SHA-256 of plain data. Order of fields does not matter, and 8 and 8.0 are the same number.

    >>> content_hash({"a": 1, "b": 2.0}) == content_hash({"b": 2, "a": 1.0})
    True
    """
    plain = _canonical(data)
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {str(key): _canonical(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_canonical(value) for value in data]
    if isinstance(data, float) and data.is_integer():
        return int(data)
    return data


def _without_unknown(data: Any) -> Any:
    """Mapping without what is ``None`` or empty, at every depth."""
    if isinstance(data, dict):
        cleaned = {key: _without_unknown(value) for key, value in data.items()}
        return {key: value for key, value in cleaned.items() if value not in (None, {}, [], "")}
    if isinstance(data, list):
        return [_without_unknown(value) for value in data]
    return data
