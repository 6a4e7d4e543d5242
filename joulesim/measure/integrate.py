"""Energy of a window from samples: sampled power, interval averages, and energy counters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

UINT64_SIGN_BIT = 1 << 63
"""A counter value from here on is a negative difference that somebody stored without a sign."""


@dataclass(frozen=True)
class Integral:
    """Energy of a window from power samples. [J] and [s]"""

    energy: float | None
    bracketed: bool
    """A sample stands at or before the start, and one at or after the stop."""
    longest_gap: float
    """Longest time between neighbouring samples that touch the window. [s]"""
    samples: int
    """Samples inside the window."""


def trapezoid(times: Sequence[float], powers: Sequence[float], start: float, stop: float) -> Integral:
    """
    Energy between two times of a power sampled at some others.

    Power runs straight from sample to sample and its value at the window's edges is interpolated; nothing is
    extrapolated, so a window that is not bracketed by samples has no energy. Samples of one time (as logs
    with coarse stamps have) all stand: the straight line between them has no width.

    Examples
    --------
    >>> trapezoid([-1, 1, 3.5, 6, 8.5, 11], [100, 140, 190, 240, 290, 340], 0, 10).energy
    2200.0
    """
    if not len(times):
        return Integral(None, False, float("inf"), 0)
    t, p = np.asarray(times, float), np.asarray(powers, float)
    order = np.argsort(t, kind="stable")
    t, p = t[order], p[order]
    inside = (t > start) & (t < stop)
    samples = int(np.count_nonzero((t >= start) & (t <= stop)))
    if stop < start or t[0] > start or t[-1] < stop:
        return Integral(None, False, float("inf"), samples)
    edges_t = np.concatenate(([start], t[inside], [stop]))
    edges_p = np.concatenate(([np.interp(start, t, p)], p[inside], [np.interp(stop, t, p)]))
    first = np.searchsorted(t, start, side="right") - 1
    last = np.searchsorted(t, stop, side="left")
    gaps = np.diff(t[first : last + 1])
    return Integral(float(np.trapezoid(edges_p, edges_t)), True, float(gaps.max(initial=0.0)), samples)


def interval_energy(
    ends: Sequence[float], lengths: Sequence[float], powers: Sequence[float], start: float, stop: float
) -> Integral:
    """
    Energy of a window from powers that are averages over intervals, as powermetrics prints them.

    Each interval gives the share of it that lies within the window.

    Examples
    --------
    >>> interval_energy(ends=[1, 2, 3], lengths=[1, 1, 1], powers=[10, 20, 30], start=0.5, stop=2.5).energy
    40.0
    """
    if not len(ends):
        return Integral(None, False, float("inf"), 0)
    e, n, p = (np.asarray(values, float) for values in (ends, lengths, powers))
    begins = e - n
    overlap = np.clip(np.minimum(e, stop) - np.maximum(begins, start), 0.0, None)
    touched = int(np.count_nonzero(overlap > 0))
    order = np.argsort(e)
    gaps = np.clip(begins[order][1:] - e[order][:-1], 0.0, None)
    if stop < start or begins.min() > start or e.max() < stop:
        return Integral(None, False, float("inf"), touched)
    return Integral(float(np.sum(overlap * p)), True, float(gaps.max(initial=0.0)), touched)


@dataclass(frozen=True)
class Counted:
    """Sum of a counter's forward steps, in the counter's unit."""

    amount: float
    wraps: int
    """Times that the counter passed its range."""
    backward: int
    """Backward steps that no wrap explains; what passed in them is lost."""
    unreadable: int
    """Values that no counter can have; they were left out."""
    implausible: int
    """Forward steps faster than the fastest allowed; left out."""
    moved: bool
    """The counter changed at all."""

    @property
    def whole(self) -> bool:
        """Nothing was lost between the first and the last value."""
        return not (self.backward or self.implausible)


def readable(value: float, size: float | None = None) -> bool:
    """Whether a counter can have this value: in range, and no negative number that lost its sign."""
    return 0 <= value < UINT64_SIGN_BIT and (size is None or value <= size)


def counted(
    values: Iterable[float],
    size: float | None = None,
    times: Sequence[float] = (),
    fastest: float | None = None,
) -> Counted:
    """
    What a cumulative counter gained over its readings.

    Parameters
    ----------
    values : iterable of numbers
        Readings in order of time.
    size : number, optional
        Value at which the counter starts again at zero. Without it a fall cannot be repaired. Read the
        counter at least twice per turn: a full turn between two readings cannot be seen.
    times, fastest : optional
        Time of each reading and the fastest rate that is possible; steps above it, wrapped ones included, are
        no measurement.

    Examples
    --------
    >>> counted([900, 50, 60], size=1000).amount
    160
    """
    kept, unreadable = [], 0
    stamps = list(times)
    for index, value in enumerate(values):
        if not readable(value, size):
            unreadable += 1
            continue
        kept.append((stamps[index] if stamps else float(index), value))
    amount, wraps, backward, implausible = 0, 0, 0, 0
    for (t0, before), (t1, after) in zip(kept, kept[1:], strict=False):
        step, wrapped = after - before, False
        if step < 0:
            if size is None:
                backward += 1
                continue
            step, wrapped = step + size, True
        if fastest is not None and step > fastest * (t1 - t0):
            backward, implausible = backward + wrapped, implausible + (not wrapped)
            continue
        amount, wraps = amount + step, wraps + wrapped
    moved = any(a[1] != b[1] for a, b in zip(kept, kept[1:], strict=False))
    return Counted(amount, wraps, backward, unreadable, implausible, moved)
