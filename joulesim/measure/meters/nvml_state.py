"""Clocks, caps and identity of NVIDIA GPUs, as NVML tells them; every answer may be missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from joulesim.measure.record import Device, State


def device(nvml, handles: list) -> Device:
    """The GPUs, with the driver and memory of the first."""
    memory = maybe(nvml, "nvmlDeviceGetMemoryInfo", handles[0])
    return Device(
        names=tuple(text(maybe(nvml, "nvmlDeviceGetName", handle)) for handle in handles),
        ids=tuple(text(maybe(nvml, "nvmlDeviceGetUUID", handle)) for handle in handles),
        count=len(handles),
        driver=text(maybe(nvml, "nvmlSystemGetDriverVersion")),
        firmware=text(maybe(nvml, "nvmlDeviceGetVbiosVersion", handles[0])),
        memory=memory and memory.total,
    )


def worst_state(nvml, handles: list) -> State:
    """Lowest clocks and cap, highest temperature and every reason to throttle of several GPUs."""
    states = [_state(nvml, handle) for handle in handles]
    return states[0].model_copy(update={
        "power_limit": _least(s.power_limit for s in states),
        "chip_clock": _least(s.chip_clock for s in states),
        "memory_clock": _least(s.memory_clock for s in states),
        "temperature": max((s.temperature for s in states if s.temperature is not None), default=None),
        "throttle_reasons": tuple(sorted({r for s in states for r in s.throttle_reasons})),
    })


def _state(nvml, handle) -> State:
    limit_mw = maybe(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle)
    chip_mhz = maybe(nvml, "nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM)
    memory_mhz = maybe(nvml, "nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_MEM)
    level = maybe(nvml, "nvmlDeviceGetPerformanceState", handle)
    ecc = maybe(nvml, "nvmlDeviceGetEccMode", handle)
    display = maybe(nvml, "nvmlDeviceGetDisplayActive", handle)
    persistence = maybe(nvml, "nvmlDeviceGetPersistenceMode", handle)
    return State(
        power_limit=None if limit_mw is None else limit_mw / 1e3,
        chip_clock=None if chip_mhz is None else chip_mhz * 1e6,
        memory_clock=None if memory_mhz is None else memory_mhz * 1e6,
        temperature=maybe(nvml, "nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
        performance_state="" if level is None else f"P{level}",
        throttle_reasons=_throttle_reasons(nvml, handle),
        display_active=None if display is None else bool(display),
        ecc=None if ecc is None else bool(ecc[0]),
        persistence=None if persistence is None else bool(persistence),
    )


_HARMLESS = (
    "None", "All", "GpuIdle", "ApplicationsClocksSetting", "UserDefinedClocks", "DisplayClockSetting",
)
"""Clock reasons that are no throttling: nothing to do, or clocks that somebody set."""


def _throttle_reasons(nvml, handle) -> tuple[str, ...]:
    prefix = "nvmlClocksThrottleReason"
    active = maybe(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle) or 0
    names = (name.removeprefix(prefix) for name in dir(nvml) if name.startswith(prefix))
    return tuple(name for name in names if name not in _HARMLESS and active & getattr(nvml, prefix + name))


def maybe(nvml, name: str, *args) -> Any:
    """Answer of an NVML call, or ``None`` where this device, driver or binding has none."""
    try:
        return getattr(nvml, name)(*args)
    except (nvml.NVMLError, AttributeError):
        return None


def text(value: Any) -> str:
    """NVML text; bindings before 11.5 give bytes."""
    return value.decode() if isinstance(value, bytes) else str(value or "")


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)
