"""Scenarios side by side: which is cheaper per correct answer, by how much, how sure, and why."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from joulesim import uncertainty
from joulesim.predict import attempts_per_answer
from joulesim.prediction import Estimate, Prediction


class Comparison(NamedTuple):
    """A prediction against the first one."""

    prediction: Prediction
    ratio: Estimate
    """Energy per correct answer (per answer where accuracy is unknown) over the first scenario's."""
    per: str
    factors: dict[str, float]
    """What the ratio is made of; their product is the ratio."""


def compare(predictions: list[Prediction]) -> list[Comparison]:
    """
    Each prediction against the first.

    Constants that two scenarios share (same device and runtime) move both and cancel in the ratio; all others
    are independent.
    """
    first = predictions[0]
    return [_against(first, other) for other in predictions]


def _against(first: Prediction, other: Prediction) -> Comparison:
    known = first.accuracy.value and other.accuracy.value
    per = "correct answer" if known else "answer"
    level = first.level
    if first.scenario.boundary != other.scenario.boundary:
        reason = f"boundaries differ ({first.scenario.boundary}, {other.scenario.boundary}): not comparable"
        return Comparison(other, Estimate(None, None, None, level, reason), per, {})
    if first.energy_per_answer is None or other.energy_per_answer is None:
        blank = first if first.energy_per_answer is None else other
        reason = f"{blank.scenario.name}: {blank.estimates['energy_per_answer'].reason}"
        return Comparison(other, Estimate(None, None, None, level, reason), per, {})
    factors = {
        "energy per output token": other.energy_per_output_token / first.energy_per_output_token,
        "output tokens": float(other.outcome.output_tokens / first.outcome.output_tokens),
        "attempts": attempts_per_answer(other.scenario.task) / attempts_per_answer(first.scenario.task),
    }
    if known:
        factors["accuracy"] = first.accuracy.value / other.accuracy.value
    ratio = math.prod(factors.values())
    z = uncertainty.quantile(level)
    spread = z * _ratio_spread(first, other)
    down, up = [spread], [spread]
    if known and first is not other:
        down += [math.log(other.accuracy.high / other.accuracy.value), _log(first.accuracy.value, first.accuracy.low)]
        up += [_log(other.accuracy.value, other.accuracy.low), math.log(first.accuracy.high / first.accuracy.value)]
    low, high = ratio * math.exp(-math.hypot(*down)), ratio * math.exp(math.hypot(*up))
    return Comparison(other, Estimate(ratio, low, high, level), per, factors)


def _log(value: float, low: float) -> float:
    return math.log(value / low) if low > 0 else math.inf


def _ratio_spread(first: Prediction, other: Prediction) -> float:
    a, b = (p.energy_array for p in (first, other))
    shared = (first.scenario.hardware == other.scenario.hardware and first.scenario.runtime == other.scenario.runtime)
    if shared and np.shape(a) == np.shape(b):
        return uncertainty.log_spread(b / a)
    return math.hypot(uncertainty.log_spread(a), uncertainty.log_spread(b))
