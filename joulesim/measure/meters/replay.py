"""A recorded power trace in place of a meter: for tests, dry runs and machines without one."""

from __future__ import annotations

import time
from collections.abc import Callable

from joulesim.measure.meters.base import Meter
from joulesim.measure.power_log import PowerLog
from joulesim.measure.reading import MeterInfo, Reading
from joulesim.measure.validity import Reason


class Replay(Meter):
    """
    A trace that runs from its first sample when the meter is made.

    Its energies belong to the run that was recorded, and every reading says so. The end of the trace is the end
    of the energy: it is not repeated and not extrapolated.
    """

    def __init__(self, trace: PowerLog, clock: Callable[[], float] = time.monotonic):
        self._clock, self._start = clock, 0.0
        self._trace = trace.shifted(clock() - trace.start)
        self.info: MeterInfo = self._trace.info.model_copy(update={"name": "replay"})

    def start(self) -> None:
        self._start = self._clock()

    def stop(self) -> Reading:
        reading = self._trace.reading(self._start, self._clock())
        replayed = Reason(code="replayed", detail=self._trace.file)
        return reading.model_copy(
            update={"meter": self.info, "clock": "monotonic", "reasons": (*reading.reasons, replayed)}
        )
