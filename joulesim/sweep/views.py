"""Views of a sweep: which points satisfy constraints, which is best, which are on the frontier, what matters most."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from joulesim import units
from joulesim.errors import Fault, InputError, did_you_mean
from joulesim.sweep.plan import unit_of

_CONSTRAINT = re.compile(r"\s*([A-Za-z_.]+)\s*(<=|>=|<|>)\s*(.+?)\s*$")


class Constraint(NamedTuple):
    """A limit on a predicted quantity."""

    quantity: str
    most: bool
    """Whether the limit is an upper one."""
    limit: float
    text: str

    def holds(self, value):
        """Where a value keeps the limit; nowhere where it is unknown."""
        return value <= self.limit if self.most else value >= self.limit

    def slack(self, value):
        """Distance to the limit as a share of it, negative beyond. [1]"""
        scale = abs(self.limit) or 1.0
        return (self.limit - value) / scale if self.most else (value - self.limit) / scale


def constraint(text: str, known: Sequence[str], currency: str | None = None) -> Constraint:
    """
    Constraint from text such as ``ttft <= 0.5 s``.

    Raises
    ------
    InputError
        When it is not a quantity, a comparison and a limit in the quantity's unit.
    """
    match = _CONSTRAINT.match(text)
    if match is None:
        raise InputError(Fault("subject_to", f"expected QUANTITY <= VALUE or QUANTITY >= VALUE, got {text!r}",
                               "e.g. 'ttft <= 0.5 s'"))
    name, sign, value = match.groups()
    check(name, known, "subject_to")
    unit = unit_of(name, currency)
    limit = units.quantity(value, "" if unit == "1" else unit, f"subject_to: {name}")
    return Constraint(name, sign.startswith("<"), limit, text.strip())


def check(name: str, known: Sequence[str], where: str) -> str:
    """The name of a predicted quantity, or a fault that suggests one."""
    if name not in known:
        raise InputError(Fault(where, f"no predicted quantity {name!r}", did_you_mean(name, known)))
    return name


def allowed(values: Mapping[str, Any], quantity: str, constraints: Sequence[Constraint], where: str = "sweep"):
    """
    Where a quantity is known and every constraint holds.

    Raises
    ------
    InputError
        When that is nowhere: how many points each constraint excludes.
    """
    known = np.isfinite(np.asarray(values[quantity]))
    held = [np.asarray(c.holds(np.asarray(values[c.quantity]))) for c in constraints]
    good = np.logical_and.reduce([known, *held])
    if good.any():
        return good
    lines = [f"{quantity} is unknown or the deployment infeasible at {np.sum(~known):,}"] if not known.all() else []
    lines += [f"{c.text} excludes {np.sum(known & ~h):,}" for c, h in zip(constraints, held, strict=True)]
    uncounted = "correct" in quantity and "accuracy" in values and not np.isfinite(values["accuracy"]).any()
    raise InputError(Fault(where, f"expected a point that satisfies everything, found none of {known.size:,}: "
                           + ", ".join(lines), "give task.correct and task.attempted, or minimise the figure per answer"
                           if uncounted else "loosen a constraint or widen the ranges"))


def best(dataset, minimise: str, subject_to: Sequence[str] = (), most: int | None = 1):
    """
    Points of a sweep that satisfy the constraints, the best first, along one dimension ``point``.

    Parameters
    ----------
    dataset : xarray.Dataset
        From :func:`joulesim.sweep`.
    minimise : str
        Quantity to make small; with a minus in front, to make large.
    subject_to : sequence of str
        Constraints such as ``"ttft <= 0.5 s"``.
    most : int, optional
        How many points; all of them with ``None``.
    """
    name, sign = (minimise[1:], -1.0) if minimise.startswith("-") else (minimise, 1.0)
    check(name, list(dataset.data_vars), "minimise")
    constraints = [constraint(text, list(dataset.data_vars), currency_of(dataset)) for text in subject_to]
    points = flat(dataset)
    index = np.flatnonzero(allowed(points, name, constraints))
    order = np.argsort(sign * points[name].values[index], kind="stable")
    return points.isel(point=index[order][:most])


def frontier(dataset, minimise: Sequence[str], subject_to: Sequence[str] = ()):
    """
    Points of a sweep that no other point beats in every one of some quantities, along one dimension ``point``.

    Parameters are those of :func:`best`, with several quantities.
    """
    signs = [-1.0 if name.startswith("-") else 1.0 for name in minimise]
    names = [check(name.lstrip("-"), list(dataset.data_vars), "minimise") for name in minimise]
    if len(names) < 2:
        raise InputError(Fault("minimise", f"expected two quantities or more for a frontier, got {', '.join(names)}"))
    constraints = [constraint(text, list(dataset.data_vars), currency_of(dataset)) for text in subject_to]
    points = flat(dataset)
    good = np.logical_and.reduce([allowed(points, name, constraints) for name in names])
    index = np.flatnonzero(good)
    if not index.size:
        raise InputError(Fault("minimise", f"expected a point at which {' and '.join(names)} are known, found none"))
    costs = np.column_stack([sign * points[name].values[index] for name, sign in zip(names, signs, strict=True)])
    return points.isel(point=index[_undominated(costs)])


def _undominated(costs: np.ndarray) -> np.ndarray:
    """Rows that no other row equals or beats everywhere, by rising first cost."""
    order = np.lexsort(costs.T[::-1])
    if costs.shape[1] == 2:
        second = costs[order, 1]
        before = np.concatenate([[np.inf], np.minimum.accumulate(second)[:-1]])
        return order[second < before]
    kept: list[int] = []
    for row in order:
        if not kept or not np.any(np.all(costs[kept] <= costs[row], axis=1)):
            kept.append(row)
    return np.array(kept)


def currency_of(dataset) -> str | None:
    """Currency of the costs of a sweep."""
    unit = dataset["cost_per_answer"].attrs["units"] if "cost_per_answer" in dataset else ""
    return unit.partition("/")[0] or None


def flat(dataset):
    """One dimension ``point`` instead of all; a design that has it already stays as it is."""
    names = list(dataset.sizes)
    if names == ["point"]:
        return dataset
    if "point" in names:
        dataset, names = dataset.rename_dims(point="design"), ["design" if name == "point" else name for name in names]
    return dataset.stack(point=names, create_index=False)
