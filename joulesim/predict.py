"""
From a scenario to a prediction: gather numbers, run the chain, draw the boundary, divide by correct answers.

:func:`predict` is the whole story; the physics it calls is :func:`joulesim.chain.run`.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from joulesim import capacity, chain, constants, cost, grid, inputs, uncertainty
from joulesim.errors import Fault, InputError
from joulesim.formulas import answer
from joulesim.inputs import Inputs
from joulesim.prediction import Accuracy, Estimate, Prediction
from joulesim.scenario import Scenario, load_scenario
from joulesim.specs.workload import TaskSpec


def predict(scenario: Scenario | str | os.PathLike, level: float = uncertainty.LEVEL) -> Prediction:
    """
    Memory, time, energy and cost of a scenario, per token, per answer and per correct answer.

    Parameters
    ----------
    scenario : Scenario, str or path
        From :func:`joulesim.load_scenario` or :meth:`Scenario.replace`, or a shipped name or a file as there.
    level : float
        Probability that each interval claims.

    Returns
    -------
    Prediction
        Values with intervals; ``None`` where a number is unknown, with the reason in ``reasons``.

    Raises
    ------
    InputError
        When the scenario asks for something that cannot run, or the level is no probability.
    """
    if not 0 < level < 1:
        raise InputError(Fault("level", f"expected a probability between 0 and 1, got {level!r}"))
    scenario = load_scenario(scenario)
    x, unknown, assumptions = inputs.gather(scenario)
    known = constants.constants(scenario.hardware, scenario.runtime, inputs.expert_class(scenario))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not finite, so unknown
        outcome = chain.run(x, uncertainty.spread_out(known))
    fits, verdict = _verdict(outcome, x, scenario)
    _refuse_draft(fits, x, scenario)
    reasons = _reasons(x, unknown, known, scenario)

    totals = quantities(x, outcome, scenario)
    if fits is False:
        totals = dict.fromkeys(totals, np.nan)
        reasons = dict.fromkeys(totals, verdict)
    stacked = np.empty((len(totals), max(map(np.size, totals.values()))))
    for row, total in zip(stacked, totals.values(), strict=True):
        row[:] = total
    ends = uncertainty.interval(stacked[:, 0], uncertainty.log_spread(stacked), level)
    estimates = {name: _estimate(name, *numbers, level, reasons) for name, *numbers in
                 zip(totals, stacked[:, 0].tolist(), *(end.tolist() for end in ends), strict=True)}
    right = accuracy(scenario.task, level)
    return Prediction(
        scenario=scenario,
        feasible=fits,
        reason=verdict,
        level=level,
        inputs=x,
        constants=known,
        outcome=outcome,
        estimates=estimates,
        energy_array=totals["energy_per_answer"],
        accuracy=right,
        energy_per_correct_answer=_per_correct(estimates["energy_per_answer"], right, scenario.task, level),
        money=grid.bill(scenario, estimates, right),
        assumptions=assumptions,
        reasons=reasons,
    )


def quantities(x: Inputs, o: chain.Outcome, scenario: Scenario) -> dict[str, Any]:
    """Everything predicted that is a time, a rate or an energy, as arrays over the constants."""
    decoding, filling = o.decode, o.prefill
    time = decoding.time + filling.time
    steps, first = np.where(o.steps > 0, o.steps, np.nan), o.first_token
    attempts = attempts_per_answer(scenario.task)
    each = {name: value * attempts / x.batch for name, value in components(x, o, scenario.boundary).items()}
    per_answer = sum(each.values())
    held = attempts * time / x.batch / x.utilisation
    return {
        "ttft": first,
        "tpot": (time - first) / steps,
        "e2e_latency": time,
        "output_throughput": x.batch * o.output_tokens / time,
        "power": per_answer / held,
        "energy_per_output_token": per_answer / attempts / o.output_tokens,
        "energy_per_request": per_answer / attempts,
        "energy_per_answer": per_answer,
        "idle_energy_per_answer": each["idle"],
        "energy_above_idle_per_answer": per_answer - x.devices * x.resident_power * held,
        "device_time_per_answer": held * x.devices,
        **{f"breakdown.{name}": value for name, value in each.items()},
    }


def components(x: Inputs, o: chain.Outcome, boundary: str) -> dict[str, Any]:
    """
    Energy of a round by component at a boundary; their sum is the round's energy. [J]

    ``chip`` leaves out the memory devices' share, ``host`` adds the host, ``wall`` the supply's loss.
    """
    busy = o.prefill.time + o.decode.time
    idle = busy * (1.0 / x.utilisation - 1.0)
    found = {name: a + b for name, a, b in zip(cost.Energy._fields, o.prefill.energy, o.decode.energy, strict=True)}
    if boundary == "chip":
        found["memory"] = found["memory"] * x.chip_share_of_memory_energy
    found["idle"] = np.where(idle > 0, idle * x.devices * x.resident_power, 0.0)
    if boundary in ("host", "wall"):
        found["host"] = x.devices * x.host_power * (busy + idle)
    if boundary == "wall":
        found["psu_loss"] = sum(found.values()) * (1.0 / x.psu_efficiency - 1.0)
    return found


def attempts_per_answer(task: TaskSpec) -> float:
    """Requests paid for each answer: tries, times the samples of a vote or of pass@k."""
    return task.attempts_per_answer * task.samples


def accuracy(task: TaskSpec, level: float) -> Accuracy:
    """Share of answers that are correct, from counts; unknown without counts."""
    if task.correct is None:
        return Accuracy(None, None, None, "task.correct and task.attempted were not given")
    low, high = answer.wilson(task.correct, task.attempted, uncertainty.quantile(level))
    value = task.correct / task.attempted
    if task.method == "pass@k" and task.counts_of == "attempt":
        value = float(answer.pass_at_k(task.attempted, task.correct, task.samples))
        low, high = (1.0 - (1.0 - end) ** task.samples for end in (low, high))
    return Accuracy(value, low, high, "")


def _per_correct(energy: Estimate, right: Accuracy, task: TaskSpec, level: float) -> Estimate:
    """Energy of all answers over the correct ones; with none correct only a lower bound is known."""
    if energy.value is None:
        return energy
    if right.value is None:
        return Estimate(None, None, None, level, right.reason)
    if right.value == 0:
        bound = answer.energy_per_correct(energy.low, right.high)
        return Estimate(None, bound, None, level, f"none of {task.attempted} attempts was correct: only a lower bound")
    value = answer.energy_per_correct(energy.value, right.value)
    spread = math.log(energy.high / energy.low) / 2 / uncertainty.quantile(level)
    low, high = uncertainty.per_correct_interval(value, spread, *right[:3], level)
    return Estimate(value, float(low), float(high), level, "")


def _estimate(name: str, centre: float, low: float, high: float, level: float, reasons: dict[str, str]) -> Estimate:
    if not math.isfinite(centre):
        return Estimate(None, None, None, level, _why(name, reasons))
    if centre <= 0:
        return Estimate(centre, centre, centre, level, "")
    return Estimate(centre, low, high, level, "")


_TIMES = ("ttft", "tpot", "e2e_latency", "output_throughput", "device_time_per_answer")


def _why(name: str, reasons: dict[str, str]) -> str:
    return reasons.get(name) or reasons["time" if name in _TIMES else "energy"]


def _reasons(x: Inputs, unknown: list[inputs.Unknown], known: dict[str, constants.Constant],
             scenario: Scenario) -> dict[str, str]:
    """Why a time or an energy is unknown, if it is."""
    hardware = scenario.hardware
    slow = [u for u in unknown if u.field != "hardware.memory_capacity" and "power" not in u.field]
    needs = {f"hardware.{field}": hardware.why_unknown(field) for c in known.values() for field in c.needs}
    dear = {u.field: u.reason for u in unknown if u.field != "hardware.memory_capacity"} | needs
    if scenario.serving.utilisation < 1 and hardware.idle_power.resident is None:
        dear["hardware.idle_power.resident"] = hardware.why_unknown("idle_power.resident")
    if scenario.boundary in ("host", "wall") and hardware.system.host_power is None:
        dear["hardware.system.host_power"] = hardware.why_unknown("system.host_power")
    if scenario.boundary == "wall" and hardware.system.psu_efficiency is None:
        dear["hardware.system.psu_efficiency"] = hardware.why_unknown("system.psu_efficiency")
    if scenario.boundary == "chip" and hardware.chip_share_of_memory_energy is None:
        dear["hardware.chip_share_of_memory_energy"] = hardware.why_unknown("chip_share_of_memory_energy")

    starved = x.power_limit * known["limit_margin"].value <= known["power_residual"].value * known["static_power"].value
    otherwise = "the power limit is below static power" if starved else "a number is too large or too small to compute with"

    def sentence(fields) -> str:
        return "; ".join(f"{field} is unknown ({why})" for field, why in fields) or otherwise

    above = f"hardware.idle_power.resident is unknown ({hardware.why_unknown('idle_power.resident')})"
    return {
        "time": sentence((u.field, u.reason) for u in slow),
        "energy": sentence(dear.items()),
        "tpot": "one output token has no decode step" if np.max(x.new_tokens) <= 1
        else sentence((u.field, u.reason) for u in slow),
        "energy_above_idle_per_answer": above if not dear else sentence(dear.items()),
    }


def _verdict(o: chain.Outcome, x: Inputs, scenario: Scenario) -> tuple[bool | None, str]:
    """Whether the deployment fits, and the arithmetic in one line."""
    parts = {name: float(value) for name, value in o.memory.items()}
    if math.isnan(parts["capacity"]):
        why = scenario.hardware.why_unknown("memory_capacity")
        return None, f"hardware.memory_capacity is unknown ({why})"
    needed = parts["weights"] + parts["kv_cache"] + parts["buffers"]
    mib = 2.0**20
    sums = (f"{needed / mib:,.0f} MiB (weights {parts['weights'] / mib:,.0f}, KV cache {parts['kv_cache'] / mib:,.0f}, "
            f"buffers {parts['buffers'] / mib:,.0f}) of {parts['usable'] / mib:,.0f} MiB usable")
    if x.batch <= float(o.max_batch):
        return True, f"fits: {sums}"
    short = (needed - parts["usable"]) / mib
    return False, f"does not fit: needs {sums}, {short:,.0f} MiB too much; largest batch {float(o.max_batch):.0f}"


def _refuse_draft(fits: bool | None, x: Inputs, scenario: Scenario) -> None:
    """A draft that does not fit beside a target that fits alone."""
    if fits is not False or x.speculation is None:
        return
    alone = x._replace(speculation=None)
    if x.batch <= float(capacity.largest_batch(alone, capacity.memory_parts(alone))):
        parts, mib = capacity.memory_parts(x), 2.0**20
        over = sum(float(parts[name]) for name in ("weights", "kv_cache", "buffers")) - float(parts["usable"])
        raise InputError(Fault("speculation.draft_model", f"expected a draft that fits beside {scenario.model.name}, got one "
                               f"that needs {over / mib:,.0f} MiB too much", "take a smaller draft, context or batch"))
