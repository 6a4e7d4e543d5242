"""What every meter does: open a window, close it, say what it used and why it is silent."""

from __future__ import annotations

import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from joulesim.errors import Fault, JoulesimError
from joulesim.measure.reading import UPDATES_PER_WINDOW, MeterInfo, Reading
from joulesim.measure.record import Device, State
from joulesim.measure.validity import Reason
from joulesim.units import show


class MeterError(JoulesimError):
    """A value that could not be read. ``final``: the device is gone and asking again is of no use."""

    def __init__(self, code: str, detail: str, final: bool = False):
        super().__init__(detail)
        self.reason = Reason(code=code, detail=detail)
        self.final = final


class MeterAbsent(JoulesimError, RuntimeError):
    """A meter was asked for by name and does not work here."""

    def __init__(self, info: MeterInfo):
        self.info = info
        super().__init__(str(Fault(f"meter {info.name}", str(info.reason), info.remedy)))


class Meter(ABC):
    """
    One source of joules.

    A window runs from :meth:`start` to :meth:`stop`; windows of one meter do not overlap.
    """

    info: MeterInfo

    @abstractmethod
    def start(self) -> None:
        """Open a window."""

    @abstractmethod
    def stop(self) -> Reading:
        """Close the window and say what it took."""

    def close(self) -> None:  # noqa: B027 (most meters hold nothing)
        """Give the device free."""

    def device(self) -> Device:
        """The hardware that this meter sees, as far as it can tell."""
        return Device()

    def state(self) -> State:
        """Clocks, caps and temperature now, as far as it can tell."""
        return State()

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_) -> None:
        self.close()


class NoMeter(Meter):
    """In place of a meter where there is none: time passes, energy is unknown."""

    def __init__(self, info: MeterInfo | None = None, clock: Callable[[], float] = time.monotonic):
        reason = Reason(code="no-meter")
        self.info = info or MeterInfo(name="none", available=False, reason=reason)
        self._clock, self._start = clock, 0.0

    def start(self) -> None:
        self._start = self._clock()

    def stop(self) -> Reading:
        reason = self.info.reason or Reason(code="no-meter")
        return Reading(meter=self.info, start=self._start, stop=self._clock(), energy_reason=reason)


def too_short(info: MeterInfo, time: float) -> Reason | None:
    """Reason to refuse a window of this length, with what is needed instead."""
    if time >= info.shortest_window or not info.shortest_window:
        return None
    slowest = max(info.update_period or 0.0, info.averaging_time)
    what = "averages" if info.averaging_time >= (info.update_period or 0.0) else "update periods"
    basis = f"{UPDATES_PER_WINDOW} {what} of {show(slowest, 'second')}"
    need = f"at least {show(info.shortest_window, 'second')} ({basis})"
    repeats = -(-info.shortest_window // time) if time > 0 else None
    again = f"; repeat the work {repeats:.0f} times within one window" if repeats else ""
    return Reason(code="window-too-short", detail=f"{show(time, 'second')} measured, {need} needed{again}")


def observed_update_period(
    read: Callable[[], float],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    longest: float = 0.6,
    step: float = 1e-3,
) -> float | None:
    """
    Time between two changes of a value, watched for ``longest``; ``None`` when it never changes twice. [s]

    A device that stands still between two updates for longer than that is taken to be stuck.
    """
    began, last, changes = clock(), read(), []
    while clock() - began < longest and len(changes) < 20:
        sleep(step)
        value = read()
        if value != last:
            changes.append(clock())
            last = value
    gaps = [b - a for a, b in zip(changes, changes[1:], strict=False)]
    return statistics.median(gaps) if gaps else None
