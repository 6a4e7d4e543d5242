"""A pynvml that behaves like the real one, faults included, for devices whose power is a function of time."""

from types import SimpleNamespace

import numpy as np

LOST, NOT_SUPPORTED, UNKNOWN, NOT_FOUND, NO_PERMISSION, NO_LIBRARY = 15, 3, 999, 6, 4, 12
_TEXT = {
    LOST: "GPU is lost",
    NOT_SUPPORTED: "Not Supported",
    UNKNOWN: "Unknown Error",
    NOT_FOUND: "Not Found",
    NO_PERMISSION: "Insufficient Permissions",
    NO_LIBRARY: "NVML Shared Library Not Found",
}
_CLASSES = {
    LOST: "GpuIsLost",
    NOT_SUPPORTED: "NotSupported",
    UNKNOWN: "Unknown",
    NOT_FOUND: "NotFound",
    NO_PERMISSION: "NoPermission",
    NO_LIBRARY: "LibraryNotFound",
}
_STEP = 0.01
"""Grid on which a fake GPU's energy is summed. [s]"""


class FakeGpu:
    """One GPU. ``power(t)`` in watts; what it cannot do is left out of ``can``."""

    def __init__(
        self,
        power=lambda t: 300.0,
        name="NVIDIA Fake",
        uuid="GPU-0",
        update=0.1,
        counter_scale=1.0,
        can=("counter", "instant", "average", "usage"),
        capability=(9, 0),
        counter_at_start=5_000_000,
        instances=0,
        module=False,
        counter_size=None,
        throttle=0,
        clock_mhz=1980,
    ):
        self.power, self.name, self.uuid, self.update = power, name, uuid, update
        self.counter_scale, self.can, self.capability = counter_scale, set(can), capability
        self.counter_at_start, self.instances, self.module = counter_at_start, instances, module
        self.counter_size, self.throttle, self.clock_mhz = counter_size, throttle, clock_mhz
        self.error = None
        """Code that every query now fails with."""
        self.stuck = False
        self._stuck_at = None
        self._sums = [0.0]
        self.driver_loaded_at = None

    def energy_mj(self, now):
        """Counter at a time, as of the last update. [mJ]"""
        tick = np.floor((now - self.driver_loaded_at) / self.update + 1e-9) * self.update
        joules = self._joules_until(round(tick / _STEP)) * self.counter_scale
        count = int(self.counter_at_start + joules * 1000)
        count = count if self.counter_size is None else count % self.counter_size
        if self.stuck:
            self._stuck_at = count if self._stuck_at is None else self._stuck_at
            return self._stuck_at
        return count

    def _joules_until(self, steps):
        """Energy of the first steps since the driver was loaded, summed once. [J]"""
        while len(self._sums) <= steps:
            middle = self.driver_loaded_at + (len(self._sums) - 0.5) * _STEP
            self._sums.append(self._sums[-1] + self.power(middle) * _STEP)
        return self._sums[max(steps, 0)]

    def instant_mw(self, now):
        """[mW]"""
        return int(self.power(np.floor(now / self.update + 1e-9) * self.update) * 1000)

    def average_mw(self, now):
        """Average of the last second. [mW]"""
        return int(np.mean([self.power(now - age) for age in np.linspace(0.0, 1.0, 20)]) * 1000)


class FakeNvml:
    """Stands in for the module ``pynvml``."""

    NVML_SUCCESS = 0
    NVML_FI_DEV_POWER_AVERAGE, NVML_FI_DEV_POWER_INSTANT = 185, 186
    NVML_POWER_SCOPE_GPU, NVML_POWER_SCOPE_MODULE, NVML_POWER_SCOPE_MEMORY = 0, 1, 2
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    nvmlClocksThrottleReasonNone = 0
    nvmlClocksThrottleReasonGpuIdle = 1
    nvmlClocksThrottleReasonSwPowerCap = 4
    nvmlClocksThrottleReasonHwThermalSlowdown = 64

    class NVMLError(Exception):
        """As pynvml's: made with a code, the instance has the code's own class."""

        def __new__(cls, code=None):
            return Exception.__new__(FakeNvml.__dict__.get(f"NVMLError_{_CLASSES.get(code)}", cls))

        def __init__(self, code):
            self.value = code
            super().__init__(code)

        def __str__(self):
            return _TEXT[self.value]

    def __init__(self, gpus, clock, starts=True):
        self.gpus, self.clock, self.starts, self.shut = gpus, clock, starts, 0
        for gpu in gpus:
            gpu.driver_loaded_at = clock() - 20.0

    def nvmlInit(self):
        if not self.starts:
            raise self.NVMLError(NO_LIBRARY)

    def nvmlShutdown(self):
        self.shut += 1

    def nvmlDeviceGetCount(self):
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index):
        if index >= len(self.gpus):
            raise self.NVMLError(NOT_FOUND)
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid):
        for gpu in self.gpus:
            if gpu.uuid == uuid:
                return gpu
            for index in range(gpu.instances):
                if uuid == f"MIG-{gpu.uuid}-{index}":
                    return SimpleNamespace(parent=gpu)
        raise self.NVMLError(NOT_FOUND)

    def nvmlDeviceIsMigDeviceHandle(self, handle):
        return int(hasattr(handle, "parent"))

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle):
        return handle.parent

    def nvmlDeviceGetMaxMigDeviceCount(self, handle):
        return 7 if handle.instances else 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, index):
        if index >= handle.instances:
            raise self.NVMLError(NOT_FOUND)
        return SimpleNamespace(parent=handle)

    def nvmlDeviceGetUUID(self, handle):
        return handle.uuid.encode()

    def nvmlDeviceGetName(self, handle):
        return handle.name

    def nvmlDeviceGetCudaComputeCapability(self, handle):
        return handle.capability

    def _ask(self, gpu, ability):
        if gpu.error is not None:
            raise self.NVMLError(gpu.error)
        if ability not in gpu.can:
            raise self.NVMLError(NOT_SUPPORTED)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        self._ask(handle, "counter")
        return handle.energy_mj(self.clock())

    def nvmlDeviceGetPowerUsage(self, handle):
        self._ask(handle, "usage")
        averaged = handle.capability >= (8, 6)
        return handle.average_mw(self.clock()) if averaged else handle.instant_mw(self.clock())

    def nvmlDeviceGetFieldValues(self, handle, fields):
        if handle.error is not None:
            raise self.NVMLError(handle.error)
        answers = []
        for field, scope in fields:
            ability = "instant" if field == self.NVML_FI_DEV_POWER_INSTANT else "average"
            here = scope == self.NVML_POWER_SCOPE_GPU or (
                scope == self.NVML_POWER_SCOPE_MODULE and handle.module
            )
            works = here and ability in handle.can
            now = self.clock()
            value = (
                (handle.instant_mw(now) if ability == "instant" else handle.average_mw(now)) if works else 0
            )
            code = self.NVML_SUCCESS if works else NOT_SUPPORTED
            answers.append(SimpleNamespace(nvmlReturn=code, value=SimpleNamespace(uiVal=value)))
        return answers

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(total=80 * 2**30)

    def nvmlSystemGetDriverVersion(self):
        return b"590.48.01"

    def nvmlDeviceGetVbiosVersion(self, handle):
        return "96.00"

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):
        return 700_000

    def nvmlDeviceGetClockInfo(self, handle, kind):
        return handle.clock_mhz if kind == self.NVML_CLOCK_SM else 2619

    def nvmlDeviceGetPerformanceState(self, handle):
        return 0

    def nvmlDeviceGetTemperature(self, handle, sensor):
        return 55

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return handle.throttle

    def nvmlDeviceGetDisplayActive(self, handle):
        return 0

    def nvmlDeviceGetPersistenceMode(self, handle):
        raise self.NVMLError(NOT_SUPPORTED)

    def nvmlDeviceGetEccMode(self, handle):
        return 1, 1


for _code, _name in _CLASSES.items():
    setattr(FakeNvml, f"NVMLError_{_name}", type(f"NVMLError_{_name}", (FakeNvml.NVMLError,), {}))
