"""How sure a prediction is: the spread of constants carried through the chain, and of counted answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np

from joulesim.constants import Constant

LEVEL = 0.8
"""Probability that an interval claims unless another is asked for."""


@cache
def quantile(level: float) -> float:
    """Standard normal quantile of a two-sided level. [1]"""
    return NormalDist().inv_cdf(0.5 + level / 2)


def spread_out(constants: Mapping[str, Constant]) -> dict[str, Any]:
    """
    Constants as arrays: the value first, then each uncertain one a spread up and a spread down.

    One pass of the chain on these arrays gives a prediction and, through :func:`log_spread`, its uncertainty.
    """
    uncertain = _uncertain(constants)
    factors, row = np.ones((len(uncertain), 1 + 2 * len(uncertain))), np.arange(len(uncertain))
    up = np.exp([constants[name].spread for name in uncertain])
    factors[row, 1 + 2 * row], factors[row, 2 + 2 * row] = up, 1.0 / up
    moved = {name: constants[name].value * along for name, along in zip(uncertain, factors, strict=True)}
    return {name: moved.get(name, constant.value) for name, constant in constants.items()}


def _uncertain(constants: Mapping[str, Constant]) -> list[str]:
    return [name for name, c in constants.items()
            if c.spread > 0 and (c.value if isinstance(c.value, float) else np.count_nonzero(c.value))]


def matters(constants: Mapping[str, Constant], *outcomes) -> frozenset[str]:
    """Uncertain constants that move any of the outcomes by more than a millionth; residual scatter is not among them."""
    moving, uncertain = set(), _uncertain(constants)
    for outcome in map(np.asarray, outcomes):
        if outcome.ndim:
            moved = np.abs(outcome[1:] / outcome[0] - 1.0).reshape(-1, 2).max(axis=1) > 1e-6
            moving |= {name for name, moves in zip(uncertain, moved, strict=True) if moves}
    return frozenset(name for name in moving if not name.endswith("_residual"))


def log_spread(outcome):
    r"""
    Standard deviation of the logarithm of a quantity computed on :func:`spread_out` constants, its last axis.

    Notes
    -----
    .. math:: s^2 = \sum_k \left(\frac{\ln y_k^+ - \ln y_k^-}{2}\right)^2

    First-order propagation of independent log-normal constants, with each derivative taken over a whole spread. Where
    nothing can run a spread to one side (static power alone above a board's limit), the other side stands for both.

    References
    ----------
    .. [1] JCGM 100:2008, Guide to the expression of uncertainty in measurement, clause 5.1.2.
    """
    outcome = np.asarray(outcome)
    if outcome.ndim == 0:
        return 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(outcome)
        middle, up, down = logs[..., :1], logs[..., 1::2], logs[..., 2::2]
        slopes = (np.where(np.isnan(up), 2.0 * middle - down, up) - np.where(np.isnan(down), 2.0 * middle - up, down)) / 2
    return np.sqrt(np.sum(slopes**2, axis=-1))


def interval(value, spread, level: float) -> tuple[Any, Any]:
    """Log-normal interval around a value."""
    reach = np.exp(quantile(level) * spread)
    return value / reach, value * reach


def per_correct_interval(value, spread, accuracy, low, high, level: float) -> tuple[Any, Any]:
    """
    Interval of an energy per correct answer: the energy's spread and the accuracy's interval, in quadrature
    of their logarithms, each side by itself. No upper end when the accuracy may be 0.
    """
    reach = quantile(level) * spread
    with np.errstate(divide="ignore", invalid="ignore"):
        down = np.hypot(reach, np.log(high / accuracy))
        up = np.hypot(reach, np.log(accuracy / low))
        return value * np.exp(-down), value * np.exp(up)
