"""
NVIDIA Jetson through its INA3221 power monitors, which NVML does not see.

Rails nest like RAPL domains: VDD_IN (Orin NX and Nano) and POM_5V_IN (Nano, TX1) are the input of the module
and contain the others. Where no rail is the input (AGX Orin, AGX Xavier) the rails of the chip are added up
and the boundary is the chip. A board whose rails are not known by name is not metered.

References
----------
NVIDIA, Jetson Linux Developer Guide, "Platform Power and Performance" (rail names by board); Linux kernel,
Documentation/hwmon/ina3221.rst.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from joulesim.measure.meters.base import MeterAbsent, MeterError, observed_update_period
from joulesim.measure.meters.sampled import Channel, SampledMeter
from joulesim.measure.reading import MeterInfo
from joulesim.measure.record import Device
from joulesim.measure.validity import Reason

ROOT = Path("/sys/bus/i2c/drivers")
INPUTS = ("VDD_IN", "POM_5V_IN")
"""Rails that feed the whole module."""
CHIP_RAILS = (("VDD_GPU_SOC", "VDD_CPU_CV"), ("GPU", "CPU", "SOC", "CV"))
"""Rails that together feed the chip, by board family."""
_RAIL_TEXT = re.compile(r"\b([A-Z][A-Z0-9_]+) (\d+)(?:mW)?/(\d+)(?:mW)?(?=\s|$)")

Rails = dict[str, Callable[[], float]]


def probe(root: Path = ROOT, **timing) -> MeterInfo:
    """Which rails can be metered here, or why none."""
    try:
        return _info(*_chosen(_rails(root)), **timing)
    except MeterAbsent as absent:
        return absent.info


def open_meter(root: Path = ROOT, threaded: bool = True, clock=time.monotonic, **timing) -> JetsonMeter:
    """Meter of this module, or of its chip where the module has no input rail."""
    rails, is_module = _chosen(_rails(root))
    info = _info(rails, is_module, clock=clock, **timing)
    channels = [Channel(name, power=read) for name, read in rails.items()]
    return JetsonMeter(info, channels, period=0.1, clock=clock, threaded=threaded)


class JetsonMeter(SampledMeter):
    """Energy of a Jetson, from the power of its rails."""

    def device(self) -> Device:
        model = _text(Path("/proc/device-tree/model")).strip("\0")
        return Device(names=(model or "Jetson",), count=1)


def parse_tegrastats(line: str) -> dict[str, float]:
    """
    Power of each rail now, from a line of ``tegrastats``. [W]

    >>> parse_tegrastats("RAM 2448/30536MB GR3D_FREQ 0% VDD_GPU_SOC 3170mW/3100mW VDD_CPU_CV 950mW/950mW")
    {'VDD_GPU_SOC': 3.17, 'VDD_CPU_CV': 0.95}
    """
    return {name: float(now_mw) / 1e3 for name, now_mw, _ in _RAIL_TEXT.findall(line) if name != "RAM"}


def _rails(root: Path) -> Rails:
    """Reader of each rail that has a name. [W]"""
    rails: Rails = {}
    for label in sorted(root.glob("ina3221*/*/hwmon/hwmon*/in*_label")):  # JetPack 5 and later
        index = label.name.removeprefix("in").removesuffix("_label")
        volts, amps = label.with_name(f"in{index}_input"), label.with_name(f"curr{index}_input")
        if amps.exists():
            rails[_text(label)] = _product_reader(volts, amps)
    for label in sorted(root.glob("ina3221*/*/iio:device*/rail_name_*")):  # JetPack 4
        index = label.name.removeprefix("rail_name_")
        rails[_text(label)] = _power_reader(label.with_name(f"in_power{index}_input"))
    return rails


def _chosen(rails: Rails) -> tuple[Rails, bool]:
    """Rails to add up, and whether they feed the whole module."""
    if not rails:
        raise _absent("there is no INA3221 power monitor")
    for name in INPUTS:
        if name in rails:
            return {name: rails[name]}, True
    for family in CHIP_RAILS:
        if all(name in rails for name in family):
            return {name: rails[name] for name in family}, False
    raise _absent(f"rails {', '.join(rails)} are not known, and adding nested rails would count twice",
                  "meter at the wall, and tell us the board")


def _info(rails: Rails, is_module: bool, **timing) -> MeterInfo:
    try:
        period = observed_update_period(next(iter(rails.values())), **timing)
    except MeterError as error:
        raise _absent(error.reason.detail, "sudo chmod a+r on that file") from None
    return MeterInfo(
        name="jetson",
        boundary="board" if is_module else "chip",
        scope="input of the module" if is_module else "chip rails, without memory and carrier board",
        method="sampled power",
        fields=tuple(rails),
        devices=("Jetson",),
        power_resolution=1e-3,
        update_period=period or 0.1,
        notes=() if period else ("update period not observed, taken as 0.1 s",),
    )


def _product_reader(volts: Path, amps: Path) -> Callable[[], float]:
    def read() -> float:
        millivolts, milliamperes = _number(volts), _number(amps)
        return millivolts / 1e3 * milliamperes / 1e3

    return read


def _power_reader(path: Path) -> Callable[[], float]:
    def read() -> float:
        power_mw = _number(path)
        return power_mw / 1e3

    return read


def _number(path: Path) -> float:
    try:
        return float(path.read_text())
    except (OSError, ValueError) as error:
        raise MeterError("driver-error", f"{path}: {error}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _absent(detail: str, remedy: str = "") -> MeterAbsent:
    reason = Reason(code="no-meter", detail=detail)
    return MeterAbsent(MeterInfo(name="jetson", available=False, reason=reason, remedy=remedy))
