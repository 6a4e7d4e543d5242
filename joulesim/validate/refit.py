"""
Refit of the numbers fitted on claims, with one note left out: is its finding predicted by the others?

A number that carries the note is set free and fitted to the claims of the other notes, held near the value that does
without any claim (``_WITHOUT``); the rest keeps its value. A claim that rests on a number of which only its own note
knows anything has no evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from joulesim.errors import InputError
from joulesim.validate.cases import Tweak, unchanged
from joulesim.validate.claims import Claim, Finding, check, load
from joulesim.validate.numbers import Number, rests_on, scaled, together

_WITHOUT: Mapping[str, tuple[float, float]] = {
    "attention_instructions": (1.0, 0.7),
    "cache_unpack_instructions": (2.0, 0.7),
    "energy_per_instruction": (11e-12, 0.8),
    "row_instructions": (1.0, 0.5),
    "layer_overhead": (54e-6, 0.5),
    "active_power": (3.0, 1.0),
    "chip_share_of_memory_energy": (0.5, 0.7),
    "power_modes.battery": (60.0, 0.3),
    "speculation.acceptance.confidence_curve.0.drafted": (200.0, 1.0),
    "speculation.acceptance.confidence_curve.0.accepted": (20.0, 1.0),
    "speculation.acceptance.confidence_curve.1.accepted": (600.0, 0.15),
}
"""What kernels, rules and published counts say of a number before any claim, and the spread of its logarithm."""
_HELD = ("speculation.draft_length",)
"""Whole numbers that cannot be fitted in small steps: kept as shipped."""
_LARGEST = 12
"""Most steps of a fit."""
_IMPOSSIBLE = 10.0
"""Miss of every claim where the numbers contradict each other."""


class LeftOut(NamedTuple):
    """A note predicted without its own claims."""

    note: str
    findings: tuple[Finding, ...]
    numbers: dict[str, float]
    """Refitted values by name."""


def leave_one_note_out() -> list[LeftOut]:
    """Every note whose claims rest on fitted numbers, predicted from the others; the rest as they are."""
    claims = load()
    rest = {c.id: tuple(n for n in rests_on(c) if n.kind == "fitted") for c in claims if c.kind != "method"}
    found = []
    for note in dict.fromkeys(c.note for c in claims):
        inside = [c for c in claims if c.note == note]
        free = {n.name: n for c in inside for n in rest.get(c.id, ()) if n.field not in _HELD}
        others = [c for c in claims if c.note != note and any(n.name in free for n in rest.get(c.id, ()))]
        elsewhere = {n.name for c in others for n in rest[c.id]}
        unknown = {name for name, n in free.items() if n.field not in _WITHOUT and name not in elsewhere}
        values, tweak = _fit([n for n in free.values() if n.name not in unknown], others)
        found.append(
            LeftOut(
                note,
                tuple(_without(check(c, tweak), unknown & {n.name for n in rest.get(c.id, ())}) for c in inside),
                values,
            )
        )
    return found


def _without(finding: Finding, unknown: set[str]) -> Finding:
    if not unknown:
        return finding
    return finding._replace(verdict="no evidence", why=f"nothing else says what {', '.join(sorted(unknown))} is")


def _fit(numbers: list[Number], claims: list[Claim]) -> tuple[dict[str, float], Tweak]:
    from joulesim.validate.fit import scipy

    if not numbers:
        return {}, unchanged
    start, spread = [], []
    for n in numbers:
        value, width = _WITHOUT.get(n.field, (n.value, 1.0))
        start.append(np.log(value / n.value))
        spread.append(width)
    start, spread = np.array(start), np.array(spread)

    def tweak(p) -> Tweak:
        return together(*(scaled(n, float(np.exp(v))) for n, v in zip(numbers, p, strict=True)))

    def residuals(p):
        change = tweak(p)
        try:
            missed = [_misses(check(c, change)) for c in claims]
        except InputError:  # counts that cannot be
            missed = [_IMPOSSIBLE] * len(claims)
        return np.concatenate([missed, (p - start) / spread])

    best = scipy("optimize").least_squares(residuals, start, diff_step=0.02, max_nfev=_LARGEST).x
    return {n.name: n.value * float(np.exp(v)) for n, v in zip(numbers, best, strict=True)}, tweak(best)


def _misses(finding: Finding) -> float:
    """Distance from what was published, in halves of the accepted range; how far an order is from its margin."""
    claim, worst = finding.claim, 0.0
    if claim.kind == "order":
        least = min(float(np.min(v)) for v in finding.predicted.values())
        return max(0.0, 0.03 - least) / 0.03
    ranges = claim.accept if isinstance(claim.accept, dict) else {"value": claim.accept}
    for name, (low, high) in ranges.items():
        for value in np.ravel(finding.predicted[name]):
            worst = max(worst, abs(float(value) - (low + high) / 2.0) / ((high - low) / 2.0 or 1.0), key=abs)
    return worst
