"""
A device that does not exist: another one with some numbers changed, and what that does to its power.

``memory_bandwidth: x2`` in a profile that starts from a ``base`` is a factor on the base's number. A factor makes the
profile hypothetical, and then :class:`CarryOver` has to say what happens to powers and energies that no datasheet
gives.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from joulesim import units
from joulesim.errors import Fault, InputError
from joulesim.specs.base import Spec

_FACTOR = re.compile(r"\s*[x×]\s*(\d+\.?\d*|\.\d+)\s*$")
_QUANTITY = re.compile(r"\s*([\d_.]+(?:[eE][+-]?\d+)?)\s*(.*)$")

MEASURED = {
    "memory_bandwidth": "measured_memory_bandwidth",
    **{f"compute_rate.{kind}": f"measured_compute_rate.{kind}" for kind in ("fp32", "fp16", "int8", "fp8", "fp4")},
}
"""Datasheet rate to the sustained rate that somebody measured: where only the former changes, their ratio stays."""

_RULES = {
    "memory_bandwidth": ("static_power", "energy_per_byte"),
    "memory_capacity": ("static_power",),
    "memory_kind": ("energy_per_byte",),
    "compute_rate": ("static_power", "energy_per_operation"),
    "process_node": ("static_power", "energy_per_operation"),
}
"""What has to be said when a field of a hypothetical profile differs from the base's."""
_MEANING = {
    "static_power": "static power", "energy_per_byte": "the energy per byte",
    "energy_per_operation": "the energy per operation",
}


def factor(value: Any) -> float | None:
    """Factor of a text such as ``x2``; ``None`` for anything else."""
    match = _FACTOR.match(value) if isinstance(value, str) else None
    return float(match.group(1)) if match else None


def _carried(unit: str):
    """Field type: ``kept``, a factor such as ``x1.2``, or with a unit the new number."""

    def read(value: Any):
        if value is None or isinstance(value, tuple):
            return value
        if value == "kept":
            return ("x", 1.0)
        if factor(value) is not None:
            return ("x", factor(value))
        if unit and isinstance(value, str):
            try:
                return ("=", units.parse(value, unit))
            except units.UnitError as fault:
                raise ValueError(f"{fault.what}; {fault.remedy}") from None
        example = f", or a number with its unit such as {'40 pJ/B'!r}" if unit else ""
        raise ValueError(f"expected kept or a factor such as x1.2{example}, got {value!r}")

    return Annotated[tuple[str, float] | None, BeforeValidator(read)]


class CarryOver(Spec):
    """What happens to powers and energies on the way from a real device to a hypothetical one."""

    static_power: _carried("") = None
    """Of static, idle and resident power."""
    energy_per_byte: _carried("joule/byte") = None
    """Of device-memory traffic; near-memory compute or another memory type says its own."""
    energy_per_operation: _carried("") = None
    """Of arithmetic, unpacking and clock-on power."""


def resolve(start: Mapping[str, Any], changes: Mapping[str, Any], where: str) -> dict[str, Any]:
    """
    The changes with factors worked out, measured rates taken along, and hypothetical numbers marked.

    Parameters
    ----------
    start, changes : mapping
        Plain data of the base profile and of what differs from it.
    where : str
        What faults are reported on.

    Raises
    ------
    InputError
        When a hypothetical profile leaves unsaid what happens to a power or an energy.
    """
    factors = {path: by for path, value in _leaves(changes)
               if (by := factor(value)) is not None and not path.startswith("carry_over")}
    changes = _plain(changes)
    for path, by in factors.items():
        _put(changes, path, _times(_at(start, path), by, f"{where}: {path}"))
    for rate, measured in MEASURED.items():
        new, old, known = _at(changes, rate), _at(start, rate), _at(start, measured)
        if new is not None and old is not None and known is not None and _at(changes, measured) is None:
            unit = "byte/second" if rate == "memory_bandwidth" else "FLOP/second"
            try:
                sustained, now, before = (units.quantity(number, unit, where) for number in (known, new, old))
                value = sustained * now / before
            except (InputError, ZeroDivisionError):
                continue  # the profile's own check says what is wrong with it
            if not 0 < value < math.inf:
                continue
            _put(changes, measured, f"{value!r} {unit}")
    if not factors and "carry_over" not in changes:
        return changes
    return _hypothetical(start, changes, factors, where)


def _hypothetical(start: Mapping[str, Any], changes: dict[str, Any], factors: dict[str, float],
                  where: str) -> dict[str, Any]:
    before = start.get("carry_over")
    said = (before if isinstance(before, Mapping) else {}) | changes.get("carry_over", {})
    faults = []
    for field, needed in _RULES.items():
        if field not in changes or changes[field] == start.get(field):
            continue
        for name in needed:
            if said.get(name) is None:
                faults.append(Fault(
                    f"{where}: carry_over.{name}", f"expected what happens to {_MEANING[name]} when {field} "
                    "changes (kept, or a factor such as x1.2), got nothing", "say it"))
    if faults:
        raise InputError(list({f.where: f for f in faults}.values()))
    base = str(start.get("name", "its base"))
    marked = {path: {"kind": "hypothetical", "ref": f"x{by:g} of {base}"} for path, by in factors.items()}
    marked |= {MEASURED[path]: mark for path, mark in marked.items() if path in MEASURED}
    still = factor(said.get("static_power")) or 1.0
    if still != 1.0 and "idle_power" not in changes and isinstance(start.get("idle_power"), (Mapping, Spec)):
        idle = {state: _at(start, f"idle_power.{state}") for state in ("empty", "resident")}
        changes["idle_power"] = {state: _times(value, still, f"{where}: idle_power.{state}")
                                 for state, value in idle.items() if value is not None}
        marked |= {f"idle_power.{state}": {"kind": "hypothetical", "ref": f"x{still:g} of {base}, as static power"}
                   for state in changes["idle_power"]}
    name = changes.get("name", base)
    if name == base:
        name = f"{base} ({', '.join(f'{path} x{by:g}' for path, by in factors.items()) or 'hypothetical'})"
    sources = marked | dict(changes.get("sources", {}))
    return changes | {"name": name, "sources": sources, "derived_from": dict(start), "same_die_as": None}


def _leaves(data: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        inner = f"{path}.{name}" if path else str(name)
        if isinstance(value, Mapping):
            yield from _leaves(value, inner)
        else:
            yield inner, value


def _plain(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) if isinstance(value, Mapping) else value for name, value in data.items()}


def _at(data: Any, path: str) -> Any:
    for part in path.split("."):
        data = data.get(part) if isinstance(data, Mapping) else getattr(data, part, None)
    return data


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for part in parents:
        data = data.setdefault(part, {})
    data[last] = value


def _times(value: Any, by: float, where: str) -> Any:
    """A number or a quantity as text, times a factor."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value * by
    match = _QUANTITY.match(value) if isinstance(value, str) else None
    if match is None:
        raise InputError(Fault(where, f"expected a number in the base to take x{by:g} of, got {value!r}",
                               "give the number itself"))
    return f"{float(match.group(1).replace('_', '')) * by!r} {match.group(2)}".strip()
