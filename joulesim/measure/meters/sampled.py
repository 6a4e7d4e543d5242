"""A meter that polls: cumulative counters, sampled powers, or both at once, over one window."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from joulesim.measure.integrate import Integral, counted, readable, trapezoid
from joulesim.measure.meters.base import Meter, MeterError, too_short
from joulesim.measure.reading import MeterInfo, Reading
from joulesim.measure.validity import Reason

DISAGREEMENT = 0.05
"""Counter and integrated power may differ by this share; beyond it the counter is suspect (zeus#181)."""
ABSURD = 10.0
"""A counter that is off by this factor either way is not an energy counter (the check Zeus makes on AMD)."""
ANSWER_TIME = 10.0
"""A driver that is silent for longer has hung. [s]"""


@dataclass
class Channel:
    """One device or domain, counted once."""

    name: str
    count: Callable[[], int] | None = None
    """Reads the energy counter, in counts."""
    joules_per_count: float = 1.0
    """[J]"""
    size: int | None = None
    """Count at which the counter starts again at zero, when known."""
    fastest: float | None = None
    """More than the device can draw. [W]"""
    power: Callable[[], float] | None = None
    """Reads the power now. [W]"""
    averaged: bool = False
    """Power is a trailing average."""
    refused: Reason | None = None
    """Why this channel must not be used at all."""


@dataclass
class _Series:
    """What was read from one channel during a window."""

    counts: list[tuple[float, int]] = field(default_factory=list)
    powers: list[tuple[float, float]] = field(default_factory=list)
    failures: list[Reason] = field(default_factory=list)
    lost: Reason | None = None


@dataclass
class _Outcome:
    energy: float | None = None
    reason: Reason | None = None
    cross_check: float | None = None
    reasons: list[Reason] = field(default_factory=list)


class SampledMeter(Meter):
    """
    Channels polled by one thread while a window is open.

    Each window begins and ends with a reading of its own, so counters are bracketed and power is interpolated
    to the edges. An energy counter is preferred; sampled power checks it and stands in when it fails.

    Parameters
    ----------
    period : float
        Time between two polls. [s]
    threaded : bool
        Without a thread :meth:`sample` is called by hand, which tests do.
    """

    def __init__(
        self,
        info: MeterInfo,
        channels: Sequence[Channel],
        period: float = 0.1,
        clock: Callable[[], float] = time.monotonic,
        threaded: bool = True,
    ):
        self.info = info
        self.channels = tuple(channels)
        self.period = period
        self._clock, self._threaded = clock, threaded
        self._series: dict[str, _Series] = {}
        self._start, self._cpu = 0.0, 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._series:
            raise RuntimeError(f"meter {self.info.name}: expected the last window to be stopped first")
        self._series = {channel.name: _Series() for channel in self.channels}
        self._cpu = 0.0
        self.sample()
        self._start = self._clock()
        if self._threaded:
            self._ended.clear()
            self._thread = threading.Thread(target=self._poll, name=f"meter-{self.info.name}", daemon=True)
            self._thread.start()

    def stop(self) -> Reading:
        if not self._series:
            raise RuntimeError(f"meter {self.info.name}: expected a started window")
        stop = self._clock()
        if self._thread is not None:
            self._ended.set()
            self._thread.join(ANSWER_TIME)
        series = self._series
        if self._thread is not None and self._thread.is_alive():
            hung = Reason(code="driver-error", detail=f"the driver did not answer within {ANSWER_TIME:g} s")
            series = {name: _Series(lost=hung) for name in series}
        else:
            self.sample()
        self._series, self._thread = {}, None
        return self._reading(series, self._start, stop)

    def close(self) -> None:
        self._ended.set()
        self._series = {}

    def sample(self) -> None:
        """Read every channel once."""
        began = time.thread_time()
        for channel in self.channels:
            series = self._series[channel.name]
            if series.lost or channel.refused:
                continue
            for read, values in ((channel.count, series.counts), (channel.power, series.powers)):
                if read is None:
                    continue
                at = self._clock()
                try:
                    values.append((at, read()))
                except MeterError as error:
                    series.failures.append(error.reason)
                    if error.final:
                        series.lost = error.reason
                        break
                except Exception as error:  # a driver's surprise must not end the polling in silence
                    series.failures.append(Reason(code="driver-error", detail=repr(error)))
        self._cpu += time.thread_time() - began

    def _poll(self) -> None:
        while not self._ended.wait(self.period):
            self.sample()

    def _reading(self, series: dict[str, _Series], start: float, stop: float) -> Reading:
        length = stop - start
        refused = too_short(self.info, length)
        if length < 0:
            refused = Reason(code="clock-jump", detail=f"the clock ran {-length:.3g} s backwards")
            start = stop
        if refused:
            return Reading(meter=self.info, start=start, stop=stop, energy_reason=refused)
        gap = 10 * self.period
        outcomes = {c.name: _outcome(c, series[c.name], start, stop, gap) for c in self.channels}
        missing = [Reason(code=o.reason.code, detail=f"{name}: {o.reason.detail or str(o.reason)}")
                   for name, o in outcomes.items() if o.reason]
        checks = [o.cross_check for o in outcomes.values()]
        whole = not missing
        energy = sum(o.energy for o in outcomes.values()) if whole else None
        resolution = None
        if whole:
            step = (self.info.energy_resolution or 0.0) * len(outcomes)
            edge = (self.info.update_period or 0.0) * energy / length if length else 0.0
            resolution = max(step, edge)
        return Reading(
            meter=self.info,
            start=start,
            stop=stop,
            energy=energy,
            energy_reason=None if whole else missing[0],
            parts={name: o.energy for name, o in outcomes.items()},
            resolution=resolution,
            cross_check=sum(checks) if whole and None not in checks else None,
            samples=max((max(len(s.counts), len(s.powers)) for s in series.values()), default=0),
            reasons=tuple(reason for o in outcomes.values() for reason in o.reasons),
            overhead=self._cpu / length if length else 0.0,
        )


def _outcome(channel: Channel, series: _Series, start: float, stop: float, longest_gap: float) -> _Outcome:
    """Energy of one channel over a window: its counter if that is sound, else its integrated power."""
    if channel.refused or series.lost:
        return _Outcome(reason=channel.refused or series.lost)
    notes = []
    if series.failures:
        last = series.failures[-1]
        detail = f"{channel.name}: {len(series.failures)} reads failed, last {last.code} ({last.detail})"
        notes.append(Reason(code="samples-dropped", detail=detail))
    energy, refused, more = _from_counter(channel, series, start, stop)
    notes += more
    integral = trapezoid([t for t, _ in series.powers], [p for _, p in series.powers], start, stop)
    if energy is not None and integral.energy:
        ratio = energy / integral.energy
        if not 1 / ABSURD <= ratio <= ABSURD:
            detail = f"{channel.name}: counter {energy:.4g} J, integrated power {integral.energy:.4g} J"
            energy, refused = None, Reason(code="counter-implausible", detail=detail)
        elif abs(ratio - 1) > DISAGREEMENT:
            detail = f"{channel.name}: counter {energy:.4g} J, integrated power {integral.energy:.4g} J"
            notes.append(Reason(code="counter-disagrees", detail=detail))
    if energy is not None:
        return _Outcome(energy, None, integral.energy, notes)
    if integral.energy is None:
        return _Outcome(reason=refused or _why_no_power(channel, series, integral), reasons=notes)
    why = refused or "it has no energy counter"
    notes.append(Reason(code="power-integrated", detail=f"{channel.name}: {why}"))
    if channel.averaged:
        notes.append(Reason(code="power-averaged"))
    if integral.longest_gap > longest_gap:
        detail = f"{channel.name}: {integral.longest_gap:.3g} s between samples"
        notes.append(Reason(code="sampling-gap", detail=detail))
    return _Outcome(integral.energy, None, None, notes)


def _from_counter(
    channel: Channel, series: _Series, start: float, stop: float
) -> tuple[float | None, Reason | None, list[Reason]]:
    """Energy by counter, or why not, and what to note."""
    if channel.count is None:
        return None, None, []
    good = [(t, n) for t, n in series.counts if readable(n, channel.size)]
    notes = []
    if len(good) < len(series.counts):
        detail = f"{channel.name}: {len(series.counts) - len(good)} values that no counter can have"
        notes.append(Reason(code="samples-dropped", detail=detail))
    if not good or good[0][0] > start or good[-1][0] < stop:
        unread = Reason(code="missing-values", detail="edge of the window not read")
        return None, series.failures[-1] if series.failures else unread, notes
    fastest = channel.fastest and channel.fastest / channel.joules_per_count
    result = counted([n for _, n in good], channel.size, [t for t, _ in good], fastest)
    if not result.moved:
        detail = f"stood at {good[0][1]} for {stop - start:.3g} s"
        return None, Reason(code="stuck-counter", detail=detail), notes
    if not result.whole:
        code = "counter-went-back" if result.backward else "counter-implausible"
        return None, Reason(code=code), notes
    if result.wraps:
        notes.append(Reason(code="counter-wrapped", detail=f"{channel.name}: {result.wraps} times"))
    return result.amount * channel.joules_per_count, None, notes


def _why_no_power(channel: Channel, series: _Series, integral: Integral) -> Reason:
    if series.failures:
        return series.failures[-1]
    if channel.power is None or not series.powers:
        return Reason(code="missing-values", detail="neither an energy counter nor a power reading")
    return Reason(code="window-not-bracketed", detail=f"{integral.samples} samples in the window")
