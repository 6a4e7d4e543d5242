"""The result of a prediction, and its plain form for JSON and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import joulesim
from joulesim import uncertainty, units
from joulesim.chain import Outcome
from joulesim.constants import UNITS, Constant
from joulesim.cost import Phase, bounds
from joulesim.inputs import Inputs
from joulesim.scenario import Scenario

QUANTITIES = {
    "ttft": "second", "tpot": "second", "e2e_latency": "second", "output_throughput": "token/second", "power": "watt",
    "energy_per_output_token": "joule/token", "energy_per_request": "joule/request", "energy_per_answer": "joule/answer",
    "idle_energy_per_answer": "joule/answer", "energy_above_idle_per_answer": "joule/answer",
    "device_time_per_answer": "second/answer",
}
"""Unit of every predicted quantity."""


class Estimate(NamedTuple):
    """A value with its interval; ``None`` with a reason where it is unknown."""

    value: float | None
    low: float | None
    high: float | None
    level: float
    reason: str = ""


class Accuracy(NamedTuple):
    """Share of correct answers with its interval; ``None`` with a reason where it is unknown."""

    value: float | None
    low: float | None
    high: float | None
    reason: str = ""


class Money(NamedTuple):
    """What an answer costs and emits, where prices were given. ``notes`` say what is in it."""

    cost_per_answer: float | None = None
    cost_per_correct_answer: float | None = None
    currency: str | None = None
    operational_per_answer: float | None = None
    operational_per_correct_answer: float | None = None
    embodied_per_answer: float | None = None
    embodied_per_correct_answer: float | None = None
    notes: tuple[str, ...] = ()
    reason: str = "no price was given"
    carbon_reason: str = "no grid intensity was given"


@dataclass(frozen=True)
class Prediction:
    """What :func:`joulesim.predict` finds. Values are SI; :meth:`to_dict` gives the JSON form."""

    scenario: Scenario
    feasible: bool | None
    reason: str
    level: float
    inputs: Inputs
    constants: dict[str, Constant]
    outcome: Outcome
    estimates: dict[str, Estimate]
    energy_array: Any
    """Energy per answer over the perturbed constants, as :func:`joulesim.uncertainty.spread_out` lays them out. [J]"""
    accuracy: Accuracy
    energy_per_correct_answer: Estimate
    money: Money
    assumptions: list[str]
    reasons: dict[str, str] = field(default_factory=dict)

    def __getattr__(self, name: str) -> float | None:
        """Value of a quantity by name: ``prediction.tpot``."""
        estimates = self.__dict__.get("estimates", {})
        if name in estimates:
            return estimates[name].value
        raise AttributeError(f"a prediction has no {name!r}")

    @property
    def batch(self) -> int:
        """Sequences decoded together."""
        return int(self.inputs.batch)

    @property
    def max_batch(self) -> int | None:
        """Most sequences that fit; ``None`` when the memory capacity is unknown or a sequence keeps nothing."""
        largest = float(self.outcome.max_batch)
        return int(largest) if largest < float("inf") and self.feasible is not None else None

    @property
    def memory(self) -> dict[str, float | None]:
        """Memory arithmetic. [B]"""
        return {name: _plain(value) for name, value in self.outcome.memory.items()}

    @property
    def headroom(self) -> float | None:
        """Memory left, or missing when negative. [B]"""
        parts = self.memory
        if parts["usable"] is None:
            return None
        return parts["usable"] - parts["weights"] - parts["kv_cache"] - parts["buffers"]

    @property
    def breakdown(self) -> dict[str, float | None]:
        """Energy of an answer by component; sums to ``energy_per_answer``. [J]"""
        return {name.removeprefix("breakdown."): e.value for name, e in self.estimates.items() if name.startswith("breakdown.")}

    @property
    def speculation(self) -> dict[str, float] | None:
        """Expectations of a round of drafted decoding; ``None`` without one."""
        return per_round(self.inputs)

    @property
    def bound_by(self) -> dict[str, str | None]:
        """What takes longest in each phase: memory, compute, unpack, host, launch or the power limit."""
        return {"prefill": _binding(self.outcome.prefill, self), "decode": _binding(self.outcome.decode, self)}

    @property
    def matters(self) -> frozenset[str]:
        """Uncertain constants that move the time or the energy of an answer."""
        time = self.outcome.prefill.time + self.outcome.decode.time
        return uncertainty.matters(self.constants, time, self.energy_array)

    def rests_on(self) -> list[str]:
        """Assumed and spec-only numbers of the answer, one line each."""
        lines, matters = self.assumptions + _declared_without_source(self.scenario), self.matters
        lines += [f"hardware.{field}: hypothetical ({source.ref})" for field, source in self.scenario.hardware.sources.items()
                  if source.kind == "hypothetical"]
        for name, c in self.constants.items():
            if c.kind in ("assumed", "spec-only", "hypothetical") and name in matters:
                spread = f" ±{100 * np.expm1(c.spread):.0f} %"
                lines.append(f"{name}: {units.show(c.value, UNITS[name])}{spread} ({c.kind}: {c.ref})")
        for name, c in self.constants.items():
            if name.endswith("_residual"):
                lines.append(f"error of the model, {name.removesuffix('_residual')}: ±{100 * np.expm1(c.spread):.0f} % "
                             f"({c.kind}: {c.ref})")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Plain data: SI floats, ``None`` for unknown, units by name."""
        money, correct = self.money, self.energy_per_correct_answer
        values: dict[str, Any] = {
            "scenario": self.scenario.name,
            "hardware": self.scenario.hardware.name,
            "power_mode": self.scenario.power_mode,
            "runtime": self.scenario.runtime.name,
            "model": self.scenario.model.name,
            "weights": self.scenario.weights.name if self.scenario.weights else "checkpoint",
            "feasible": self.feasible,
            "reason": self.reason,
            "batch": self.batch,
            "max_batch": self.max_batch,
            "memory": self.memory | {"headroom": self.headroom},
            "boundary": self.scenario.boundary,
        }
        for name in QUANTITIES:
            estimate = self.estimates[name]
            values[name] = estimate.value
            values[f"{name}_interval"] = None if estimate.value is None else {
                "low": estimate.low, "high": estimate.high, "level": estimate.level}
        values |= {
            "energy_per_correct_answer": {"value": correct.value, "low": correct.low, "high": correct.high,
                                          "level": correct.level},
            "accuracy": {"value": self.accuracy.value, "low": self.accuracy.low, "high": self.accuracy.high},
            "cost_per_answer": money.cost_per_answer,
            "cost_per_correct_answer": money.cost_per_correct_answer,
            "carbon_per_answer": {"operational": money.operational_per_answer, "embodied": money.embodied_per_answer},
            "carbon_per_correct_answer": {"operational": money.operational_per_correct_answer,
                                          "embodied": money.embodied_per_correct_answer},
            "speculation": self.speculation,
            "breakdown": self.breakdown,
            "bound_by": self.bound_by,
            "reasons": self.unknowns(),
            "assumptions": self.rests_on(),
            "units": self.units(),
            "joulesim_version": joulesim.__version__,
        }
        return values

    def unknowns(self) -> dict[str, str]:
        """Why each unknown quantity is unknown."""
        found = {name: e.reason for name, e in self.estimates.items() if e.value is None and name in QUANTITIES}
        if self.energy_per_correct_answer.value is None:
            found["energy_per_correct_answer"] = self.energy_per_correct_answer.reason
        if self.accuracy.value is None:
            found["accuracy"] = self.accuracy.reason
        if self.money.cost_per_answer is None:
            found["cost_per_correct_answer"] = self.money.reason
        if self.money.operational_per_answer is None:
            found["carbon_per_correct_answer"] = self.money.carbon_reason
        return found

    def units(self) -> dict[str, str]:
        """Unit of each quantity."""
        named = {name: units.symbol(unit) for name, unit in QUANTITIES.items()}
        money = self.money.currency or "currency"
        return named | {
            "memory": "B", "breakdown": "J/answer", "energy_per_correct_answer": "J/answer",
            "cost_per_correct_answer": f"{money}/answer", "carbon_per_correct_answer": "gCO2e/answer",
        }


def per_round(x: Inputs) -> dict[str, float] | None:
    """What a round of drafted decoding is expected to yield; ``None`` without one."""
    if x.speculation is None:
        return None
    r = x.speculation.round
    rate = r.accepted / r.drafted if r.drafted else 0.0
    return {"mean_acceptance_length": r.tokens, "drafted": r.drafted, "verified": r.verified, "accepted": r.accepted,
            "wasted": r.wasted, "draft_calls": r.draft_calls, "draft_acceptance_rate": rate,
            "acceptance_probability": r.accepted / r.verified if r.verified else 0.0}


def _plain(value) -> float | None:
    number = float(value)
    return number if number == number and abs(number) != float("inf") else None


def _binding(phase: Phase, p: Prediction) -> str | None:
    values = {name: c.value for name, c in p.constants.items()}
    times = {name: _plain(np.asarray(time).flat[0]) for name, time in bounds(p.inputs, values, phase).items()}
    if None in times.values():
        return None
    limited = float(np.asarray(phase.clock).flat[0]) < float(p.inputs.clock)
    return "power limit" if limited else max(times, key=times.get)


_QUANTITIES = ("prices.", "hardware.", "runtime.")
"""Parts of a scenario whose numbers are text with a unit; ``hardware`` and ``runtime`` only where changed inline."""


def _declared_without_source(scenario: Scenario) -> list[str]:
    """Numbers of the scenario that name no source, one line each."""
    lines = []

    def walk(value: Any, path: str):
        if isinstance(value, dict):
            for key, inner in value.items():
                if key not in ("sources", "base", "name", "title"):
                    walk(inner, f"{path}.{key}" if path else str(key))
        elif isinstance(value, (int, float)) and not isinstance(value, bool) or path.startswith(_QUANTITIES):
            source = scenario.source(path)
            if source is None:
                lines.append(f"{path}: {value} (declared, no source given)")
            elif source.kind == "assumed":
                lines.append(f"{path}: {value} (assumed: {source.note or source.ref})")

    for part in ("hardware", "runtime", "workload", "serving", "task", "prices"):
        walk(scenario.document.get(part, {}), part)
    return lines
