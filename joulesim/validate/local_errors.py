"""How wrong the local fit is where it was not fitted, beside the noise of the same run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from joulesim.specs.hardware import HardwareSpec
from joulesim.validate.local import LocalFit, fit
from joulesim.validate.local_points import Points, formats_of

BARS = {"decode": (4.5, 15.0), "prefill": (7.0, 20.0), "chunk": (10.0, 30.0), "model": (8.0, 18.0)}
"""Median and 90th percentile that a machine of two quiet cores is expected to reach. [%]"""
_PHASES = ("decode", "chunk", "prefill")
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
    """The same call in another round, as far as the probed slowness leaves it unexplained; nan with one round."""
    noise_p90: float
    repeat_median: float
    """The same call in another round, as it was timed."""
    repeat_p90: float

    @property
    def bar(self) -> tuple[float, float] | None:
        """What is expected of it, of a real model over all its calls; formats whose kernels nothing has measured have none."""
        if self.axis == "format":
            return None
        if self.axis == "model":
            return BARS["model"] if self.phase == "all" else None
        return BARS.get(self.phase)

    @property
    def passed(self) -> bool:
        """Whether it is within its bar."""
        return self.bar is None or (self.median <= self.bar[0] and self.p90 <= self.bar[1])


def percent(predicted: np.ndarray, calls: Points) -> np.ndarray:
    """Signed errors. [%]"""
    return 100 * (predicted / calls.time - 1)


def noise(fitted: LocalFit, calls: Points) -> tuple[np.ndarray, np.ndarray]:
    """
    Largest difference between two rounds of each call that was measured twice. [%]

    First of time over the time predicted at each round's slowness, then of time as it is.
    """
    again = calls.where([len(rounds) > 1 for rounds in calls.rounds])
    if not len(again):
        return np.empty(0), np.empty(0)
    most = max(map(len, again.rounds))
    # a call of fewer rounds than others repeats its last one
    rounds = np.array([rounds + rounds[-1:] * (most - len(rounds)) for rounds in again.rounds]).swapaxes(0, 1)
    time, slowness = rounds[..., 0], rounds[..., 1:]
    left = [t / fitted.predict(replace(again, slowness=s)) for t, s in zip(time, slowness, strict=True)]
    return _apart(np.array(left)), _apart(time)


def _apart(rounds: np.ndarray) -> np.ndarray:
    """Largest over least of each column. [%]"""
    return 100 * (rounds.max(axis=0) / rounds.min(axis=0) - 1)


def _summary(axis: str, phase: str, signed: np.ndarray, noises: tuple[np.ndarray, np.ndarray]) -> Errors:
    """Errors of some calls, from their signed errors and what two rounds differ by."""
    absolute = np.abs(signed)
    floors = [float(np.percentile(apart, share)) if len(apart) else np.nan for apart in noises for share in (50, 90)]
    return Errors(axis, phase, len(signed), float(np.median(absolute)), float(np.percentile(absolute, 90)),
                  float(np.median(signed)), *floors)


def held_out(fitted: LocalFit, calls: Points) -> list[Errors]:
    """Errors by axis of the split and kind of call, then over all axes but a foreign model."""
    tested = calls.of(lambda r: r.campaign.role == "test" and set(formats_of(r)) <= set(fitted.formats))
    found = []
    for axis in _REPORTED:
        mine = tested.of(lambda r, a=axis: r.scenario["axis"] == a)
        found += _by_phase(axis, fitted, mine)
        if axis == "model" and len(mine):
            found.append(_summary(axis, "all", percent(fitted.predict(mine), mine), noise(fitted, mine)))
    found += _by_phase("all", fitted, tested.of(lambda r: r.scenario["axis"] != "model"))
    return found


def held_out_formats(calls: Points, hardware: HardwareSpec | None = None) -> list[Errors]:
    """Errors on each format by a fit on all others, which knows nothing of its kernels."""
    fitted = calls.of(lambda r: r.campaign.role == "fit")
    parts: dict[str, list[tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]]] = {}
    for kind in fitted.formats:
        others = fitted.of(lambda r, k=kind: k not in formats_of(r))
        mine = fitted.of(lambda r, k=kind: k in formats_of(r))
        if len(others) and len(mine):
            blind = fit(others, hardware, effort=25)
            for phase, part in _phases(mine):
                parts.setdefault(phase, []).append((percent(blind.predict(part), part), noise(blind, part)))
    return [_summary("format", phase, np.concatenate([signed for signed, _ in parts[phase]]),
                     tuple(np.concatenate([noises[i] for _, noises in parts[phase]]) for i in (0, 1)))
            for phase in _PHASES if phase in parts]


def _phases(calls: Points) -> Iterator[tuple[str, Points]]:
    """Calls of each phase."""
    for phase in _PHASES:
        mine = calls.of(lambda r, p=phase: r.scenario["call"]["phase"] == p)
        if len(mine):
            yield phase, mine


def _by_phase(axis: str, fitted: LocalFit, calls: Points) -> list[Errors]:
    return [_summary(axis, phase, percent(fitted.predict(mine), mine), noise(fitted, mine)) for phase, mine in _phases(calls)]
