"""How well repeats of one thing are known."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

WANTED = 0.02
"""Half width of the interval of the median that ends a point, relative to the median."""


class Interval(NamedTuple):
    """A median with its interval."""

    median: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval over the median. [1]"""
        return (self.high - self.low) / 2 / self.median if self.median else math.inf


def median_interval(samples: Sequence[float], level: float = 0.95) -> Interval:
    """
    Median with an interval from order statistics, which assumes no distribution.

    With fewer than six samples no pair of them covers the median at 95 %; the extremes are given then.

    References
    ----------
    .. [1] W. J. Conover, *Practical Nonparametric Statistics*, 3rd ed., Wiley, 1999, sec. 3.2.

    Examples
    --------
    >>> median_interval([3, 1, 2, 5, 4, 6, 7, 8, 9])
    Interval(median=5, low=2, high=8)
    """
    ordered, n = sorted(samples), len(samples)
    missed, below, rank = 0.0, 0.0, 0
    for rank in range((n + 1) // 2):
        below = math.comb(n, rank) / 2**n
        if 2 * (missed + below) > 1 - level:
            break
        missed += below
    rank = max(rank - 1, 0)
    return Interval(statistics.median(ordered), ordered[rank], ordered[n - 1 - rank])


def enough(samples: Sequence[float]) -> bool:
    """Whether the median is known within :data:`WANTED`."""
    return median_interval(samples).half_width <= WANTED


def variation(samples: Sequence[float]) -> float:
    """Coefficient of variation of repeats; 0 for a single one. [1]"""
    mean = statistics.fmean(samples)
    return statistics.stdev(samples) / mean if len(samples) > 1 and mean else 0.0
