"""
Logs of SPEC PTDaemon, as MLPerf power submissions hold them (``spl.txt``).

A line is ``Time,01-22-2021 15:05:14.313,Watts,22.97,Volts,227.37,Amps,0.225410,PF,0.45,Mark,NAME`` and may go
on with ``Ch1,Watts,...,Ch2,...``. ERROR and NOTICE lines stand between them. -1 means not applicable. Equal
stamps are separate samples. What counts is the power between ``power_begin`` and ``power_end`` of the run
(mlcommons/inference#854).

References
----------
mlcommons/power-dev, ``ptd_client_server`` (log format and its tests).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from joulesim.errors import Fault
from joulesim.measure.importers.power_rows import Gathered
from joulesim.measure.importers.text import read_text
from joulesim.measure.power_log import PowerLog
from joulesim.measure.validity import Reason

_CLOSE_ENOUGH = 0.01
"""Channels may differ from their total by this share."""


@dataclass(frozen=True)
class Sample:
    """One line. ``None`` is not applicable or not readable."""

    line: int
    time: str
    watts: float | None
    volts: float | None
    amps: float | None
    mark: str = ""
    channels: dict[str, float | None] = field(default_factory=dict)
    """Watts by channel. [W]"""

    @property
    def power(self) -> float | None:
        """Total power: as printed, else the sum of the channels. [W]"""
        if self.watts is not None or not self.channels:
            return self.watts
        return None if None in self.channels.values() else sum(self.channels.values())


@dataclass(frozen=True)
class Ranging:
    """What a ranging run says about how to set the analyser for the testing run."""

    power: float
    """Mean. [W]"""
    volts: float | None
    """Highest. [V]"""
    amps: float | None
    """Highest. [A]"""
    samples: int


def read_ptdaemon(path: str | os.PathLike, zone: str = "") -> PowerLog:
    """
    Power at the wall over time, with the first and last time of each mark.

    Parameters
    ----------
    zone : str
        Zone of the machine that ran PTDaemon; its stamps carry none.
    """
    file = str(path)
    gathered, marks, faults = Gathered(file, zone), {}, []
    text = read_text(path)
    for sample in _samples(text, file, faults):
        where = f"{file}:{sample.line}"
        power = sample.power
        if power is None:
            gathered.absent("wall", "not readable")
            continue
        if fault := _disagreement(sample):
            faults.append(Fault(where, fault, "the sample is left out"))
            continue
        time = gathered.time(sample.time, where)
        if time is None:
            continue
        gathered.add("wall", time, power, where)
        if sample.mark and sample.mark != "notset":
            first, _ = marks.get(sample.mark, (time, time))
            marks[sample.mark] = (first, time)
    gathered.faults = faults + gathered.faults
    return gathered.log(
        boundary="wall",
        scope="all that the analyser feeds",
        field="Watts",
        marks=marks or None,
        reasons=_errors(text),
    )


def ranging(path: str | os.PathLike, mark: str = "ranging") -> Ranging | None:
    """Mean power and highest voltage and current of the samples whose mark contains a word."""
    samples = [s for s in _samples(read_text(path), str(path), []) if mark in s.mark and s.power is not None]
    if not samples:
        return None
    return Ranging(
        power=sum(sample.power for sample in samples) / len(samples),
        volts=max((s.volts for s in samples if s.volts is not None), default=None),
        amps=max((s.amps for s in samples if s.amps is not None), default=None),
        samples=len(samples),
    )


def _errors(text: str) -> list[Reason]:
    """What the analyser complained about, each message once."""
    messages = Counter(line.partition(",")[2] for line in text.splitlines() if line.startswith("ERROR"))
    return [Reason(code="samples-dropped", detail=f"{n} x {message}") for message, n in messages.items()]


def _samples(text: str, file: str, faults: list[Fault]) -> Iterator[Sample]:
    for number, line in enumerate(text.splitlines(), start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if cells[0] == "Time":
            yield _sample(number, cells)
        elif line.strip() and cells[0] not in ("ERROR", "NOTICE"):
            what = f"expected a line that begins with Time, NOTICE or ERROR, got {line[:40]!r}"
            faults.append(Fault(f"{file}:{number}", what))


def _sample(number: int, cells: list[str]) -> Sample:
    """Names and values in turn; ``Ch1`` has no value and begins a channel."""
    total: dict[str, str] = {}
    channels: dict[str, dict[str, str]] = {}
    into, position = total, 0
    while position < len(cells):
        name = cells[position]
        if name.startswith("Ch") and name[2:].isdigit():
            into, position = channels.setdefault(name, {}), position + 1
            continue
        if position + 1 < len(cells):
            into[name] = cells[position + 1]
        position += 2
    return Sample(
        line=number,
        time=total.get("Time", ""),
        watts=_number(total.get("Watts")),
        volts=_number(total.get("Volts")),
        amps=_number(total.get("Amps")),
        mark=total.get("Mark", ""),
        channels={name: _number(channel.get("Watts")) for name, channel in channels.items()},
    )


def _number(text: str | None) -> float | None:
    """A value; -1 and nan stand for none. Other negative values are kept: a clamp may be the wrong way round."""
    try:
        value = float(text or "nan")
    except ValueError:
        return None
    return None if value == -1 or value != value else value


def _disagreement(sample: Sample) -> str:
    """What is wrong between a total and its channels, if anything."""
    powers = [power for power in sample.channels.values() if power is not None]
    if any(power < 0 for power in powers):
        return f"expected channels of at least 0 W, got {min(powers):g} W (a reversed clamp)"
    if sample.watts is None or len(powers) < max(1, len(sample.channels)):
        return ""
    if abs(sum(powers) - sample.watts) > _CLOSE_ENOUGH * max(sample.watts, 1.0):
        return f"channels add up to {sum(powers):g} W, the total is {sample.watts:g} W"
    return ""
