"""
The text that Apple's ``powermetrics`` prints, as samples.

Each sample is an average over the time that it names. Units are mW or W by version. ``Combined Power`` is the
sum of the rails it lists and leaves out DRAM, display and SSD (lablup/all-smi#83). A rail that is not
printed is unknown: M2 Pro has no ANE line, and a CPU rail of 0 is a rail that is not wired up
(kennss/SiliconScope#11, #12), since a CPU that prints draws power.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from joulesim.measure.validity import Reason

_HEADER = re.compile(r"^\*{3} Sampled system activity .*\(([\d.]+)ms elapsed\) \*{3}")
_RAIL = re.compile(r"^\s*(CPU|GPU|ANE|DRAM|Package) Power:\s*([\d.]+)\s*(mW|W)\s*$")
_COMBINED = re.compile(r"^\s*Combined Power \(([^)]*)\):\s*([\d.]+)\s*(mW|W)\s*$")
_WATTS = {"mW": 1e-3, "W": 1.0}
_ROUNDING = 0.001
"""Each line is rounded to a milliwatt. [W]"""


@dataclass(frozen=True)
class Sample:
    """Average power over one interval."""

    elapsed: float
    """Length of the interval. [s]"""
    rails: dict[str, float] = field(default_factory=dict)
    """Power by rail, those printed only. [W]"""
    combined: float | None = None
    """The total as printed. [W]"""
    combined_of: tuple[str, ...] = ()
    """Rails in that total."""

    @property
    def power(self) -> float | None:
        """Power of CPU, GPU and, where there is one, ANE; unknown when a rail is. [W]"""
        if not self.rails.get("CPU") or "GPU" not in self.rails:
            return None
        parts = sum(self.rails[rail] for rail in ("CPU", "GPU", "ANE") if rail in self.rails)
        return parts if self.combined is None else self.combined

    @property
    def fault(self) -> Reason | None:
        """Why this sample cannot be taken as it is."""
        if self.power is None:
            missing = [rail for rail in ("CPU", "GPU") if rail not in self.rails] or ["CPU"]
            detail = f"powermetrics reports no {' and no '.join(missing)} power"
            return Reason(code="missing-values", detail=detail)
        if self.combined is None:
            return None
        parts = sum(self.rails.get(rail, 0.0) for rail in self.combined_of)
        if abs(parts - self.combined) > _ROUNDING * (1 + len(self.combined_of)):
            rails = " + ".join(self.combined_of)
            detail = f"{rails} is {parts:.3f} W, combined power is {self.combined:.3f} W"
            return Reason(code="rails-disagree", detail=detail)
        return None


class Parser:
    """Reads lines as they come; a sample is complete when the next header, or the end, follows it."""

    def __init__(self):
        self._current: dict | None = None

    def feed(self, line: str) -> tuple[Sample | None, bool]:
        """The sample that this line completes, if it does, and whether the line is a header."""
        if header := _HEADER.match(line):
            done = self.finish()
            self._current = {"elapsed": float(header[1]) / 1e3, "rails": {}}
            return done, True
        if self._current is None:
            return None, False
        if rail := _RAIL.match(line):
            self._current["rails"][rail[1]] = float(rail[2]) * _WATTS[rail[3]]
        elif combined := _COMBINED.match(line):
            self._current["combined"] = float(combined[2]) * _WATTS[combined[3]]
            self._current["combined_of"] = tuple(part.strip() for part in combined[1].split("+"))
        return None, False

    def finish(self) -> Sample | None:
        """The sample read so far."""
        current, self._current = self._current, None
        return Sample(**current) if current else None


def parse(lines: Iterable[str]) -> list[Sample]:
    """Every sample of a text."""
    parser, samples = Parser(), []
    for line in lines:
        done, _ = parser.feed(line)
        if done:
            samples.append(done)
    last = parser.finish()
    return [*samples, last] if last else samples
