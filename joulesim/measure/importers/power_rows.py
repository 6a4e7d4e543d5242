"""Power samples gathered from the rows of a log, by channel, with the zone of their stamps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import tzinfo

from joulesim.errors import Fault, InputError
from joulesim.measure.importers import stamps
from joulesim.measure.power_log import PowerLog
from joulesim.measure.validity import Reason

BACKWARDS = 1.0
"""Stamps of one channel that fall by more than this are a clock that was set (or winter time). [s]"""


@dataclass
class Gathered:
    """Samples by channel as they are read; :meth:`log` makes the power log."""

    file: str
    zone: str = ""
    local: tzinfo | None = None
    times: dict[str, list[float]] = field(default_factory=dict)
    powers: dict[str, list[float]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    missing: Counter = field(default_factory=Counter)
    """Samples without a value, by channel and by the word that stands in its place."""
    zone_used: bool = False
    jumps: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.local = stamps.zone(self.zone, self.file) if self.zone else None

    def time(self, text: str, where: str) -> float | None:
        """Time of a stamp; a fault when it is none. [s]"""
        try:
            seconds, used = stamps.unix(text, self.local)
        except stamps.NoZone as error:
            remedy = "say where its machine stands with zone='Europe/Berlin' or zone='+02:00'"
            raise InputError(Fault(where, str(error), remedy)) from None
        except ValueError as error:
            self.faults.append(Fault(where, str(error)))
            return None
        self.zone_used = self.zone_used or used
        return seconds

    def add(self, channel: str, time: float, power: float, where: str) -> None:
        """One sample. [s], [W]"""
        if power < 0:
            self.faults.append(Fault(where, f"expected at least 0 W, got {power:g} W", "check the clamp's direction"))
            return
        times = self.times.setdefault(channel, [])
        if times and time < times[-1] - BACKWARDS:
            self.jumps.append(f"{where}: {times[-1] - time:.3g} s back")
        times.append(time)
        self.powers.setdefault(channel, []).append(power)

    def absent(self, channel: str, word: str) -> None:
        """A sample without a value: its channel exists."""
        self.times.setdefault(channel, [])
        self.powers.setdefault(channel, [])
        self.missing[channel, word] += 1

    def log(self, **fields) -> PowerLog:
        """The power log; an error when there is no sample at all."""
        if not self.times:
            none = Fault(self.file, "expected power samples, found none")
            raise InputError(self.faults or none)
        reasons = list(fields.pop("reasons", ()))
        reasons += [
            Reason(code="samples-dropped", detail=f"{channel}: {count} samples are {word}")
            for (channel, word), count in self.missing.items()
        ]
        if self.faults:
            detail = f"{len(self.faults)} rows of {self.file} are not readable"
            reasons.append(Reason(code="samples-dropped", detail=detail))
        if self.zone_used:
            reasons.append(Reason(code="zone-assumed", detail=self.zone))
        if self.jumps:
            reasons.append(Reason(code="clock-jump", detail=self.jumps[0]))
        return PowerLog(
            file=self.file,
            times=self.times,
            powers=self.powers,
            zone=self.zone if self.zone_used else "",
            faults=tuple(self.faults),
            reasons=tuple(reasons),
            **fields,
        )
