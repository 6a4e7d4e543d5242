"""How wrong the local fit is where it was not fitted, beside the noise of the same run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from joulesim.specs.hardware import HardwareSpec
from joulesim.validate.local import LocalFit, fit
from joulesim.validate.local_points import Points, formats_of

BARS = {"decode": (4.5, 15.0), "prefill": (7.0, 20.0), "chunk": (10.0, 30.0), "model": (8.0, 18.0)}
"""Median and 90th percentile that a machine of two quiet cores is expected to reach. [%]"""
_REPORTED = ("shape", "size", "depth", "batch", "prompt", "chunk", "model")


class Errors(NamedTuple):
    """Errors of one held-out axis and kind of call. [%]"""

    axis: str
    phase: str
    count: int
    median: float
    p90: float
    bias: float
    """Median of the signed error."""
    noise_median: float
    """The same call in another round, in the median; nan with one round."""
    noise_p90: float

    @property
    def bar(self) -> tuple[float, float] | None:
        """What is expected of it; the format axis, whose kernels nothing has measured, has no bar."""
        if self.axis == "format":
            return None
        return BARS["model"] if self.axis == "model" else BARS.get(self.phase)

    @property
    def passed(self) -> bool:
        """Whether it is within its bar."""
        return self.bar is None or (self.median <= self.bar[0] and self.p90 <= self.bar[1])


def percent(predicted: np.ndarray, calls: Points) -> np.ndarray:
    """Signed errors. [%]"""
    return 100 * (predicted / calls.time - 1)


def noise(calls: Points) -> np.ndarray:
    """Largest difference between two rounds of each call that was measured twice. [%]"""
    return np.array([100 * (max(rounds) / min(rounds) - 1) for rounds in calls.rounds if len(rounds) > 1])


def summary(axis: str, phase: str, predicted: np.ndarray, calls: Points) -> Errors:
    """Errors of some calls."""
    signed, repeated = percent(predicted, calls), noise(calls)
    again = (float(np.median(repeated)), float(np.percentile(repeated, 90))) if len(repeated) else (np.nan, np.nan)
    return Errors(axis, phase, len(calls), float(np.median(np.abs(signed))), float(np.percentile(np.abs(signed), 90)),
                  float(np.median(signed)), *again)


def held_out(fitted: LocalFit, calls: Points) -> list[Errors]:
    """Errors by axis of the split and kind of call, then over all axes but a foreign model."""
    tested = calls.of(lambda r: r.campaign.role == "test" and set(formats_of(r)) <= set(fitted.formats))
    found = []
    for axis in _REPORTED:
        found += _by_phase(axis, fitted, tested.of(lambda r, a=axis: r.scenario["axis"] == a))
    found += _by_phase("all", fitted, tested.of(lambda r: r.scenario["axis"] != "model"))
    return found


def held_out_formats(calls: Points, hardware: HardwareSpec | None = None) -> list[Errors]:
    """Errors on each format by a fit on all others, which knows nothing of its kernels."""
    fitted = calls.of(lambda r: r.campaign.role == "fit")
    predicted, kept = [], []
    for kind in fitted.formats:
        others = fitted.of(lambda r, k=kind: k not in formats_of(r))
        mine = fitted.of(lambda r, k=kind: k in formats_of(r))
        if len(others) and len(mine):
            predicted.append(fit(others, hardware, effort=25).predict(mine))
            kept.append(mine)
    found = []
    for phase in ("decode", "chunk", "prefill"):
        parts = [(p[np.array(keep)], mine.where(keep)) for p, mine in zip(predicted, kept, strict=True)
                 if any(keep := [r.scenario["call"]["phase"] == phase for r in mine.records])]
        if parts:
            signed = np.concatenate([percent(p, mine) for p, mine in parts])
            repeated = np.concatenate([noise(mine) for _, mine in parts])
            again = (np.median(repeated), np.percentile(repeated, 90)) if len(repeated) else (np.nan, np.nan)
            found.append(Errors("format", phase, len(signed), float(np.median(np.abs(signed))),
                                float(np.percentile(np.abs(signed), 90)), float(np.median(signed)), *map(float, again)))
    return found


def _by_phase(axis: str, fitted: LocalFit, calls: Points) -> Iterator[Errors]:
    for phase in ("decode", "chunk", "prefill"):
        mine = calls.of(lambda r, p=phase: r.scenario["call"]["phase"] == p)
        if len(mine):
            yield summary(axis, phase, fitted.predict(mine), mine)

