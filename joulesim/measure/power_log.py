"""Power that somebody recorded over time: one or several channels on one clock, and the energy of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from joulesim.errors import Fault, InputError
from joulesim.measure.integrate import trapezoid
from joulesim.measure.reading import UPDATES_PER_WINDOW, MeterBoundary, MeterInfo, Reading
from joulesim.measure.validity import Reason

LONGEST_GAP = 3.0
"""Longer gaps between samples make an energy suspect; the rule that InferenceX applies to its logs. [s]"""
FEWEST_SAMPLES = 3
"""A window with fewer samples inside says nothing about its own power."""


@dataclass(frozen=True)
class PowerLog:
    """
    Sampled power by channel. Channels are counted once and add up.

    Times are seconds since 1970 (UTC) where :attr:`clock` is ``"unix"``.
    """

    file: str
    times: Mapping[str, Sequence[float]]
    """By channel. [s]"""
    powers: Mapping[str, Sequence[float]]
    """By channel. [W]"""
    boundary: MeterBoundary
    scope: str = ""
    field: str = ""
    """Name of what was recorded, in the words of its source."""
    averaged: bool = False
    """The field is a trailing average."""
    clock: str = "unix"
    zone: str = ""
    """Zone in which stamps without one were read."""
    faults: tuple[Fault, ...] = ()
    """Rows that were left out."""
    reasons: tuple[Reason, ...] = ()
    marks: Mapping[str, tuple[float, float]] | None = None
    """First and last time of each named part of the log. [s]"""

    @cached_property
    def period(self) -> float:
        """Usual time between samples, of the slowest channel. [s]"""
        gaps = [np.median(np.diff(np.unique(times))) for times in self.times.values() if len(set(times)) > 1]
        return float(max(gaps, default=0.0))

    @property
    def start(self) -> float:
        """First time at which every channel is known. [s]"""
        return max(min(times) for times in self.times.values())

    @property
    def stop(self) -> float:
        """Last time at which every channel is known. [s]"""
        return min(max(times) for times in self.times.values())

    @property
    def info(self) -> MeterInfo:
        """The log as a meter that is no longer running."""
        return MeterInfo(
            name="log",
            boundary=self.boundary,
            scope=self.scope,
            method="sampled power",
            fields=(self.field,) if self.field else (),
            devices=tuple(self.times),
            update_period=self.period,
            live=False,
            notes=(f"from {self.file}",) + ((f"time zone {self.zone}",) if self.zone else ()),
        )

    def shifted(self, offset: float) -> PowerLog:
        """The same log on a clock that is ahead by ``offset``. [s]"""
        times = {name: [t + offset for t in values] for name, values in self.times.items()}
        marks = {name: (a + offset, b + offset) for name, (a, b) in (self.marks or {}).items()}
        return replace(self, times=times, marks=marks or None)

    def only(self, channels: Sequence[str]) -> PowerLog:
        """The same log with some of its channels."""
        missing = [name for name in channels if name not in self.times]
        if missing:
            known = ", ".join(self.times)
            raise InputError(Fault(self.file, f"expected the channel {missing[0]!r}, there is {known}"))
        return replace(
            self,
            times={name: self.times[name] for name in channels},
            powers={name: self.powers[name] for name in channels},
        )

    def reading(self, start: float, stop: float) -> Reading:
        """
        Energy from ``start`` to ``stop``: each channel by trapezoid with interpolated edges, then their sum.

        A window that the log does not bracket, or with fewer than three samples inside, has no energy. With
        fewer than 100 samples the energy is there and suspect.
        """
        whole = {name: trapezoid(self.times[name], self.powers[name], start, stop) for name in self.times}
        reasons = list(self.reasons)
        refused = None
        for name, integral in whole.items():
            if integral.energy is None:
                refused = Reason(code="window-not-bracketed", detail=self._extent(name, start, stop))
                break
            if integral.samples < FEWEST_SAMPLES:
                detail = f"{name}: {integral.samples} samples inside a window of {stop - start:.3g} s"
                refused = Reason(code="window-too-short", detail=detail)
                break
            if integral.samples < UPDATES_PER_WINDOW:
                detail = f"{name}: {integral.samples} samples, {UPDATES_PER_WINDOW} wanted"
                reasons.append(Reason(code="few-samples", detail=detail))
            if integral.longest_gap > LONGEST_GAP:
                detail = f"{name}: {integral.longest_gap:.3g} s between samples"
                reasons.append(Reason(code="sampling-gap", detail=detail))
        if self.averaged:
            reasons.append(Reason(code="power-averaged", detail=self.field))
        energy = None if refused else sum(integral.energy for integral in whole.values())
        return Reading(
            meter=self.info,
            start=start,
            stop=stop,
            clock=self.clock,
            energy=energy,
            energy_reason=refused,
            parts={name: integral.energy for name, integral in whole.items()},
            resolution=None if energy is None or stop <= start else energy / (stop - start) * self.period,
            samples=max((integral.samples for integral in whole.values()), default=0),
            reasons=tuple(reasons),
        )

    def _extent(self, name: str, start: float, stop: float) -> str:
        times = self.times[name]
        if not len(times):
            return f"{name}: no samples"
        before, after = min(times) - start, stop - max(times)
        if before > 0:
            return f"{name}: the log begins {before:.3g} s after the window"
        return f"{name}: the log ends {after:.3g} s before the window does"
