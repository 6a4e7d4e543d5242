"""
AMD GPUs through AMD SMI: the energy accumulator times its resolution, sampled socket power beside it.

The accumulator has been seen stuck (ROCm/rocm_smi_lib#180, AMDResearch/hpcfund#21) and running backwards
(ROCm/amdsmi#115), so it is watched before it is used and checked against power after each window. On boards
with two dies (MI250) the first die's counter holds both and the second reads 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from joulesim.measure.meters.base import MeterAbsent, MeterError, observed_update_period
from joulesim.measure.meters.sampled import Channel, SampledMeter
from joulesim.measure.reading import MeterInfo
from joulesim.measure.record import Device
from joulesim.measure.validity import Reason

_COUNTS = "energy_accumulator", "power"
"""Names that AMD SMI has given to the raw count; the older one is not a power."""
_POWERS = ("current_socket_power", False), ("socket_power", False), ("average_socket_power", True)
"""Fields of the power reading, best first, and whether the field is an average."""


@dataclass
class _Gpu:
    handle: Any
    id: str
    name: str
    count: Callable[[], int] | None = None
    resolution: float = 0.0
    """Energy of one count. [J]"""
    period: float | None = None
    power: Callable[[], float] | None = None
    power_field: str = ""
    averaged: bool = False
    silent: bool = False
    """A die that another die's counter holds."""


def probe(library: Any = None, **timing) -> MeterInfo:
    """What AMD SMI can meter here, or why not."""
    try:
        return _info(_able(_library(library), **timing))
    except MeterAbsent as absent:
        return absent.info


def open_meter(library: Any = None, threaded: bool = True, clock=time.monotonic, **timing) -> AmdMeter:
    """Meter of all AMD GPUs."""
    library = _library(library)
    return AmdMeter(library, _able(library, clock=clock, **timing), threaded, clock)


class AmdMeter(SampledMeter):
    """Energy of AMD GPUs, summed over sockets."""

    def __init__(self, library, gpus: list[_Gpu], threaded: bool, clock: Callable[[], float]):
        channels = [
            Channel(gpu.id, gpu.count, gpu.resolution, power=gpu.power, averaged=gpu.averaged)
            for gpu in gpus if not gpu.silent
        ]
        super().__init__(_info(gpus), channels, clock=clock, threaded=threaded)
        self._library, self._gpus = library, gpus

    def device(self) -> Device:
        return Device(
            names=tuple(gpu.name for gpu in self._gpus),
            ids=tuple(gpu.id for gpu in self._gpus),
            count=len(self._gpus),
        )

    def close(self) -> None:
        super().close()
        self._library.amdsmi_shut_down()


def _library(library: Any):
    """AMD SMI, initialised."""
    if library is None:
        try:
            import amdsmi as library
        except (ImportError, OSError, KeyError):  # its bindings raise all three where ROCm is absent
            raise _absent("AMD SMI is not installed", "install ROCm, then pip install amdsmi") from None
    try:
        library.amdsmi_init()
    except library.AmdSmiException as error:
        detail = f"AMD SMI does not start ({error})"
        raise _absent(detail, "add yourself to the groups render and video") from None
    return library


def _absent(detail: str, remedy: str = "") -> MeterAbsent:
    reason = Reason(code="no-meter", detail=detail)
    return MeterAbsent(MeterInfo(name="amd", available=False, reason=reason, remedy=remedy))


def _able(library, **timing) -> list[_Gpu]:
    """The GPUs with what each can be asked; a stuck counter is not asked."""
    gpus = []
    for handle in library.amdsmi_get_processor_handles():
        name = _asked(library, "amdsmi_get_gpu_asic_info", handle).get("market_name", "AMD GPU")
        gpu = _Gpu(handle, str(library.amdsmi_get_gpu_device_uuid(handle)), name)
        _find_counter(library, gpu, **timing)
        _find_power(library, gpu)
        gpus.append(gpu)
    if not any(gpu.count or gpu.power for gpu in gpus):
        raise _absent("no AMD GPU with an energy or power reading")
    for gpu in gpus:
        raw = _asked(library, "amdsmi_get_energy_count", gpu.handle)
        gpu.silent = not gpu.power and not gpu.count and _number(raw, *_COUNTS) == 0
    return gpus


def _find_counter(library, gpu: _Gpu, **timing) -> None:
    resolution_uj = _number(_asked(library, "amdsmi_get_energy_count", gpu.handle), "counter_resolution")
    if not resolution_uj:
        return

    def read() -> int:
        count = _number(_ask(library, "amdsmi_get_energy_count", gpu.handle), *_COUNTS)
        if count is None:
            raise MeterError("missing-values", "energy accumulator is N/A")
        return count

    try:
        gpu.period = observed_update_period(read, **timing)
    except MeterError:
        return
    if gpu.period is not None:
        gpu.count, gpu.resolution = read, resolution_uj / 1e6


def _find_power(library, gpu: _Gpu) -> None:
    answer = _asked(library, "amdsmi_get_power_info", gpu.handle)
    for field, averaged in _POWERS:
        if _number(answer, field):
            gpu.power_field, gpu.averaged = field, averaged
            gpu.power = _power_reader(library, gpu.handle, field)
            return


def _power_reader(library, handle, field: str) -> Callable[[], float]:
    def read() -> float:
        power = _number(_ask(library, "amdsmi_get_power_info", handle), field)
        if power is None:
            raise MeterError("missing-values", f"{field} is N/A")
        return power

    return read


def _info(gpus: list[_Gpu]) -> MeterInfo:
    notes = [f"{gpu.name} {gpu.id}: {text}" for gpu in gpus for text in _notes(gpu)]
    counters = [gpu for gpu in gpus if gpu.count]
    metered = [gpu for gpu in gpus if not gpu.silent]
    by_counter = len(counters) == len(metered)
    fields = ("amdsmi_get_energy_count" if counters else "", *(gpu.power_field for gpu in gpus))
    return MeterInfo(
        name="amd",
        boundary="board",
        scope="GPU socket with its memory",
        method="counter" if by_counter else "sampled power",
        fields=tuple(dict.fromkeys(field for field in fields if field)),
        devices=tuple(f"{gpu.name} {gpu.id}" for gpu in metered),
        energy_resolution=max(gpu.resolution for gpu in counters) if by_counter else None,
        power_resolution=1.0,
        update_period=max((gpu.period for gpu in counters), default=0.1),
        notes=tuple(notes),
    )


def _notes(gpu: _Gpu) -> list[str]:
    if gpu.silent:
        return ["reads 0 and is left out: the counter of its sibling die holds both"]
    notes = [] if gpu.count else ["the energy accumulator does not move, power is integrated"]
    return notes if gpu.power else [*notes, "no power reading, the counter cannot be checked"]


def _ask(library, call: str, handle) -> dict:
    try:
        return getattr(library, call)(handle)
    except library.AmdSmiException as error:
        raise MeterError("driver-error", f"{call}: {error}") from None


def _asked(library, call: str, handle) -> dict:
    """Answer of a call, empty where the device has none."""
    try:
        return _ask(library, call, handle)
    except MeterError:
        return {}


def _number(answer: dict, *names: str) -> float | None:
    """First of some fields that holds a number; AMD SMI writes ``N/A`` as text."""
    for name in names:
        value = answer.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
    return None
