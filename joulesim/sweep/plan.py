"""A sweep cut into pieces: combinations of discrete values, chunks that are stored whole, tiles that fit the cache."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from joulesim.units import symbol
from joulesim.errors import InputError
from joulesim.prediction import QUANTITIES
from joulesim.scenario import Scenario
from joulesim.sweep import points
from joulesim.sweep.axes import Axis, id_of

TILE = 1 << 14
"""Points evaluated at once: a few hundred intermediate arrays of this size pass through the second-level cache."""

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

    def chunks(self, most: int) -> list[tuple[int, Region]]:
        """Pieces of at most so many points, none across two groups, with the group each belongs to."""
        return [(g, region) for g, group in enumerate(self.groups) for region in cut(group.region, most)]

    def allocate(self, shape: tuple[int, ...], empty=np.empty) -> dict[str, np.ndarray]:
        """Arrays for the variables of a piece."""
        return {name: empty(shape, np.int16 if name == "reason" else float) for name in self.variables}

    def fill(self, group: int, region: Region, out: dict[str, np.ndarray], origin: tuple[int, ...] = ()) -> None:
        """Evaluate a piece tile by tile into arrays that start at ``origin``."""
        origin = origin or (0,) * len(self.axes)
        tile = TILE if self.level is None else TILE // 64
        for part in cut(region, tile):
            self._fill_tile(self.groups[group], part, out, tuple(
                slice(s.start - o, s.stop - o) for s, o in zip(part, origin, strict=True)))

    def _fill_tile(self, group: Group, part: Region, out: dict[str, np.ndarray], place: Region) -> None:
        if group.scenario is None:
            for name, array in out.items():
                array[place] = group.reason if name == "reason" else np.nan
            return
        found = self.evaluate(group.scenario, part)
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


_GIVEN = ("batch", "max_batch", "memory.", "accuracy")
"""Variables that are known where a deployment does not fit."""


def cut(region: Region, most: int) -> Iterator[Region]:
    """A region in pieces of at most so many points: last dimensions whole, one cut evenly, single steps of the first."""
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
