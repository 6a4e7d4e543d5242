"""
Which numbers a claim rests on that were fitted on claims or assumed, wherever they are stored.

Constants with a list of ``claims`` or of kind ``assumed``, fields of a device whose source is ``fitted``, and fields
of a scenario whose source is ``fitted`` or ``assumed``. A claim rests on one when a change of it moves the claim.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from joulesim import constants, inputs
from joulesim.scenario import Scenario, build
from joulesim.validate.cases import Gathered, Tweak, gathered, unchanged
from joulesim.validate.claims import Claim, Finding, check

STEP = 0.95
"""Factor by which a number is moved to see what follows; a count moves by one at least."""
MATTERS = 0.01
"""Elasticity above which a claim rests on a number: a tenth more of it moves the claim by more than a thousandth."""
_OWN_KINDS = ("fitted", "assumed")


class Number(NamedTuple):
    """A number without a source of its own."""

    place: str
    """``constants``, ``hardware`` or ``scenario``."""
    holder: str
    """Runtime and device, device, or scenario that holds it."""
    field: str
    value: float
    kind: str
    note: str
    claims: tuple[str, ...] = ()
    """Claims that it was fitted on, where the constant says so."""

    @property
    def name(self) -> str:
        """Where it stands."""
        return f"{self.holder}: {self.field}"


def of_scenario(scenario: Scenario) -> list[Number]:
    """Numbers without a source of their own that a scenario uses."""
    return _constants(scenario) + _device(scenario) + _declared(scenario)


def _constants(scenario: Scenario) -> list[Number]:
    runtime = scenario.runtime.constants_of or scenario.runtime.name
    device = scenario.hardware.name
    own = constants.fitted(runtime).get("devices", {}).get(device, {})
    known = constants.constants(scenario.hardware, scenario.runtime, inputs.expert_format(scenario))
    found = []
    for name, c in known.items():
        on = tuple(own.get(name, {}).get("claims", ()))
        neutral = c.value in (0.0, 1.0) or not isfinite(c.value)
        if on or (c.kind == "assumed" and not neutral):
            found.append(
                Number("constants", f"{runtime}, {device}", name, c.value, "fitted" if on else "assumed", c.ref, on)
            )
    return found


def _device(scenario: Scenario) -> list[Number]:
    hardware = scenario.hardware
    return [
        Number("hardware", hardware.name, field, _at(hardware, field), source.kind, source.note or source.ref)
        for field, source in hardware.sources.items()
        if source.kind == "fitted" and _at(hardware, field) is not None
    ]


def _declared(scenario: Scenario) -> list[Number]:
    found = []
    for field, source in scenario.sources.items():
        if source.kind in _OWN_KINDS:
            found += [
                Number("scenario", _holder(scenario, field), path, value, source.kind, source.note or source.ref)
                for path, value in _leaves(_at(scenario.document, field), field)
            ]
    return found


def _holder(scenario: Scenario, field: str) -> str:
    return f"{scenario.speculation.method} speculation" if field.startswith("speculation") else scenario.name


def _leaves(value: Any, path: str):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and value:
        yield path, float(value)


def _at(value: Any, path: str):
    """Number at a dotted path of a spec or of plain data."""
    for part in path.split("."):
        if isinstance(value, (list, tuple)):
            value = value[int(part)]
        else:
            value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
        if hasattr(value, "power_limit") and not isinstance(value, (int, float)) and path.endswith(f"modes.{part}"):
            value = value.power_limit
    return value


def scaled(number: Number, factor: float) -> Tweak:
    """Tweak that multiplies one number, wherever it is stored."""
    if number.place == "constants":
        runtime, device = number.holder.split(", ")

        def constant(s: Scenario, x, c):
            same = (s.runtime.constants_of or s.runtime.name) == runtime and s.hardware.name == device
            return x, c | {number.field: c[number.field] * factor} if same else c

        return constant

    def declared(s: Scenario, x, c):
        changed = _rebuilt(s, number, factor)
        return (x, c) if changed is None else (changed.inputs, c)

    return declared


_REBUILT: dict[tuple, Gathered | None] = {}


def _rebuilt(scenario: Scenario, number: Number, factor: float) -> Gathered | None:
    """The scenario with a declared number changed; ``None`` where it does not use it."""
    key = (id(scenario), number.name, factor)
    if key not in _REBUILT:
        _REBUILT[key] = None
        here = {n.name: n.value for n in (_device(scenario) if number.place == "hardware" else _declared(scenario))}
        if number.name in here:
            field = f"hardware.{number.field}" if number.place == "hardware" else number.field
            if number.place == "hardware" and hasattr(_spec_at(scenario.hardware, number.field), "power_limit"):
                field += ".power_limit"
            changed = _with(scenario, field, here[number.name] * factor)
            _REBUILT[key] = gathered(changed)
    return _REBUILT[key]


def _spec_at(value: Any, path: str):
    for part in path.split("."):
        value = value[part] if isinstance(value, dict) else getattr(value, part)
    return value


def _with(scenario: Scenario, field: str, value: float) -> Scenario:
    if field.startswith("hardware."):
        return scenario.replace({field: value})
    document = _set(scenario.document, field.split("."), value)
    return build(document, scenario.name, text=False)


def _set(value: Any, path: list[str], new: float) -> Any:
    if not path:
        return (
            min(round(new), value - 1)
            if isinstance(value, int) and new < value
            else round(new)
            if isinstance(value, int)
            else new
        )
    if isinstance(value, list):
        return [_set(v, path[1:], new) if i == int(path[0]) else v for i, v in enumerate(value)]
    return {**value, path[0]: _set(value[path[0]], path[1:], new)}


def together(*tweaks: Tweak) -> Tweak:
    """Tweaks one after the other."""

    def all_of(s, x, c):
        for tweak in tweaks:
            x, c = tweak(s, x, c)
        return x, c

    return all_of


def elasticity(claim: Claim, number: Number, finding: Finding, tweak: Tweak = unchanged) -> float:
    """Largest relative change of what a claim predicts over the relative change of a number. [1]"""
    moved = check(claim, together(tweak, scaled(number, STEP)))
    scale = 1.0 if claim.kind == "order" else 0.0  # a margin is judged against 1, the ratio it is a margin of
    changes = [
        np.max(np.abs(np.subtract(moved.predicted[name], value)) / np.maximum(np.abs(value), scale))
        for name, value in finding.predicted.items()
    ]
    return float(max(changes)) / abs(STEP - 1.0)


def rests_on(claim: Claim) -> tuple[Number, ...]:
    """Fitted and assumed numbers that move a claim."""
    finding = check(claim)
    candidates = {n.name: n for s in claim.scenarios for n in of_scenario(s)}
    return tuple(n for n in candidates.values() if claim.id in n.claims or elasticity(claim, n, finding) > MATTERS)


def role(claim: Claim) -> str:
    """``fit`` when a fitted or assumed number carries the claim, else ``test``."""
    return "fit" if claim.kind != "method" and rests_on(claim) else "test"
