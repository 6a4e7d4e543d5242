"""A published measurement made plain: what was run, and what was measured."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

MEASURED = ("output_throughput", "itl", "ttft", "power", "energy_per_token")
"""Columns that a prediction never reads."""


class Point(NamedTuple):
    """One row of a published table in the project's own names, SI units. ``None``: not published."""

    table: str
    row: int
    source: str
    hardware: str
    """Shipped profile."""
    model: str
    """Shipped model."""
    runtime: str
    """Shipped runtime."""
    weights: str | None = None
    """Shipped format; ``None``: as the checkpoint stores them."""
    kv_cache: str | None = None
    phase: str = "serving"
    """``serving`` steady state, ``static`` whole batch, ``decode``, ``prefill``, or ``request``."""
    task: str = ""
    """Workload of the table, where prompts are shared between requests."""
    devices: int = 1
    tensor: int = 1
    expert: int = 1
    data: int = 1
    power_cap: float | None = None
    """Power limit of one device. [W]"""
    max_batch: float | None = None
    """Slots of the engine. [sequence]"""
    batch: float = 1.0
    """Mean number of running sequences. [sequence]"""
    requests: float | None = None
    """Requests sent at once to fill the slots again; ``None``: an endless stream."""
    prompt_tokens: float = 0.0
    output_tokens: float = 1.0
    output_spread: float = 1.0
    """Mean square over squared mean of the output length. [1]"""
    output_maximum: float | None = None
    boundary: str = "board"
    gross: bool = True
    """Whether idle power is inside the energy."""
    output_throughput: float | None = None
    """Output tokens of all devices. [token/s]"""
    itl: float | None = None
    """Median time between tokens. [s]"""
    ttft: float | None = None
    power: float | None = None
    """All devices. [W]"""
    energy_per_token: float | None = None
    """All devices; per prompt token where ``phase`` is prefill. [J/token]"""
    accuracy_task: str = ""
    accuracy: float | None = None
    accuracy_count: float | None = None
    flag: str = ""
    """Why the table's own notes warn of the row."""

    def blank(self) -> Point:
        """The point without anything measured."""
        return self._replace(**dict.fromkeys(MEASURED))

    def series(self) -> tuple:
        """What the rows of one sweep have in common: everything but the numbers that it sweeps."""
        return (self.table, self.hardware, self.model, self.runtime, self.weights, self.kv_cache, self.phase, self.task,
                self.devices, self.tensor, self.expert, self.data, self.boundary)


_TEXT = ("table", "source", "hardware", "model", "runtime", "phase", "task", "boundary", "accuracy_task", "flag")
_NAMES = ("weights", "kv_cache")
_WHOLE = ("row", "devices", "tensor", "expert", "data")


def write(points: Iterable[Point], path: Path) -> None:
    """Write points as a CSV in the order of their fields."""
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(Point._fields)
        for point in points:
            writer.writerow(["" if value is None else f"{value:.7g}" if isinstance(value, float) else value
                             for value in point])


def read(path: Path) -> list[Point]:
    """Points of a CSV that :func:`write` wrote."""
    with path.open(newline="", encoding="utf-8") as handle:
        return [Point(**{name: _value(name, text) for name, text in row.items()}) for row in csv.DictReader(handle)]


def _value(name: str, text: str):
    if name in _TEXT:
        return text
    if name in _NAMES:
        return text or None
    if name == "gross":
        return text == "True"
    if name in _WHOLE:
        return int(text)
    return float(text) if text else None
