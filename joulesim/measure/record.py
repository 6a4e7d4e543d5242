"""One measured or published point, complete enough to be understood on its own."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

from pydantic import field_validator, model_validator

from joulesim.measure.conditions import Campaign, Device, Idle, RowSource, Runtime, State, Window
from joulesim.measure.outcome import Correctness, Latency, Question, Ratios, Spread, Throughput, Tokens
from joulesim.measure.reading import MeterBoundary, MeterInfo, NonNegative, Observed, Reading
from joulesim.measure.validity import Reason, Validity

__all__ = [
    "Campaign", "Correctness", "Device", "Idle", "Latency", "Question", "Ratios", "Record", "RowSource", "Runtime", "Spread",
    "State", "Throughput", "Tokens", "Window", "content_hash", "fields_of",
]

SCHEMA_VERSION = 1
"""Raised when a field changes its meaning or goes; a new optional field keeps it."""

_CLOSE_ENOUGH = 0.02
"""Energy and power times time may differ by rounding, no more."""


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
    questions: tuple[Question, ...] = ()
    """Of a task, in the order in which they were asked."""
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


def fields_of(reading: Reading) -> dict[str, Any]:
    """
    Record fields that a meter's reading gives.

    >>> Record(provenance="measured", scenario={}, **fields_of(reading))                 # doctest: +SKIP
    """
    return {
        "meter": reading.meter,
        "boundary": reading.meter.boundary,
        "resolution": reading.resolution,
        "window": Window(start=reading.start, stop=reading.stop, clock=reading.clock),
        "energy": reading.energy,
        "energy_reason": reading.energy_reason,
        "power": reading.power,
        "time": reading.time,
        "validity": Validity.of(reading.reasons),
    }


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
