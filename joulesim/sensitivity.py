"""How far each number moves the energy per correct answer: what to measure next, what to buy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from joulesim import chain, constants, inputs
from joulesim.errors import Fault, InputError
from joulesim.predict import accuracy, predict, quantities
from joulesim.scenario import Scenario
from joulesim.specs.base import Spec

_STEP = 1.01
_DEVICE = (
    "memory_bandwidth",
    "memory_capacity",
    "compute_rate.fp16",
    "compute_rate.fp32",
    "compute_rate.int8",
    "compute_rate.fp8",
    "power_limit",
    "idle_power.resident",
    "system.host_power",
    "system.psu_efficiency",
    "link_bandwidth",
    "chip_share_of_memory_energy",
)
_DECLARED = ("workload", "serving", "task", "speculation", "power_cap")


class Effect(NamedTuple):
    """A number with its elasticity."""

    name: str
    group: str
    """``constant``, ``hardware`` or ``scenario``."""
    value: float
    elasticity: float
    """Relative change of energy per correct answer over relative change of the number. [1]"""
    spread: float | None
    """Spread of the logarithm, where the number is uncertain; times the elasticity it is the uncertainty it causes."""
    source: str


def effects(scenario: Scenario) -> list[Effect]:
    """
    Elasticity of the energy per correct answer to every number, the largest first; those without effect left out.

    Raises
    ------
    InputError
        When the energy is unknown: nothing can be said to move it.
    """
    energy = predict(scenario).estimates["energy_per_answer"]
    if energy.value is None:
        raise InputError(Fault(scenario.name, f"expected a known energy per answer, got none: {energy.reason}",
                               "change that with --set"))
    found = [*_constants(scenario), *_declared(scenario)]
    return sorted((e for e in found if abs(e.elasticity) > 1e-4), key=lambda e: -abs(e.elasticity))


def _energy(scenario: Scenario, c: dict[str, Any] | None = None):
    x = inputs.gather(scenario)[0]
    if c is None:
        c = {name: constant.value for name, constant in _known(scenario).items()}
    right = accuracy(scenario.task, 0.8).value
    return quantities(x, chain.run(x, c), scenario)["energy_per_answer"] / (right or 1.0)


def _known(scenario: Scenario):
    return constants.constants(scenario.hardware, scenario.runtime, inputs.expert_class(scenario))


def _constants(scenario: Scenario) -> Iterator[Effect]:
    """One pass of the chain over all constants, each a step up in its own column."""
    known = _known(scenario)
    moved = {
        name: np.where(np.arange(len(known) + 1) == column, k.value * _STEP, k.value)
        for column, (name, k) in enumerate(known.items(), start=1)
    }
    energy = np.broadcast_to(_energy(scenario, moved), len(known) + 1)
    for column, (name, k) in enumerate(known.items(), start=1):
        if k.value and np.isfinite(k.value) and not name.endswith("_residual"):
            yield Effect(
                name, "constant", k.value, _elasticity(energy[column], energy[0], _STEP), k.spread, f"{k.kind}: {k.ref}"
            )


def _declared(scenario: Scenario) -> Iterator[Effect]:
    """Each number of the scenario and its device moved a little; where both ways are open, the gentler slope counts."""
    start = float(_energy(scenario))
    for group, field, value, source in (*_of_device(scenario), *_of_scenario(scenario)):
        slopes = []
        for moved in _neighbours(value):
            try:
                energy = float(_energy(_with(scenario, field, moved)))
            except InputError:  # a share above 1, a count above its total: the other side is left
                continue
            slopes.append(_elasticity(energy, start, moved / value))
        if slopes:
            yield Effect(field, group, value, min(slopes, key=abs), None, source)


def _neighbours(value: float | int) -> tuple[float | int, ...]:
    """The number a little up and a little down; counts by one. A step into another kernel is no slope."""
    if isinstance(value, int):
        return (value + 1, value - 1) if value > 1 else (value + 1,)
    return value * _STEP, value / _STEP


def _with(scenario: Scenario, field: str, value: float | int) -> Scenario:
    """The scenario with a number changed, also within a list."""
    head, *path = field.split(".")
    cut = next((i for i, part in enumerate(path) if part.isdigit()), None)
    if cut is None:
        return scenario.replace({field: value})
    listed: Any = scenario.document[head]
    for part in path[:cut]:
        listed = listed[part]
    return scenario.replace({".".join([head, *path[:cut]]): _set(listed, path[cut:], value)})


def _set(value: Any, path: list[str], new: float | int) -> Any:
    if not path:
        return new
    if isinstance(value, list):
        return [_set(v, path[1:], new) if i == int(path[0]) else v for i, v in enumerate(value)]
    return {**value, path[0]: _set(value[path[0]], path[1:], new)}


def _elasticity(moved, start, step) -> float:
    return float(np.log(moved / start) / np.log(step))


def _of_device(scenario: Scenario):
    for field in _DEVICE:
        value: Any = scenario.hardware
        for part in field.split("."):
            value = getattr(value, part)
        if isinstance(value, float):
            yield "hardware", f"hardware.{field}", value, _where(scenario.hardware, field)
    mode = scenario.power_mode
    if mode and scenario.hardware.power_modes[mode].power_limit:
        field = f"power_modes.{mode}.power_limit"
        yield (
            "hardware",
            f"hardware.{field}",
            scenario.hardware.power_modes[mode].power_limit,
            _where(scenario.hardware, field),
        )


def _of_scenario(scenario: Scenario):
    for part in _DECLARED:
        yield from _leaves(scenario, scenario.document.get(part), part)


def _leaves(scenario: Scenario, value: Any, path: str):
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(scenario, inner, f"{path}.{key}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and value:
        yield "scenario", path, value, _where(scenario, path)


def _where(spec: Spec, field: str) -> str:
    source = spec.source(field)
    return f"{source.kind}: {source.note or source.ref}" if source else "declared"
