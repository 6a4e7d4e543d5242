"""A sweep cut into pieces: combinations of discrete values, chunks that are stored whole, tiles that fit the cache."""

from __future__ import annotations

import contextlib
import ctypes
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from joulesim.errors import InputError
from joulesim.prediction import QUANTITIES
from joulesim.scenario import Scenario
from joulesim.sweep import points
from joulesim.sweep.axes import Axis, id_of
from joulesim.units import symbol

TILE = 1 << 13
"""Points evaluated at once: the intermediate arrays of so many points pass through the second-level cache."""
GRID_TILE = 1 << 16
"""The same where most intermediates depend on some dimensions only, and are small."""

_KEPT = 1 << 25
"""Memory that stays with the process between tiles. [B]"""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Of glibc's ``malloc.h``; see mallopt(3)."""

Region = tuple[slice, ...]
"""Where a piece lies along each dimension."""


class Group(NamedTuple):
    """One combination of discrete values."""

    scenario: Scenario | None
    """``None`` where the combination is refused."""
    reason: int
    region: Region


@dataclass(frozen=True)
class Plan:
    """All that a worker needs to evaluate any piece of a sweep."""

    scenario: Scenario
    axes: tuple[Axis, ...]
    groups: tuple[Group, ...]
    legend: dict[int, str]
    variables: tuple[str, ...]
    level: float | None = None
    scores: dict[str, np.ndarray] = field(default_factory=dict)
    """Standard normal score of each drawn constant along the last dimension, ``draw``."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along each dimension."""
        return tuple(axis.size for axis in self.axes)

    @property
    def size(self) -> int:
        """Points in all."""
        return math.prod(self.shape)

    @property
    def bytes_per_point(self) -> int:
        """Size of a point's results. [B]"""
        return sum(dtype_of(name).itemsize for name in self.variables)

    @property
    def whole(self) -> Region:
        """All of the sweep."""
        return tuple(slice(0, n) for n in self.shape)

    def part(self, region: Region) -> Plan:
        """The same for a piece of the sweep alone: what is sent to a worker."""
        axes = tuple(axis.part(at) for axis, at in zip(self.axes, region, strict=True))
        groups = tuple(group._replace(region=shifted(inside, region)) for group in self.groups
                       if (inside := overlap(group.region, region)))
        scores = {name: z[region[-1]] for name, z in self.scores.items()}
        return replace(self, axes=axes, groups=groups, scores=scores)

    def allocate(self) -> dict[str, np.ndarray]:
        """Arrays for every variable."""
        return {name: np.empty(self.shape, dtype_of(name)) for name in self.variables}

    def fill(self, out: dict[str, np.ndarray], region: Region | None = None) -> None:
        """Evaluate a piece, or everything, tile by tile into arrays of the whole sweep."""
        _keep_freed_memory()
        for group in self.groups:
            inside = group.region if region is None else overlap(group.region, region)
            if not inside:
                continue
            tile = GRID_TILE if sum(at.stop - at.start > 1 for at in inside) > 1 else TILE
            for place in cut(inside, tile if self.level is None else tile // 64):
                self._fill_tile(group, place, out)

    def _fill_tile(self, group: Group, place: Region, out: dict[str, np.ndarray]) -> None:
        if group.scenario is None:
            for name, array in out.items():
                array[place] = group.reason if name == "reason" else np.nan
            return
        found = self.evaluate(group.scenario, place)
        void, refused = (mask if np.any(mask) else None for mask in (found.void, found.refused))
        for name, array in out.items():
            if name == "reason":
                array[place] = found.reason
                continue
            array[place] = found.values.get(name, np.nan)
            hidden = refused if name.startswith(_GIVEN) else void
            if hidden is not None:
                np.copyto(array[place], np.nan, where=hidden)

    def evaluate(self, scenario: Scenario, part: Region) -> points.Points:
        """Predictions of one group at a piece of the sweep."""
        fields, fixed = {}, {}
        for d, (axis, at) in enumerate(zip(self.axes, part, strict=True)):
            for name, values in axis.numeric.items():
                constant = name.startswith("constants.")
                target = fixed if constant else fields
                target[name.removeprefix("constants.")] = self._along(values[at], d)
        scores = {name: self._along(z[part[-1]], len(self.axes) - 1) for name, z in self.scores.items()}
        with np.errstate(all="ignore"):
            return points.evaluate(points.replace(scenario, fields), fixed, scores, self.level)

    def _along(self, values: np.ndarray, dimension: int) -> np.ndarray:
        """Values laid along one dimension, so that what does not depend on the others is worked out once."""
        last = len(self.axes) - dimension - 1 + (self.level is not None)
        return values.reshape((1,) * dimension + (-1,) + (1,) * last)


def _keep_freed_memory() -> None:
    """Tell glibc to keep what a tile frees for the next one; else each of its arrays is mapped and cleared anew."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # another C library
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_M_MMAP_THRESHOLD, _KEPT)
            mallopt(_M_TRIM_THRESHOLD, 2 * _KEPT)


_GIVEN = ("batch", "max_batch", "memory.", "accuracy", "speculation.")
"""Variables that are known where a deployment does not fit."""


def dtype_of(name: str) -> np.dtype:
    """Number type of a variable."""
    return np.dtype(np.int16 if name == "reason" else np.float64)


def overlap(one: Region, other: Region) -> Region:
    """What two regions share; empty when nothing."""
    shared = tuple(slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(one, other, strict=True))
    return shared if all(s.start < s.stop for s in shared) else ()


def shifted(region: Region, origin: Region) -> Region:
    """The region counted from the start of another one."""
    return tuple(slice(s.start - o.start, s.stop - o.start) for s, o in zip(region, origin, strict=True))


def cut(region: Region, most: int) -> Iterator[Region]:
    """A region in pieces of at most so many points: last dimensions whole, one cut evenly, the first step by step."""
    steps, room = [], most
    for part in reversed(region):
        length = part.stop - part.start
        step = max(1, min(length, room))
        step = math.ceil(length / math.ceil(length / step))
        steps.append(step)
        room = room // length if step == length else 1
    ranges = [[slice(i, min(i + step, part.stop)) for i in range(part.start, part.stop, step)]
              for part, step in zip(region, reversed(steps), strict=True)]
    return product(*ranges)


def make(scenario: Scenario, axes: list[Axis], variables, level: float | None, scores: dict[str, np.ndarray]) -> Plan:
    """
    Plan of a sweep.

    Raises
    ------
    InputError
        When a discrete value is refused in every combination, or nothing of the sweep can be predicted.
    """
    legend = dict(points.LEGEND)
    groups, refusals, accepted = [], {}, set()
    for runs in product(*(axis.runs() for axis in axes)):
        region = tuple(slice(start, stop) for start, stop, _ in runs)
        chosen = {name: value for *_, values in runs for name, value in values.items()}
        keys = {(name, id_of(value)) for name, value in chosen.items()}
        try:
            groups.append((scenario.replace(dict(sorted(chosen.items(), key=lambda item: item[0].count(".")))), region))
            accepted |= keys
        except InputError as error:
            groups.append((error, region))
            for key in keys:
                refusals.setdefault(key, error)
    never = [key for key in refusals if key not in accepted]
    if never:
        raise InputError(list(dict.fromkeys(fault for key in never for fault in refusals[key].faults)))

    draft = Plan(scenario, tuple(axes), (), legend, (), level, scores)
    names, first, made = {}, None, []
    for replaced, region in groups:
        error = replaced if isinstance(replaced, InputError) else None
        if error is None:
            try:
                corner = tuple(slice(s.start, s.start + 1) for s in region)
                names |= dict.fromkeys(draft.evaluate(replaced, corner).values)
            except InputError as refusal:
                error = refusal
        if error is None:
            made.append(Group(replaced, points.FITS, region))
            continue
        first = first or error
        text = str(error).replace("\n", "; ")
        reason = next((code for code, known in legend.items() if known == text), len(legend))
        legend[reason] = text
        made.append(Group(None, reason, region))
    if not names:
        raise first
    taken = {axis.name for axis in axes} | {name for axis in axes for name in (*axis.numeric, *axis.discrete)}
    wanted = [name for name in names if name not in taken] if variables is None else _known(variables, names)
    return Plan(scenario, tuple(axes), tuple(made), legend, (*wanted, "reason"), level, scores)


def _known(variables, names: dict[str, Any]) -> list[str]:
    from joulesim.errors import Fault, did_you_mean

    faults = [Fault("variables", f"no predicted quantity {name!r}", did_you_mean(name, names)) for name in variables
              if name not in names and name != "reason"]
    if faults:
        raise InputError(faults)
    return [name for name in variables if name != "reason"]


def unit_of(name: str, currency: str | None) -> str:
    """Short unit of a variable."""
    base = name.removesuffix("_interval.low").removesuffix("_interval.high")
    if base in QUANTITIES:
        return symbol(QUANTITIES[base])
    money = f"{currency or 'currency'}/answer"
    prefixes = {"memory.": "B", "breakdown.": "J/answer", "energy_per_correct_answer": "J/answer", "cost_": money,
                "carbon_": "gCO2e/answer"}
    return next((unit for prefix, unit in prefixes.items() if name.startswith(prefix)), "1")
