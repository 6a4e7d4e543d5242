"""The machine around a measurement: its name, its mains, and who else keeps it busy."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Literal

_SUPPLIES = Path("/sys/class/power_supply")


def processor() -> str:
    """Model of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))]
    return names[0] if names else platform.machine()


def features() -> tuple[str, ...]:
    """Vector and matrix instructions of the CPU that engines care about."""
    wanted = ("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16",
              "asimd", "asimddp", "i8mm", "sve")
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ()
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), [])
    return tuple(name for name in wanted if name in flags)


def describe() -> str:
    """CPU, cores and operating system in one line."""
    return f"{processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"


def memory() -> int | None:
    """Memory of the host. [B]"""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def power_source(supplies: Path = _SUPPLIES) -> Literal["ac", "battery", ""]:
    """Mains or battery; empty where the machine does not say."""
    kinds = {}
    for supply in supplies.glob("*") if supplies.is_dir() else ():
        try:
            kind = (supply / "type").read_text().strip()
            kinds[kind] = (supply / ("online" if kind == "Mains" else "status")).read_text().strip()
        except OSError:
            continue
    if kinds.get("Mains") == "1":
        return "ac"
    return "battery" if kinds.get("Battery") == "Discharging" else ""


class Surroundings:
    """CPU time of everybody over a window, to tell what others took."""

    def __init__(self):
        self._wall, self._busy = time.monotonic(), _busy()

    def others(self, own: float) -> float | None:
        """Cores that others kept busy since the start, given the CPU time of the measured process. [cores]"""
        busy, elapsed = _busy(), time.monotonic() - self._wall
        if busy is None or self._busy is None or elapsed <= 0:
            return None
        return max((busy - self._busy - own) / elapsed, 0.0)


def _busy() -> float | None:
    """CPU time of all processes since boot. [s]"""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    user, nice, system, _, _, irq, softirq = map(int, fields[:7])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
