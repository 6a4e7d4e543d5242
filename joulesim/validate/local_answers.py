"""
Seconds per correct answer as the local fit predicts them, beside those that were measured.

Which questions were asked, how many tokens went in and came out, and which answers were right are inputs, taken from the
run itself; the time of every call is predicted. A question is one prefill of what was not cached and one decode step for
each further call, at the core speed that was probed between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np

from joulesim.measure.answers import seconds
from joulesim.measure.outcome import Question
from joulesim.measure.record import Record
from joulesim.measure.task import per_correct
from joulesim.validate.local_points import Points, imagined, multiplied, slowness
from joulesim.validate.local_result import FitResult

LEVELS = (0.8, 0.95)


class Predicted(NamedTuple):
    """Time of all attempts over the correct answers. [s]"""

    value: float
    intervals: dict[float, tuple[float, float]]
    """By level; empty where no call was held out, so that nothing says how wrong the fit is."""


class Answered(NamedTuple):
    """A task of one model, measured and predicted. [s]"""

    model: str
    task: str
    correct: int
    attempted: int
    unit: Literal["CPU s", "s"]
    measured: float | None
    """``None`` when no answer is correct."""
    measured_low: float
    measured_high: float | None
    """95 % interval over which questions were asked."""
    predicted: Predicted | None
    inside: float | None
    """Lowest level whose predicted interval holds the measured value; ``None``: none does, or there is none."""
    reason: str
    """Why something is unknown; empty when nothing is."""

    @property
    def verdict(self) -> str:
        """Whether the measured value lies in a predicted interval, in words."""
        if self.predicted is None or not self.predicted.intervals or self.measured is None:
            return f"unknown: {self.reason}"
        return f"outside {100 * max(LEVELS):.0f} %" if self.inside is None else f"inside {100 * self.inside:.0f} %"


def answered(result: FitResult, records: Iterable[Record]) -> list[Answered]:
    """Tasks among records, in their order; of several runs of one task by one model, the last."""
    last = {record.scenario["name"]: record for record in records
            if record.questions and record.validity.verdict != "invalid"}
    return [compare(result, record) for record in last.values()]


def compare(result: FitResult, record: Record) -> Answered:
    """A task's record against the fit."""
    unit, times = seconds(record)
    counted = per_correct(times, [q.correct for q in record.questions])
    reason = _why_not(result, record, unit)
    predicted = None if reason else predict(result, record)
    inside = None
    if predicted and not predicted.intervals:
        reason = "no call was held out, so that nothing says how wrong the fit is"
    elif predicted:
        held = [level for level, (low, high) in predicted.intervals.items() if low <= counted.value <= high]
        inside = min(held, default=None)
    model, task = record.scenario["model"]["name"], record.scenario["task"]["name"]
    return Answered(model, task, record.correctness.correct, record.correctness.attempted, unit, counted.value,
                    counted.low, counted.high, predicted, inside, reason)


def predict(result: FitResult, record: Record) -> Predicted:
    """
    Seconds per correct answer of the questions of a record, from their lengths alone.

    The interval is that of time: the constants' covariance in quadrature with the errors on held-out calls of the same
    kinds, taken as one error common to all calls of a kind, which no number of answers averages out.
    """
    calls, times_made, phases = _calls(result, record)
    each = result.fitted.predict(calls) * times_made
    total, correct = float(each.sum()), record.correctness.correct
    share = each / total
    constants = float(np.linalg.norm(share @ result.fitted.uncertainty(calls)))
    intervals = {}
    for level in LEVELS:
        errors = [share[phases == phase].sum() * _held_out(result, phase, level) for phase in np.unique(phases)]
        half = float(np.hypot(NormalDist().inv_cdf((1 + level) / 2) * constants, sum(errors)))
        if np.isfinite(half):
            intervals[level] = (total / correct * math.exp(-half), total / correct * math.exp(half))
    return Predicted(total / correct, intervals)


def plain(one: Answered) -> dict[str, Any]:
    """As plain data."""
    value, intervals = one.predicted or (None, {})
    ends = {f"predicted_{round(100 * level)}": list(intervals[level]) if level in intervals else None for level in LEVELS}
    return {**one._asdict(), "predicted": value, **ends, "verdict": one.verdict}


HEADERS = ("task", "model", "correct", "unit", "measured", "95 % over questions", "predicted", "80 %", "95 %",
           "measured value is")


def cells(found: dict[str, Any]) -> tuple[str, ...]:
    """A row under :data:`HEADERS` of what :func:`plain` gave."""
    high = "no upper end" if found["measured_high"] is None else f"{found['measured_high']:.3g}"
    predicted = [found["predicted"], *(found[f"predicted_{round(100 * level)}"] for level in LEVELS)]
    return (found["task"], found["model"], f"{found['correct']} of {found['attempted']}", found["unit"],
            _shown(found["measured"]), f"{found['measured_low']:.3g} to {high}", *map(_shown, predicted), found["verdict"])


def _shown(value: float | list[float] | None) -> str:
    if value is None:
        return "unknown"
    return " to ".join(f"{end:.3g}" for end in (value if isinstance(value, list) else [value]))


def _why_not(result: FitResult, record: Record, unit: str) -> str:
    """Why a task cannot be predicted; empty when it can."""
    model, clock = record.scenario["model"], result.calls.records[0].clock
    if not record.correctness.correct:
        return "no answer is correct"
    if not model.get("matrices"):
        return "the record does not say what the model consists of"
    if any(q.prompt is None and not q.failed for q in record.questions):
        return "the engine counted no prompt tokens"
    if (unit == "CPU s") != (clock == "cpu"):
        return f"answers are timed in {unit}, the fit by the {clock} clock"
    if record.provenance != result.calls.records[0].provenance:
        return f"answers are {record.provenance}, the fit's calls are {result.calls.records[0].provenance}"
    needed = "memory_probe" if result.calls.records[0].state.memory_probe else "core_probe"
    if result.fitted.best_probe and not any(getattr(q, needed) for q in record.questions):
        return "the fit knows how fast its core was, the answers do not (this engine probes no core)"
    strange = {m[3] for m in multiplied(model["matrices"], _weights(record))} - set(result.fitted.formats)
    return f"the fit has seen no matrix in {', '.join(sorted(strange))}" if strange else ""


def _weights(record: Record) -> str:
    """``f32`` for a model that is stored in it throughout; only then are such matrices multiplied."""
    kinds = {m[3] for m in record.scenario["model"]["matrices"]}
    return kinds.pop() if len(kinds) == 1 else ""


def _calls(result: FitResult, record: Record) -> tuple[Points, np.ndarray, np.ndarray]:
    """Calls of all answers, how often each is made, and of what kind it is."""
    best, made = result.fitted.best_probe, []
    for q in record.questions:
        if not q.prompt:
            continue  # a failed request, that nobody counted
        slow = slowness(q, best)
        made.append((_prefill(q), 1, slow))
        if steps := (max(q.output - 1, 0) if q.calls is None else q.calls):
            halfway = q.prompt + (steps - 1) / 2  # time is all but linear in the depth
            made.append(({"phase": "decode", "sequences": 1, "tokens": 1, "depth": halfway}, steps, slow))
    calls, often, slow = zip(*made, strict=True)
    points = imagined(calls, record.scenario["model"], _weights(record), record.runtime.settings.get("microbatch"), slow)
    return points, np.array(often), np.array([call["phase"] for call in calls])


def _prefill(q: Question) -> dict[str, Any]:
    return {"phase": "prefill", "sequences": 1, "tokens": max(q.prompt - q.cached, 1), "depth": q.cached}


def _held_out(result: FitResult, phase: str, level: float) -> float:
    """Error of the logarithm that a share of the held-out calls keeps within; nan when none was held out."""
    calls = result.calls.of(lambda r: r.campaign.role == "test" and r.scenario["axis"] != "model"
                            and r.scenario["call"]["phase"] == phase)
    if not len(calls):
        return float("nan")
    return float(np.quantile(np.abs(np.log(result.fitted.predict(calls) / calls.time)), level))
