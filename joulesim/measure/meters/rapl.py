"""
CPU packages and DRAM through Linux powercap (RAPL).

Domains nest: psys contains the package, the package contains core and uncore; DRAM stands apart. Only
packages and their DRAM are added up. A package that shows up again through MMIO is the same package. Readable
by root alone since Linux 5.10 (CVE-2020-8694, PLATYPUS).

References
----------
Linux kernel, Documentation/power/powercap/powercap.rst; Intel SDM vol. 3B, "Platform Specific Power
Management Support" (32-bit counters, refreshed about every millisecond).
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from joulesim.measure.meters.base import MeterAbsent, MeterError
from joulesim.measure.meters.sampled import Channel, SampledMeter
from joulesim.measure.reading import MeterInfo
from joulesim.measure.record import Device
from joulesim.measure.validity import Reason

ROOT = Path("/sys/class/powercap")
UPDATE_PERIOD = 1e-3
"""Time between two updates of a counter (Intel SDM vol. 3B). [s]"""
FASTEST = 3000.0
"""No package or its DRAM draws more; a faster wrap was a reset. [W]"""
_ZONE = re.compile(r"(?P<driver>[a-z-]*rapl(?:-mmio)?):(?P<package>\d+)(?::\d+)?")
_PACKAGE = re.compile(r"package-\d+(?:-die-\d+)?")


@dataclass(frozen=True)
class _Zone:
    """A powercap domain."""

    path: Path
    name: str
    """As in the file ``name``: ``package-0``, ``dram``, ``core``, ``psys``."""
    parent: str
    """Name of the package it lies in; its own for a package."""

    @property
    def label(self) -> str:
        return self.name if self.name == self.parent else f"{self.parent}-{self.name}"

    @property
    def counter(self) -> Path:
        return self.path / "energy_uj"


def probe(root: Path = ROOT) -> MeterInfo:
    """What powercap can meter here, or why not and how to allow it."""
    try:
        return _info(_usable(root), root)
    except MeterAbsent as absent:
        return absent.info


def open_meter(root: Path = ROOT, clock=time.monotonic, threaded: bool = True) -> RaplMeter:
    """Meter of every CPU package and its DRAM."""
    zones = _usable(root)
    channels = [
        Channel(zone.label, _reader(zone), joules_per_count=1e-6, size=_size(zone), fastest=FASTEST)
        for zone in zones
    ]
    sizes = [channel.size * channel.joules_per_count for channel in channels if channel.size]
    period = min([1.0, *(size / (2 * FASTEST) for size in sizes)])
    return RaplMeter(_info(zones, root), channels, period, clock, threaded)


class RaplMeter(SampledMeter):
    """Energy of the CPU packages and their DRAM."""

    def device(self) -> Device:
        packages = [channel.name for channel in self.channels if not channel.name.endswith("-dram")]
        return Device(names=(_cpu_name(),) * len(packages), ids=tuple(packages), count=len(packages))


def _usable(root: Path) -> list[_Zone]:
    """Zones to add up, or why there are none."""
    packages, memories = _zones(root)
    locked = [zone for zone in packages if not _readable(zone.counter)]
    open_memories = [zone for zone in memories if _readable(zone.counter)]
    if locked:
        closed = [*locked, *(zone for zone in memories if zone not in open_memories)]
        files = " ".join(str(zone.counter) for zone in closed)
        detail = f"{locked[0].counter} is readable by root only"
        raise _absent("no-permission", detail, f"sudo chmod a+r {files}")
    return [*packages, *open_memories]


def _zones(root: Path) -> tuple[list[_Zone], list[_Zone]]:
    """Packages and DRAM domains, each once."""
    if not sys.platform.startswith("linux"):
        raise _absent("no-meter", "powercap is a part of Linux")
    if not root.is_dir():
        is_wsl = "microsoft" in _text(Path("/proc/version")).lower()
        where = "WSL" if is_wsl else "this kernel or virtual machine"
        detail = f"{root} does not exist: {where} offers no RAPL"
        raise _absent("no-meter", detail, "measure on the machine itself")
    matches = {path: _ZONE.fullmatch(path.name) for path in sorted(root.iterdir())}
    found = {path.name: (path, match) for path, match in matches.items() if match}
    packages: dict[str, _Zone] = {}
    memories: dict[str, _Zone] = {}
    for key in sorted(found, key=lambda key: ("mmio" in key, key)):  # registers first, MMIO repeats them
        path, match = found[key]
        name = _text(path / "name")
        parent = _text(found.get(f"{match['driver']}:{match['package']}", (path, None))[0] / "name")
        zone = _Zone(path, name, parent)
        if _PACKAGE.fullmatch(name):
            packages.setdefault(name, zone)
        elif name == "dram" and _PACKAGE.fullmatch(parent):
            memories.setdefault(parent, zone)
    if not packages:
        raise _absent("no-meter", f"{root} holds no CPU package", "measure on the machine itself")
    return list(packages.values()), list(memories.values())


def _info(zones: list[_Zone], root: Path) -> MeterInfo:
    has_memory = any(zone.name == "dram" for zone in zones)
    notes = []
    for zone in _zones(root)[1]:
        if zone not in zones:
            notes.append(f"{zone.label} is left out, it is not readable: sudo chmod a+r {zone.counter}")
    names = {_text(path / "name") for path in root.iterdir()}
    inside = sorted(names & {"psys", "core", "uncore"})
    if inside:
        nesting = "psys contains the package, the package contains the others"
        notes.append(f"not added: {', '.join(inside)} ({nesting})")
    if not all(_size(zone) for zone in zones):
        notes.append("max_energy_range_uj is not readable: a wrap of the counter cannot be repaired")
    return MeterInfo(
        name="rapl",
        boundary="board" if has_memory else "chip",
        scope="CPU package and DRAM" if has_memory else "CPU package",
        method="counter",
        fields=tuple(str(zone.counter) for zone in zones),
        devices=tuple(zone.label for zone in zones),
        energy_resolution=1e-6,
        update_period=UPDATE_PERIOD,
        notes=tuple(notes),
    )


def _reader(zone: _Zone) -> Callable[[], int]:
    def read():
        try:
            return int(zone.counter.read_text())
        except PermissionError:
            raise MeterError("no-permission", f"{zone.counter} is readable by root only") from None
        except (OSError, ValueError) as error:
            raise MeterError("driver-error", f"{zone.counter}: {error}") from None

    return read


def _size(zone: _Zone) -> int | None:
    """Microjoules after which a counter starts again; it is one unit (tens of uJ) more than the file says."""
    text = _text(zone.path / "max_energy_range_uj")
    return int(text) if text.isdigit() and int(text) > 0 else None


def _readable(path: Path) -> bool:
    """Whether a value comes when asked; the access bits alone do not say."""
    try:
        return bool(path.read_text().strip())
    except OSError:
        return False


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _cpu_name() -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", _text(Path("/proc/cpuinfo")), re.M)
    return match[1] if match else ""


def _absent(code: str, detail: str, remedy: str = "") -> MeterAbsent:
    reason = Reason(code=code, detail=detail)
    return MeterAbsent(MeterInfo(name="rapl", available=False, reason=reason, remedy=remedy))
