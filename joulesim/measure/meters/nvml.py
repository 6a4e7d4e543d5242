"""
NVIDIA GPUs through NVML: the energy counter where the device has one, sampled power beside it.

What a device can do is asked of the device, not derived from its name: a GTX 1650 Max-Q has the counter
(gpuopenanalytics/pynvml#18), a Tesla P100 has not (ai-dynamo/aiperf#1350), and Jetson answers NotSupported
to everything (HazyResearch/intelligence-per-watt#40).

Power has three faces. POWER_INSTANT is now; POWER_AVERAGE is the average of the last second, and so is
``nvmlDeviceGetPowerUsage`` on Ampere and later except GA100 (NVML API reference).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from joulesim.measure.meters import nvml_state
from joulesim.measure.meters.base import MeterAbsent, MeterError, observed_update_period
from joulesim.measure.meters.nvml_state import maybe, text
from joulesim.measure.meters.sampled import Channel, SampledMeter
from joulesim.measure.reading import MeterBoundary, MeterInfo
from joulesim.measure.record import Device, State
from joulesim.measure.validity import Reason

ENERGY_COUNTER = "nvmlDeviceGetTotalEnergyConsumption"
"""Millijoules since the driver was loaded; Volta and later."""
AVERAGE_OF_POWER = 1.0
"""Length of NVML's trailing power average. [s]"""
USUAL_UPDATE_PERIOD = 0.1
"""Update period of data-centre parts, taken where none could be observed. [s]"""
_AMPERE_WITHOUT_GA100 = (8, 6)
"""First compute capability whose ``nvmlDeviceGetPowerUsage`` is an average; GA100 is 8.0."""


@dataclass
class _Gpu:
    """A physical GPU that takes part, with what its driver lets one read."""

    handle: Any
    uuid: str
    name: str
    refused: Reason | None = None
    count: Callable[[], int] | None = None
    power: Callable[[], float] | None = None
    power_field: str = ""
    averaged: bool = False
    boundary: MeterBoundary = "board"


def probe(nvml: Any = None, environ: Mapping[str, str] = os.environ, **timing) -> MeterInfo:
    """What NVML can meter here, or why not."""
    try:
        library = _library(nvml)
        return _info(library, _able(library, _gpus(library, environ), **timing), environ, **timing)
    except MeterAbsent as absent:
        return absent.info


def open_meter(nvml: Any = None, environ: Mapping[str, str] = os.environ, threaded: bool = True, **timing):
    """Meter of the GPUs that ``CUDA_VISIBLE_DEVICES`` names, or of all."""
    library = _library(nvml)
    gpus = _able(library, _gpus(library, environ), **timing)
    return NvmlMeter(library, gpus, _info(library, gpus, environ, **timing), threaded, **timing)


class NvmlMeter(SampledMeter):
    """Energy of NVIDIA GPUs, summed over the physical boards that take part."""

    def __init__(
        self, library, gpus: list[_Gpu], info: MeterInfo, threaded: bool = True, clock=time.monotonic, **_
    ):
        channels = [
            Channel(name=gpu.uuid, count=gpu.count, joules_per_count=1e-3, power=gpu.power,
                    averaged=gpu.averaged, refused=gpu.refused)
            for gpu in gpus
        ]
        super().__init__(info, channels, period=0.1, clock=clock, threaded=threaded)
        self._library, self._gpus = library, gpus

    def device(self) -> Device:
        return nvml_state.device(self._library, [gpu.handle for gpu in self._gpus])

    def state(self) -> State:
        return nvml_state.worst_state(self._library, [gpu.handle for gpu in self._gpus])

    def close(self) -> None:
        super().close()
        maybe(self._library, "nvmlShutdown")


def _library(nvml: Any):
    """NVML, initialised."""
    if nvml is None:
        try:
            import pynvml as nvml
        except ImportError:
            missing = "the Python bindings of NVML are not installed"
            raise _absent(missing, "pip install nvidia-ml-py") from None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        remedy = "install the NVIDIA driver; in a container, start it with --gpus all"
        raise _absent(f"NVML does not start ({error})", remedy) from None
    return nvml


def _absent(detail: str, remedy: str = "", code: str = "no-meter") -> MeterAbsent:
    reason = Reason(code=code, detail=detail)
    return MeterAbsent(MeterInfo(name="nvml", available=False, reason=reason, remedy=remedy))


def _gpus(nvml, environ: Mapping[str, str]) -> list[_Gpu]:
    """Physical GPUs that take part, each once, however many MIG instances of it are named."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    else:
        tokens = (token.strip() for token in visible.split(","))
        handles = [_named(nvml, token) for token in tokens if token not in ("", "-1")]
    instances: dict[str, int] = {}
    gpus: dict[str, _Gpu] = {}
    for handle in handles:
        is_instance = bool(maybe(nvml, "nvmlDeviceIsMigDeviceHandle", handle))
        if is_instance:
            handle = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
        uuid = text(nvml.nvmlDeviceGetUUID(handle))
        gpus.setdefault(uuid, _Gpu(handle, uuid, text(maybe(nvml, "nvmlDeviceGetName", handle))))
        instances[uuid] = instances.get(uuid, 0) + is_instance
    for uuid, used in instances.items():
        there = _instances(nvml, gpus[uuid].handle)
        if 0 < used < there:
            detail = f"{used} of {there} instances take part; energy is metered for the whole GPU"
            gpus[uuid].refused = Reason(code="mig-instance", detail=detail)
    if not gpus:
        raise _absent("no NVIDIA GPU is visible", "check CUDA_VISIBLE_DEVICES")
    return list(gpus.values())


def _named(nvml, token: str):
    """Handle of an entry of CUDA_VISIBLE_DEVICES: an index, or the UUID of a GPU or a MIG instance."""
    try:
        if token.isdigit():
            return nvml.nvmlDeviceGetHandleByIndex(int(token))
        return nvml.nvmlDeviceGetHandleByUUID(token)
    except nvml.NVMLError as error:
        detail = f"CUDA_VISIBLE_DEVICES names {token!r}, NVML has no such device ({error})"
        raise _absent(detail, "list the devices with nvidia-smi -L") from None


def _instances(nvml, handle) -> int:
    """MIG instances that exist on a GPU."""
    found = (maybe(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
             for index in range(maybe(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0))
    return sum(instance is not None for instance in found)


def _able(nvml, gpus: list[_Gpu], **timing) -> list[_Gpu]:
    """The GPUs with what each can be asked."""
    for gpu in gpus:
        count = _reader(nvml, ENERGY_COUNTER, gpu.handle)
        if _answers(count):
            gpu.count = count
        _find_power(nvml, gpu)
    if not any(gpu.count or gpu.power for gpu in gpus):
        detail = "NVML starts, but this device supports neither energy nor power"
        raise _absent(detail, "on Jetson use the jetson meter; else meter at the wall", "missing-values")
    return gpus


def _find_power(nvml, gpu: _Gpu) -> None:
    """Take the first power reading that works: the module's if there is one, instant before average."""
    scopes: list[tuple[MeterBoundary, str]] = [("module", "MODULE"), ("board", "GPU")]
    for boundary, scope in scopes:
        for kind in ("INSTANT", "AVERAGE"):
            read = _field_reader(nvml, gpu.handle, kind, scope)
            if _answers(read):
                gpu.power, gpu.power_field = read, f"POWER_{kind} ({scope})"
                gpu.averaged, gpu.boundary = kind == "AVERAGE", boundary
                return
    old = _reader(nvml, "nvmlDeviceGetPowerUsage", gpu.handle)
    if _answers(old):
        capability = maybe(nvml, "nvmlDeviceGetCudaComputeCapability", gpu.handle) or _AMPERE_WITHOUT_GA100
        gpu.power = lambda: old() / 1e3  # mW
        gpu.power_field = "nvmlDeviceGetPowerUsage"
        gpu.averaged = tuple(capability) >= _AMPERE_WITHOUT_GA100


def _info(nvml, gpus: list[_Gpu], environ: Mapping[str, str], **timing) -> MeterInfo:
    notes = []
    by_counter = all(gpu.count for gpu in gpus)
    sources = {gpu.name: gpu.count or gpu.power for gpu in gpus if gpu.count or gpu.power}
    periods = [_period(source, **timing) for source in sources.values()]
    period = max((p for p in periods if p is not None), default=None)
    if period is None:
        period = USUAL_UPDATE_PERIOD
        notes.append(f"update period not observed, taken as {period:g} s")
    for gpu in gpus:
        if not gpu.count:
            notes.append(f"{gpu.name}: no energy counter, power is integrated")
        if not gpu.power:
            notes.append(f"{gpu.name}: no power reading, the counter cannot be checked")
    is_module = any(gpu.boundary == "module" for gpu in gpus)
    if is_module:
        notes.append("superchip: energy is that of CPU, GPU and memory together")
    if len({gpu.name for gpu in gpus}) > 1 and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        notes.append("GPUs differ, and CUDA may number them unlike NVML: set CUDA_DEVICE_ORDER=PCI_BUS_ID")
    averaged = any(gpu.averaged for gpu in gpus if not gpu.count)
    return MeterInfo(
        name="nvml",
        boundary="module" if is_module else "board",
        scope="superchip module" if is_module else "GPU board with its memory",
        method="counter" if by_counter else "sampled power",
        fields=tuple(dict.fromkeys(
            name for gpu in gpus for name in (ENERGY_COUNTER if gpu.count else "", gpu.power_field) if name
        )),
        devices=tuple(f"{gpu.name} {gpu.uuid}" for gpu in gpus),
        energy_resolution=1e-3 if by_counter else None,
        power_resolution=1e-3,
        update_period=period,
        averaging_time=AVERAGE_OF_POWER if averaged else 0.0,
        notes=tuple(notes),
    )


def _period(read: Callable[[], float], **timing) -> float | None:
    try:
        return observed_update_period(read, **timing)
    except MeterError:
        return None


def _reader(nvml, name: str, handle) -> Callable[[], int]:
    def read():
        try:
            return getattr(nvml, name)(handle)
        except nvml.NVMLError as error:
            raise _mapped(nvml, error) from None

    return read


def _field_reader(nvml, handle, kind: str, scope: str) -> Callable[[], float]:
    """Reader of POWER_INSTANT or POWER_AVERAGE at a scope. [W]"""
    names = f"NVML_FI_DEV_POWER_{kind}", f"NVML_POWER_SCOPE_{scope}"
    field = tuple(getattr(nvml, name, None) for name in names)

    def read():
        if None in field:
            raise MeterError("missing-values", "these bindings are too old for power fields")
        try:
            (answer,) = nvml.nvmlDeviceGetFieldValues(handle, [field])
        except nvml.NVMLError as error:
            raise _mapped(nvml, error) from None
        if answer.nvmlReturn != nvml.NVML_SUCCESS:
            raise _mapped(nvml, nvml.NVMLError(answer.nvmlReturn))
        power_mw = answer.value.uiVal
        return power_mw / 1e3

    return read


def _mapped(nvml, error: Exception) -> MeterError:
    """NVML's error in the words of joulesim; the only place where they meet."""
    def is_a(*names):
        known = (getattr(nvml, f"NVMLError_{name}", None) for name in names)
        return isinstance(error, tuple(kind for kind in known if kind))

    if is_a("GpuIsLost", "ResetRequired", "GpuNotFound"):
        return MeterError("device-lost", str(error), final=True)
    if is_a("NotSupported", "FunctionNotFound", "NoData", "Deprecated"):
        return MeterError("missing-values", str(error))
    if is_a("NoPermission"):
        return MeterError("no-permission", str(error))
    return MeterError("driver-error", str(error))


def _answers(read: Callable[[], Any]) -> bool:
    """Whether a value comes; a GPU that runs this code draws power, so 0 is no value."""
    try:
        return read() > 0
    except MeterError:
        return False
