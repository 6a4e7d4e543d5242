"""What makes a row of numbers unusable as a whole: zero counts, no boundary, unknown names, units that slipped."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from joulesim.errors import Fault, InputError, did_you_mean
from joulesim.units import parse

_SLIPS = {parse(f"1 {name}", "joule"): name for name in ("mJ", "uJ", "kJ", "Wh", "kWh")}
"""Units that an energy is often in by mistake, by their size in joules. mWh is not among them: a factor of 3.6 also
comes from idle power that a source subtracted."""
_NEAR = 0.1
"""How near a factor must be to be recognised."""


def check(flat: dict[str, Any], known: Mapping[str, Collection[str]], where: str) -> None:
    """Raise what makes the row unusable as a whole."""
    faults = []
    for field, names in known.items():
        if field in flat and flat[field] not in names:
            hint = did_you_mean(str(flat[field]), names)
            faults.append(Fault(where, f"unknown {field.removeprefix('scenario.')} {flat[field]!r}", hint))
    for field in ("tokens.output", "tokens.requests", "throughput.output", "time", "correctness.attempted"):
        if flat.get(field) == 0:
            faults.append(Fault(where, f"{field}: expected more than 0, got 0", "leave it empty if it is unknown"))
    if "boundary" not in flat and any(field.split(".")[0] in ("energy", "power", "ratios") for field in flat):
        faults.append(Fault(where, "boundary: expected chip, board, module, host or wall, got nothing",
                            "say what the joules include"))
    for field, expected in _expected_energies(flat).items():
        if slip := _slip(flat[field], expected):
            what = f"{field}: {flat[field]:g} looks like {slip}; power and time give {expected:.4g} J"
            faults.append(Fault(where, what, "correct the unit of the column"))
    if faults:
        raise InputError(faults)


def _expected_energies(flat: dict[str, Any]) -> dict[str, float]:
    """What each energy of a row should be by its power and time or rate."""
    expected, power = {}, flat.get("power")
    if power is None:
        return expected
    if "energy" in flat and flat.get("time"):
        expected["energy"] = power * flat["time"]
    for per, rate in (("output_token", "output"), ("prompt_token", "prompt"), ("request", "requests")):
        field = f"ratios.energy_per_{per}"
        if field in flat and flat.get(f"throughput.{rate}"):
            expected[field] = power / flat[f"throughput.{rate}"]
    return expected


def _slip(stated: float, expected: float) -> str:
    """Unit that a stated energy seems to be in, when it is off by a factor between units."""
    if not expected or not stated:
        return ""
    ratio = stated / expected
    return next((name for size, name in _SLIPS.items() if abs(ratio * size - 1) < _NEAR), "")
