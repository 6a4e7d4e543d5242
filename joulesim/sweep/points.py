"""Every predicted number at a block of points: what :func:`joulesim.predict` finds, on arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from joulesim import chain, constants, grid, inputs, uncertainty
from joulesim.formulas import answer
from joulesim.predict import accuracy, quantities
from joulesim.prediction import QUANTITIES, per_round
from joulesim.scenario import Scenario
from joulesim.specs import derived

FITS, DOES_NOT_FIT, CAPACITY_UNKNOWN, BEYOND_RESERVED, BEYOND_MODEL, BEYOND_PROMPT = range(6)
LEGEND = {
    FITS: "fits",
    DOES_NOT_FIT: "does not fit: weights, KV cache and buffers exceed the usable memory",
    CAPACITY_UNKNOWN: "hardware.memory_capacity is unknown: whether it fits is too",
    BEYOND_RESERVED: "a request is longer than the context reserved for it",
    BEYOND_MODEL: "the context is longer than the model's",
    BEYOND_PROMPT: "the shared prefix is longer than the prompt",
}
"""Meaning of each ``reason``; larger numbers are refusals of a combination, in their own words."""

_COUNTED = ("energy_per_correct_answer.low", "energy_per_correct_answer.high", "accuracy.low", "accuracy.high")
_MONEY = ("cost_per_answer", "carbon_per_answer.operational", "carbon_per_answer.embodied")


class Points(NamedTuple):
    """Predictions at a block of points; each array broadcasts to the block."""

    values: dict[str, Any]
    reason: Any
    """Key of the legend."""
    void: Any
    """Where nothing is predicted."""
    refused: Any
    """Where :func:`joulesim.predict` raises: not even the memory arithmetic is given."""


def replace(scenario: Scenario, changes: Mapping[str, Any]) -> Scenario:
    """Scenario with arrays in the place of numbers that were checked before."""
    for name, value in (dict(changes) | _followers(scenario.hardware, changes)).items():
        scenario = _assigned(scenario, name.split("."), value)
    return scenario


def _followers(hardware, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Measured rates that keep their ratio to a datasheet rate that is swept."""
    found = {}
    for rate, measured in derived.MEASURED.items():
        if f"hardware.{rate}" in changes and f"hardware.{measured}" not in changes:
            old, known = (reduce(getattr, path.split("."), hardware) for path in (rate, measured))
            if old is not None and known is not None:
                found[f"hardware.{measured}"] = known * changes[f"hardware.{rate}"] / old
    return found


def _assigned(spec, path: list[str], value):
    name, *rest = path
    return spec.model_copy(update={name: _assigned(getattr(spec, name), rest, value) if rest else value})


def evaluate(scenario: Scenario, fixed: Mapping[str, Any], scores: Mapping[str, Any],
             level: float | None = None) -> Points:
    """
    Predictions of a scenario some of whose numbers are arrays.

    Parameters
    ----------
    scenario : Scenario
        From :func:`replace`. With a ``level`` its arrays have a last axis of length 1, kept for the constants.
    fixed : mapping
        Values of swept constants.
    scores : mapping
        Standard normal scores of drawn constants.
    level : float, optional
        Probability of the intervals; none are worked out without it.
    """
    x = inputs.gather(scenario)[0]
    known = constants.constants(scenario.hardware, scenario.runtime, inputs.expert_class(scenario))
    known |= {name: known[name]._replace(value=value) for name, value in fixed.items()}
    if level is None:
        c = {name: k.value * np.exp(k.spread * scores[name]) if name in scores else k.value
             for name, k in known.items()}
    else:
        c = uncertainty.spread_out(known)
    outcome = chain.run(x, c)
    spread_out = quantities(x, outcome, scenario)
    found = spread_out if level is None else {name: _centre(value) for name, value in spread_out.items()}
    right = accuracy(scenario.task, uncertainty.LEVEL if level is None else level)
    share = np.nan if right.value is None else np.where(right.value == 0, np.nan, right.value)

    values = _memory(x, outcome) | found
    values |= {f"speculation.{name}": value for name, value in (per_round(x) or {}).items()}
    values["energy_per_correct_answer"] = answer.energy_per_correct(found["energy_per_answer"], share)
    values["accuracy"] = np.nan if right.value is None else right.value
    money, _ = grid.amounts(scenario, found["energy_per_answer"], found["device_time_per_answer"])
    for name, amount in zip(_MONEY, money, strict=True):
        values[name] = np.nan if amount is None else amount
        values[name.replace("_per_answer", "_per_correct_answer")] = values[name] / share
    if level is not None:
        values |= _intervals(values, spread_out, right, share, level)
    points = Points(values, *_verdict(scenario, x, outcome))
    if level is None:
        return points
    return Points({name: _without_last(value) for name, value in values.items()}, *map(_without_last, points[1:]))


def _memory(x: inputs.Inputs, o: chain.Outcome) -> dict[str, Any]:
    """The memory arithmetic; no largest batch where nothing limits it."""
    unlimited = np.isnan(o.memory["capacity"]) | np.isinf(o.max_batch)
    values = {"batch": x.batch, "max_batch": np.where(unlimited, np.nan, o.max_batch)}
    values |= {f"memory.{name}": value for name, value in o.memory.items()}
    values["memory.headroom"] = o.memory["usable"] - o.memory["weights"] - o.memory["kv_cache"] - o.memory["buffers"]
    return values


def _verdict(scenario: Scenario, x: inputs.Inputs, o: chain.Outcome) -> tuple[Any, Any, Any]:
    """Reason, and where it voids the prediction, and where it refuses even the memory arithmetic."""
    unknown = np.isnan(o.memory["capacity"])
    fits = unknown | (x.batch <= o.max_batch)
    reason = np.where(fits, np.where(unknown, CAPACITY_UNKNOWN, FITS), DOES_NOT_FIT)
    if x.weight is not None:  # distributed lengths are single specs, checked when they were gathered
        return reason, ~fits, False
    longest = x.prompt + x.new_tokens
    reserved = longest if scenario.serving.context is None else float(scenario.serving.context)
    beyond_reserved, beyond_model = inputs.too_long(scenario, longest, reserved)
    beyond_prompt = np.greater(scenario.workload.shared_prefix_tokens, scenario.workload.prompt_tokens)
    refused = beyond_reserved | beyond_model | beyond_prompt
    if np.any(refused):
        reason = np.select([beyond_reserved, beyond_model, beyond_prompt],
                           [BEYOND_RESERVED, BEYOND_MODEL, BEYOND_PROMPT], reason)
    return reason, ~fits | refused, refused


def _intervals(values: dict[str, Any], spread_out: dict[str, Any], right, share, level: float) -> dict[str, Any]:
    """Both ends of every quantity's interval."""
    ends = {}
    for name in QUANTITIES:
        centre = values[name]
        low, high = uncertainty.interval(centre, _spread(spread_out[name]), level)
        ends[f"{name}_interval.low"] = np.where(centre <= 0, centre, low)
        ends[f"{name}_interval.high"] = np.where(centre <= 0, centre, high)
    if right.value is None:
        return ends | dict.fromkeys(_COUNTED, np.nan)
    low, high = uncertainty.per_correct_interval(
        values["energy_per_correct_answer"], _spread(spread_out["energy_per_answer"]), share, right.low, right.high,
        level)
    bound = answer.energy_per_correct(ends["energy_per_answer_interval.low"], right.high)  # all that none correct tells
    low = np.where(np.isnan(share), bound, low)
    return ends | dict(zip(_COUNTED, (low, high, right.low, right.high), strict=True))


def _spread(value):
    """Spread of the logarithm, the last axis kept."""
    return np.asarray(uncertainty.log_spread(value))[..., None] if np.ndim(value) else 0.0


def _centre(value):
    """Value under the constants as they are: the first of the last axis, which is kept."""
    return np.asarray(value)[..., :1] if np.ndim(value) else value


def _without_last(value):
    return np.asarray(value)[..., 0] if np.ndim(value) else value
