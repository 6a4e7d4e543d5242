"""Designs: sets of points that fill a space of fields better than a grid does. The door to ``scipy.stats.qmc``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from joulesim import units
from joulesim.errors import Fault, InputError
from joulesim.scenario import SHORTCUTS
from joulesim.sweep import axes


def sobol(n: int, fields: Mapping[str, Any], seed: int = 0) -> dict[str, Any]:
    """
    Scrambled Sobol points, one dimension of a sweep: ``over={"point": js.sobol(1024, {...})}``.

    Parameters
    ----------
    n : int
        Points; powers of two are balanced best.
    fields : mapping
        Field to a range ``(low, high)`` of numbers or quantities, or to a list of choices.
    seed : int
        Of the scrambling.

    Returns
    -------
    dict
        Field to its value at each point. Points are sorted by their choices, so that equal ones are
        worked out together.

    References
    ----------
    .. [1] I. M. Sobol', "On the distribution of points in a cube and the approximate evaluation of integrals," USSR
       Comput. Math. Math. Phys., vol. 7, pp. 86-112, 1967. doi:10.1016/0041-5553(67)90144-9
    """
    import warnings

    from scipy.stats import qmc

    sampler = qmc.Sobol(len(fields), scramble=True, rng=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # n is the caller's choice
        return _placed(fields, sampler.random(_count(n)))


def random_design(n: int, fields: Mapping[str, Any], seed: int = 0) -> dict[str, Any]:
    """Independent uniform points; parameters as in :func:`sobol`."""
    return _placed(fields, np.random.default_rng(seed).random((_count(n), len(fields))))


def _count(n: int) -> int:
    if n < 1:
        raise InputError(Fault("design", f"expected at least one point, got {n}"))
    return int(n)


def _placed(fields: Mapping[str, Any], cube: np.ndarray) -> dict[str, Any]:
    """Points of the unit cube carried into the ranges and choices of the fields."""
    columns, choices = {}, []
    for (name, given), u in zip(fields.items(), cube.T, strict=True):
        if isinstance(given, tuple):
            columns[name] = _in_range(name, given, u)
        else:
            index = np.minimum((u * len(given)).astype(int), len(given) - 1)
            columns[name] = [list(given)[i] for i in index]
            choices.append(index)
    if not choices:
        return columns
    order = np.lexsort(choices[::-1])
    return {name: column[order] if isinstance(column, np.ndarray) else [column[i] for i in order]
            for name, column in columns.items()}


def _in_range(name: str, given: tuple, u: np.ndarray) -> np.ndarray:
    full = SHORTCUTS.get(name, name)
    wanted = axes.unit(full)
    if wanted is None or len(given) != 2:
        raise InputError(Fault(name, f"expected a range (low, high) of a number, got {given!r}",
                               "give choices as a list"))
    low, high = (units.quantity(value, wanted, name) for value in given)
    if not low <= high:
        raise InputError(Fault(name, f"expected low <= high, got {given!r}"))
    if full == "serving.batch" or wanted == "token":
        return np.floor(low + u * (high - low + 1.0))
    return low + u * (high - low)
