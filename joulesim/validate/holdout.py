"""Errors on what a fit has not seen: a model family, a device, a table, or nothing left out (which is no validation)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from joulesim.uncertainty import quantile
from joulesim.validate import fit
from joulesim.validate.points import Point

HOLDOUTS = ("model", "hardware", "table", "none")
QUANTITIES = ("time", "power", "energy")
_WIDEST = 0.6
"""Spread beyond which a perturbed static power alone would pass a board's limit."""
_REFINE = 12
"""Evaluations that a fit takes from the solution with everything in."""


class Errors(NamedTuple):
    """Predicted over measured, as logarithms, point by point."""

    points: list[Point]
    logs: dict[str, np.ndarray]
    """Logarithm of predicted over measured, by quantity."""
    left_out: str
    """What each point was left out with."""
    counted: np.ndarray
    """Whether the step time of a point counts (jittery classes are reported apart)."""

    def percent(self, quantity: str) -> np.ndarray:
        """Signed percentage error of a quantity over the points that count for it."""
        logs = self.logs[quantity]
        logs = logs[self.counted] if quantity == "time" else logs
        return 100.0 * np.expm1(logs[np.isfinite(logs)])

    def where(self, keep: Sequence[bool]) -> Errors:
        """The points for which ``keep`` holds."""
        keep = np.asarray(keep, bool)
        points = [p for p, kept in zip(self.points, keep, strict=True) if kept]
        return Errors(points, {q: v[keep] for q, v in self.logs.items()}, self.left_out, self.counted[keep])


def joined(parts: Sequence[Errors]) -> Errors:
    """Errors of several fits as one list."""
    logs = {q: np.concatenate([part.logs[q] for part in parts]) for q in QUANTITIES}
    return Errors([p for part in parts for p in part.points], logs, parts[0].left_out,
                  np.concatenate([part.counted for part in parts]))


def split(points: Sequence[Point], plan: fit.Plan) -> tuple[list[Point], dict[str, list[Point]]]:
    """Points that a fit may read, and those that a rule leaves out, by rule."""
    used, excluded = [], {}
    for point in points:
        rule = plan.exclusion(point)
        if rule is None:
            used.append(point)
        else:
            excluded.setdefault(rule, []).append(point)
    return used, excluded


def errors(result: fit.FitResult, points: Sequence[Point], left_out: str) -> Errors:
    """Errors of a fit on points."""
    predicted = fit.predict_points(result, points)
    measured = np.array([[p.batch / (p.output_throughput or np.nan), p.power, p.energy_per_token] for p in points], float).T
    batch = np.array([p.batch for p in points])
    found = np.stack([batch / predicted.throughput, predicted.power, predicted.energy])
    logs = dict(zip(QUANTITIES, np.log(found / measured), strict=True))
    return Errors(list(points), logs, left_out, np.array([not fit.jittery(p) for p in points]))


_KEYS: dict[str, Callable[[Point], str]] = {"model": lambda p: p.model, "hardware": lambda p: p.hardware,
                                          "table": lambda p: p.table}


def leave_out(points: Sequence[Point], plan: fit.Plan, by: str, whole: fit.FitResult | None = None,
              folds: int | None = None) -> Errors:
    """
    Errors with every model (or device, or table) predicted by a fit that has not seen it.

    ``none`` gives the in-sample errors, which are no validation. ``folds`` leaves several out at once, in so many fits.
    """
    whole = whole or fit.fit(points, plan)
    if by == "none":
        return errors(whole, points, "none")
    key = _KEYS[by]
    logs = {q: np.empty(len(points)) for q in QUANTITIES}
    keys = np.array([key(p) for p in points])
    if folds is not None:
        together = {value: str(number % folds) for number, value in enumerate(sorted(set(keys)))}
        keys = np.array([together[value] for value in keys])
    for value in sorted(set(keys)):
        out = keys == value
        start = None if by != "model" else whole
        seen = [p for p, o in zip(points, out, strict=True) if not o]
        result = fit.fit(seen, plan, start=start, evaluations=30 if start is None else _REFINE)
        part = errors(result, [p for p, o in zip(points, out, strict=True) if o], by)
        for quantity in QUANTITIES:
            logs[quantity][out] = part.logs[quantity]
    return Errors(list(points), logs, by, np.array([not fit.jittery(p) for p in points]))


class Summary(NamedTuple):
    """Median and 90th percentile of the absolute percentage error, signed median, and count."""

    median: float
    p90: float
    bias: float
    count: int


def summary(percent: np.ndarray) -> Summary:
    """Summary of signed percentage errors."""
    if not len(percent):
        return Summary(np.nan, np.nan, np.nan, 0)
    absolute = np.abs(percent)
    return Summary(float(np.median(absolute)), float(np.percentile(absolute, 90)), float(np.median(percent)), len(percent))


def median_range(found: Errors, level: float = 0.9, draws: int = 2000) -> tuple[float, float, int]:
    """
    Range of the median absolute error of energy when series are drawn again, and their number. [%], [%], [1]

    Points of one sweep ran on one server and are off together, so the series are what repeats, not the points.

    References
    ----------
    .. [1] A. C. Davison and D. V. Hinkley, "Bootstrap Methods and their Application," Cambridge, 1997, section 3.8.
    """
    off, keys = np.abs(np.expm1(found.logs["energy"])), [p.series() for p in found.points]
    rows = [off[[i for i, key in enumerate(keys) if key == one and np.isfinite(off[i])]] for one in dict.fromkeys(keys)]
    rows = [errors for errors in rows if len(errors)]
    if not rows:
        return np.nan, np.nan, 0
    chosen = np.random.default_rng(0).integers(len(rows), size=(draws, len(rows)))
    medians = [np.median(np.concatenate([rows[k] for k in draw])) for draw in chosen]
    low, high = 100.0 * np.quantile(medians, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high), len(rows)


class Scatter(NamedTuple):
    """Spread of the logarithm that held-out errors show, for time and for energy beyond what time explains."""

    time: float
    power: float


def scatter(found: Errors, time_share: float = 0.7, like: Scatter | None = None) -> Scatter:
    """
    Spreads that make 80 % intervals cover 80 % of held-out errors.

    ``time_share`` is how far energy follows time (static and clock-on energy do, energy per byte and operation do not).
    ``like`` stands in for what fewer than five points measure.
    """
    z = quantile(0.8)

    def width(quantity: str, otherwise: float) -> float:
        logs = np.abs(found.logs[quantity][found.counted] if quantity == "time" else found.logs[quantity])
        logs = logs[np.isfinite(logs)]
        return float(np.quantile(logs, 0.8)) / z if len(logs) >= (5 if like else 1) else otherwise

    time = width("time", like.time if like else 0.35)
    energy = width("energy", np.hypot(like.power, time_share * like.time) if like else width("power", 0.25))
    power = float(np.sqrt(max(energy**2 - (time_share * time) ** 2, 0.02**2)))
    return Scatter(min(time, _WIDEST), min(power, _WIDEST))


def coverage(found: Errors, level: float, by: Callable[[Point], str], only: str | None = None) -> tuple[float, float]:
    """
    Share of held-out energies inside an interval whose width comes from the other groups alone, and its high over low.

    Cross-conformal: the half-width of a group is the quantile of the absolute errors of all other groups. ``only`` asks
    for one group; ``nan`` where there is no energy or no other group.
    """
    measured = np.isfinite(found.logs["energy"])
    groups = np.array([by(p) for p in found.points])[measured]
    inside, ratios = [], []
    logs = np.abs(found.logs["energy"][measured])
    for group in sorted(set(groups)) if only is None else [only]:
        here, others = logs[groups == group], logs[groups != group]
        if len(here) and len(others):
            width = np.quantile(others, level)
            inside += list(here <= width)
            ratios += [np.exp(2 * width)] * len(here)
    return (float(np.mean(inside)), float(np.median(ratios))) if inside else (np.nan, np.nan)
