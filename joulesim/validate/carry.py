"""Bring a published table into the project's own columns, thinned by a rule where it is long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from joulesim import catalogue
from joulesim.validate import points, tables
from joulesim.validate.points import Point


def thinned(given: Sequence[Point], every: int) -> list[Point]:
    """The first and then each ``every``-th measured row of a device, model, runtime and phase, in the order of the table."""
    met: Counter = Counter()
    kept = []
    for p in given:
        if p.energy_per_token is None and p.power is None:
            continue
        key = (p.hardware, p.model, p.runtime, p.weights, p.phase)
        if met[key] % every == 0:
            kept.append(p)
        met[key] += 1
    return kept


def carry(path: Path, every: int = 1) -> Path:
    """Write ``validation/published/<table>.csv`` from a table in the columns of the published ones."""
    target = catalogue.data_root() / "validation" / "published" / path.name
    points.write(thinned(tables.read(path).points, every), target)
    return target
