"""
A measurement read backwards: which batch, share of the bandwidth or efficiency explains a throughput and a power.

Two kinds of reading. The roofline alone gives bounds that need no constant. The chain with its constants gives the
value of one unknown that makes the prediction equal the measurement, everything else as the scenario says.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from joulesim import capacity, chain, constants, inputs
from joulesim.errors import Fault, InputError
from joulesim.formulas import inversion
from joulesim.inputs import Inputs
from joulesim.scenario import Scenario

_GRID = 400
_MOST = 16384.0
"""Largest batch that is tried. [sequence]"""


class Reading(NamedTuple):
    """One number read off a measurement; ``None`` where nothing explains it, with the reason."""

    name: str
    value: float | None
    unit: str
    meaning: str
    reason: str = ""


def invert(scenario: Scenario, throughput: float, power: float | None = None) -> list[Reading]:
    """
    Readings of a measured throughput, and of a measured power.

    Parameters
    ----------
    scenario : Scenario
        What ran. Its batch is one of the answers; the readings at a batch take it from here.
    throughput : float
        Output tokens of all devices. [token/s]
    power : float, optional
        All devices, at the boundary of a board. [W]
    """
    for name, value in (("throughput", throughput), ("power", power)):
        if value is not None and not 0 < value < np.inf:
            raise InputError(Fault(f"--{name}", f"expected more than 0, got {value!r}"))
    x, _, _ = inputs.gather(scenario)
    if x.pipeline > 1:
        raise InputError(Fault("serving.parallelism.pipeline",
                               f"expected 1 to read a throughput backwards, got {x.pipeline:g}"))
    known = constants.constants(scenario.hardware, scenario.runtime, inputs.expert_class(scenario))
    c = {name: constant.value for name, constant in known.items()}
    readings = _roofline(x, throughput) + _chain(x, c, throughput)
    return readings if power is None else readings + _power(x, c, throughput, power)


def _roofline(x: Inputs, throughput: float) -> list[Reading]:
    """What traffic at the datasheet's bandwidth says, whatever the engine."""
    devices = x.devices
    rate = throughput / x.data
    weights = (x.dense.bytes + x.output.bytes + x.routed.bytes) / x.tensor
    _, decode = _traffic(x)
    cache = decode / x.tensor
    bare = inversion.least_batch(rate, weights, x.memory_bandwidth)
    full = inversion.least_batch(rate, weights, x.memory_bandwidth, cache)
    flops = rate / x.tensor * sum(m.flops_per_row + m.narrow_flops_per_row for m in (x.dense, x.output))
    flops += rate / x.tensor * (x.routed.flops_per_row + x.routed.narrow_flops_per_row) * (
        x.experts_per_token / max(x.experts_routed, 1.0))
    seconds = rate / x.tensor * sum(m.seconds_per_row + m.narrow_seconds_per_row for m in (x.dense, x.output))
    share = inversion.bandwidth_share(rate, x.batch / x.data, weights, x.memory_bandwidth, cache)
    return [
        Reading("least_batch_weights", float(bare) * x.data, "",
                f"sequences per pass over the weights ({weights / 1e9:.1f} GB a device), at the datasheet's bandwidth"),
        Reading("least_batch_weights_and_cache", *((float(full) * x.data, "") if full > 0 else (None, "")),
                "the same with every sequence's cache read in each step",
                "" if full > 0 else "the caches alone need more than the bandwidth"),
        Reading("bandwidth_share", float(share), "", f"of the datasheet's bandwidth at batch {x.batch:g}"
                + ("; above 1: that batch cannot explain the throughput" if share > 1 else "")),
        Reading("compute_share", float(seconds), "", "of dense peak time in matrix products of output tokens (MFU)"),
        Reading("arithmetic", float(flops) * devices, "FLOP/s", "matrix products of output tokens, all devices"),
    ]


def _traffic(x: Inputs):
    """Weights and cache that one sequence's step reads, all devices. [B]"""
    middle = x.prompt + x.new_tokens / 2.0
    return 0.0, inputs.mean(capacity.growing_bytes(x._replace(tensor=1.0), middle), x)


def _rate(x: Inputs, c, batch=None):
    """Output tokens of all devices under the chain. [token/s]"""
    x = x if batch is None else x._replace(batch=batch)
    outcome = chain.run(x, c)
    return x.batch * outcome.output_tokens / (outcome.prefill.time + outcome.decode.time), outcome


def _chain(x: Inputs, c: dict[str, Any], throughput: float) -> list[Reading]:
    """The batch, or else the efficiency, with which the chain predicts the measured throughput."""
    batches = np.geomspace(1.0, _MOST, _GRID) * x.data
    rates = np.array([float(_rate(x, c, b)[0]) for b in batches])
    return [_crossing("batch", batches, rates, throughput, "",
                      "sequences with which the chain predicts the throughput"),
            _scaled("bandwidth_efficiency", x, c, throughput), _scaled("compute_efficiency", x, c, throughput)]


def _scaled(name: str, x: Inputs, c: dict[str, Any], throughput: float) -> Reading:
    values = np.geomspace(0.02, 1.5, _GRID)
    also = {"compute_efficiency": "narrow_compute_efficiency"}.get(name, name)
    rates = np.array([float(_rate(x, c | {name: v, also: v})[0]) for v in values])
    return _crossing(name, values, rates, throughput, "", f"with which the chain predicts the throughput at batch "
                     f"{x.batch:g} (its constant is {float(c[name]):.3g})")


def _crossing(name: str, values, rates, target: float, unit: str, meaning: str) -> Reading:
    """Where a rate first reaches a target, interpolated in logarithms."""
    above = np.nonzero(rates >= target)[0]
    if not np.all(np.isfinite(rates)):
        return Reading(name, None, unit, meaning, "the chain lacks a number for this scenario; `joulesim predict` names it")
    if not len(above):
        return Reading(name, None, unit, meaning, f"the chain reaches at most {rates.max():.4g} token/s")
    at = above[0]
    if at == 0:
        return Reading(name, None, unit, meaning, f"even {values[0]:.3g} gives {rates[0]:.4g} token/s, more than measured")
    share = np.log(target / rates[at - 1]) / np.log(rates[at] / rates[at - 1])
    return Reading(name, float(values[at - 1] * (values[at] / values[at - 1]) ** share), unit, meaning)


def _power(x: Inputs, c: dict[str, Any], throughput: float, power: float) -> list[Reading]:
    """What the measured power says at the scenario's batch."""
    rate, outcome = _rate(x, c)
    time = outcome.prefill.time + outcome.decode.time
    energy = sum(sum(p.energy) for p in (outcome.prefill, outcome.decode))
    static = sum(p.energy.static for p in (outcome.prefill, outcome.decode))
    devices = x.devices
    predicted, idle = float(energy / time), float(static / time)
    limit = x.power_limit * devices
    moved = sum(p.work.bytes for p in (outcome.prefill, outcome.decode)) * devices / (x.batch * outcome.output_tokens)
    return [
        Reading("energy_per_token", power / throughput, "J", "measured power over measured throughput"),
        Reading("power_over_predicted", power / predicted, "", f"the chain predicts {predicted:.4g} W at batch {x.batch:g}"),
        Reading("power_over_limit", float(power / limit), "", "of the power limit of all devices"),
        Reading("energy_per_byte_at_most", max(power - idle, 0.0) / throughput / float(moved) if power > idle else None, "J/B",
                "power above static over bytes moved, if traffic cost everything",
                "" if power > idle else f"the power is below the static {idle:.4g} W"),
    ]
