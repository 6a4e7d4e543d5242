"""NVIDIA GPUs through a fake NVML with every documented fault."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joulesim.measure.meters import nvml
from joulesim.measure.meters.base import MeterAbsent

from .clock import Clock, run
from .fake_nvml import LOST, NO_PERMISSION, NOT_SUPPORTED, UNKNOWN, FakeGpu, FakeNvml


def opened(*gpus, environ=None, clock=None):
    """Meter of fake GPUs, and the clock that drives them."""
    clock = clock or Clock()
    meter = nvml.open_meter(
        FakeNvml(gpus, clock), environ or {}, threaded=False, clock=clock, sleep=clock.sleep
    )
    return meter, clock


def codes(reading):
    return {reason.code for reason in reading.reasons}


def test_energy_counter_is_preferred_and_checked_by_power():
    meter, clock = opened(FakeGpu(power=lambda t: 300.0))
    reading = run(meter, clock, 20.0)
    assert reading.energy == pytest.approx(6000.0, rel=0.01)
    assert reading.cross_check == pytest.approx(6000.0, rel=1e-6)
    assert reading.power == pytest.approx(300.0, rel=0.01)
    assert (reading.reasons, reading.meter.boundary, reading.meter.method) == ((), "board", "counter")
    assert reading.resolution == pytest.approx(0.1 * 300.0, rel=0.02)
    assert meter.info.update_period == pytest.approx(0.1, abs=0.01)
    assert meter.info.fields == ("nvmlDeviceGetTotalEnergyConsumption", "POWER_INSTANT (GPU)")


def test_several_gpus_are_summed_and_kept_apart():
    meter, clock = opened(FakeGpu(power=lambda t: 300.0), FakeGpu(power=lambda t: 200.0, uuid="GPU-1"))
    reading = run(meter, clock, 20.0)
    assert reading.energy == pytest.approx(10_000.0, rel=0.01)
    assert reading.parts["GPU-1"] == pytest.approx(4000.0, rel=0.01)
    assert sum(reading.parts.values()) == pytest.approx(reading.energy)
    assert meter.device().count == 2


def test_short_windows_are_refused_with_what_is_needed():
    """A counter that is refreshed every 100 ms needs 10 s for 1 %; every 10 ms (GTX 1650 Max-Q), 1 s."""
    meter, clock = opened(FakeGpu())
    reading = run(meter, clock, 0.5)
    assert (reading.energy, reading.power) == (None, None)
    assert str(reading.energy_reason).startswith("window-too-short: 500 ms measured, at least 1")
    assert "(100 update periods of 10" in reading.energy_reason.detail
    assert "repeat the work 2" in reading.energy_reason.detail
    laptop, clock = opened(
        FakeGpu(name="NVIDIA GeForce GTX 1650 with Max-Q Design", update=0.01, capability=(7, 5))
    )
    assert laptop.info.method == "counter"
    assert laptop.info.shortest_window == pytest.approx(1.0, rel=0.15)


def test_pascal_has_power_and_no_counter():
    """Case nvidia_smi-12: Tesla P100, everything works except total energy."""
    pascal = FakeGpu(
        power=lambda t: 150.0 + 50.0 * (t % 2.0 < 1.0), name="Tesla P100", can=("usage",), capability=(6, 0)
    )
    meter, clock = opened(pascal)
    reading = run(meter, clock, 20.0)
    assert reading.energy == pytest.approx(175.0 * 20.0, rel=0.03)
    assert codes(reading) == {"power-integrated"}
    assert "no energy counter" in str(reading.reasons[0])
    assert meter.info.method == "sampled power"
    assert "Tesla P100: no energy counter, power is integrated" in meter.info.notes


def test_old_power_call_is_instant_up_to_ga100_and_an_average_from_ampere_on():
    turing, _ = opened(FakeGpu(can=("usage",), capability=(7, 5)))
    ga100, _ = opened(FakeGpu(can=("usage",), capability=(8, 0)))
    ada, _ = opened(FakeGpu(can=("usage",), capability=(8, 9)))
    assert [m.info.averaging_time for m in (turing, ga100, ada)] == [0.0, 0.0, 1.0]
    assert ada.info.shortest_window == 100.0


def test_turing_without_the_average_field():
    """Case nvidia_smi-01: RTX 2080 SUPER, power.draw.average is N/A, instant 39.32 W."""
    meter, clock = opened(FakeGpu(power=lambda t: 39.32, can=("instant", "usage"), capability=(7, 5)))
    assert meter.info.fields == ("POWER_INSTANT (GPU)",)
    assert run(meter, clock, 20.0).power == pytest.approx(39.32)


def test_a_lagging_average_is_named():
    """Case nvidia_smi-02: just after load an L40S says 183 W on average and 120 W now."""
    gpu = FakeGpu(power=lambda t: 300.0 if t < 1050.0 else 100.0, can=("average",))
    meter, clock = opened(gpu)
    clock.now = 1049.9
    clock.sleep(0.5)
    assert gpu.average_mw(clock()) > 1.5 * gpu.instant_mw(clock())
    short = run(meter, clock, 20.0)
    assert short.energy_reason.code == "window-too-short"
    assert "(100 averages of 1 s)" in short.energy_reason.detail
    reading = run(meter, clock, 120.0)
    assert codes(reading) == {"power-integrated", "power-averaged"}
    assert reading.energy == pytest.approx(100.0 * 120.0, rel=0.01)


def test_counter_that_disagrees_with_power_is_suspect():
    """ml-energy/zeus#181: 37.5 W by counter, 65.3 W by integral on one board."""
    meter, clock = opened(FakeGpu(power=lambda t: 65.3, counter_scale=37.5 / 65.3))
    reading = run(meter, clock, 20.0)
    assert reading.power == pytest.approx(37.5, rel=0.01)
    assert codes(reading) == {"counter-disagrees"}
    assert "integrated power 1306 J" in reading.reasons[0].detail


def test_absurd_counter_gives_way_to_power():
    meter, clock = opened(FakeGpu(counter_scale=0.001))
    reading = run(meter, clock, 20.0)
    assert reading.energy == pytest.approx(6000.0)
    assert "counter-implausible" in str(reading.reasons[0])


def test_stale_counter_gives_way_to_power():
    gpu = FakeGpu(power=lambda t: 250.0)
    meter, clock = opened(gpu)
    gpu.stuck = True
    reading = run(meter, clock, 20.0)
    assert reading.energy == pytest.approx(5000.0)
    assert "stuck-counter: stood at" in str(reading.reasons[0])


def test_stale_counter_without_power_is_unknown_and_not_zero():
    gpu = FakeGpu(can=("counter",))
    meter, clock = opened(gpu)
    gpu.stuck = True
    reading = run(meter, clock, 20.0)
    assert (reading.energy, reading.energy_reason.code) == (None, "stuck-counter")


def test_counter_that_falls_gives_way_to_power():
    """A driver that is loaded again, or a 32-bit counter of unknown range that wraps."""
    meter, clock = opened(FakeGpu(counter_at_start=2**32 - 9_000_000, counter_size=2**32))
    reading = run(meter, clock, 20.0)
    assert reading.energy == pytest.approx(6000.0, rel=0.01)
    assert "counter-went-back" in str(reading.reasons[0])


def test_counter_that_falls_without_power_is_unknown():
    meter, clock = opened(FakeGpu(counter_at_start=2**32 - 9_000_000, counter_size=2**32, can=("counter",)))
    reading = run(meter, clock, 20.0)
    assert (reading.energy, reading.energy_reason.code) == (None, "counter-went-back")


def test_gpu_that_disappears():
    lost, kept = FakeGpu(), FakeGpu(uuid="GPU-1")
    meter, clock = opened(lost, kept)
    reading = run(meter, clock, 20.0, during=lambda t: setattr(lost, "error", LOST if t > 10 else None))
    assert (reading.energy, str(reading.energy_reason)) == (None, "device-lost: GPU-0: GPU is lost")
    assert reading.parts["GPU-0"] is None
    assert reading.parts["GPU-1"] == pytest.approx(6000.0, rel=0.01)


def test_driver_error_in_the_middle_costs_samples_only():
    gpu = FakeGpu()
    meter, clock = opened(gpu)
    reading = run(meter, clock, 20.0, during=lambda t: setattr(gpu, "error", UNKNOWN if 5 < t < 6 else None))
    assert reading.energy == pytest.approx(6000.0, rel=0.01)
    assert codes(reading) == {"samples-dropped"}
    assert "reads failed, last driver-error (Unknown Error)" in reading.reasons[0].detail


def test_driver_error_at_the_end_leaves_no_energy():
    gpu = FakeGpu()
    meter, clock = opened(gpu)
    reading = run(meter, clock, 20.0, during=lambda t: setattr(gpu, "error", UNKNOWN if t > 19 else None))
    assert (reading.energy, str(reading.energy_reason)) == (None, "driver-error: GPU-0: Unknown Error")


def test_a_long_gap_between_power_samples_is_named():
    gpu = FakeGpu(can=("instant",))
    meter, clock = opened(gpu)
    reading = run(meter, clock, 20.0, during=lambda t: setattr(gpu, "error", UNKNOWN if 5 < t < 9 else None))
    assert "sampling-gap" in codes(reading)
    assert any("4" in r.detail and "s between samples" in r.detail for r in reading.reasons)


def test_permission_is_named():
    gpu = FakeGpu()
    meter, clock = opened(gpu)
    reading = run(meter, clock, 20.0, during=lambda t: setattr(gpu, "error", NO_PERMISSION))
    assert str(reading.energy_reason) == "no-permission: GPU-0: Insufficient Permissions"


def test_mig_instances_of_one_gpu_are_one_counter():
    """Case nvidia_smi-16: exporters repeat the counter of GPU 0 for instances 3, 4, 5 and 6."""
    gpu = FakeGpu(power=lambda t: 433.78, instances=4)
    every = ",".join(f"MIG-GPU-0-{i}" for i in range(4))
    meter, clock = opened(gpu, environ={"CUDA_VISIBLE_DEVICES": every})
    reading = run(meter, clock, 20.0)
    assert list(reading.parts) == ["GPU-0"]
    assert reading.energy == pytest.approx(433.78 * 20, rel=0.01)


def test_energy_of_one_mig_instance_is_refused():
    """Case nvidia_smi-04: power is that of the physical GPU, 433.78 W, with 4 MIG devices on it."""
    meter, clock = opened(FakeGpu(instances=4), environ={"CUDA_VISIBLE_DEVICES": "MIG-GPU-0-2"})
    reading = run(meter, clock, 20.0)
    assert reading.energy is None
    assert str(reading.energy_reason) == (
        "mig-instance: GPU-0: 1 of 4 instances take part; energy is metered for the whole GPU"
    )


def test_visible_devices_choose_the_gpus():
    gpus = FakeGpu(), FakeGpu(uuid="GPU-1"), FakeGpu(uuid="GPU-2")
    meter, _ = opened(*gpus, environ={"CUDA_VISIBLE_DEVICES": "2, GPU-0"})
    assert meter.device().ids == ("GPU-2", "GPU-0")


def test_visible_device_that_does_not_exist():
    message = "names '7', NVML has no such device .Not Found.; list the devices with nvidia-smi -L"
    with pytest.raises(MeterAbsent, match=message):
        opened(FakeGpu(), environ={"CUDA_VISIBLE_DEVICES": "7"})


def test_no_visible_device():
    clock = Clock()
    info = nvml.probe(
        FakeNvml([FakeGpu()], clock), {"CUDA_VISIBLE_DEVICES": ""}, clock=clock, sleep=clock.sleep
    )
    assert (info.available, info.reason.detail) == (False, "no NVIDIA GPU is visible")
    assert info.remedy == "check CUDA_VISIBLE_DEVICES"


def test_jetson_starts_and_answers_nothing():
    """Case nvidia_smi-11: Orin, NVML initialises and every query is NotSupported."""
    clock = Clock()
    info = nvml.probe(
        FakeNvml([FakeGpu(name="Orin (nvgpu)", can=())], clock), {}, clock=clock, sleep=clock.sleep
    )
    assert not info.available
    assert (
        str(info.reason) == "missing-values: NVML starts, but this device supports neither energy nor power"
    )
    assert info.remedy == "on Jetson use the jetson meter; else meter at the wall"


def test_the_other_gpus_are_metered_when_one_has_no_meter():
    """msminhas93/nviwatch#28: an RTX 4060 without a power reading beside an RTX PRO 6000."""
    meter, clock = opened(FakeGpu(name="RTX 4060", can=()), FakeGpu(name="RTX PRO 6000", uuid="GPU-1"))
    reading = run(meter, clock, 20.0)
    assert reading.energy is None
    assert str(reading.energy_reason) == (
        "missing-values: GPU-0: neither an energy counter nor a power reading"
    )
    assert reading.parts["GPU-1"] == pytest.approx(6000.0, rel=0.01)


def test_idle_counter_whose_period_cannot_be_seen():
    gpu = FakeGpu()
    gpu.stuck = True
    meter, _ = opened(gpu)
    assert meter.info.update_period == nvml.USUAL_UPDATE_PERIOD
    assert "update period not observed, taken as 0.1 s" in meter.info.notes


def test_spark_without_memory_still_meters():
    """Case nvidia_smi-10: GB10 reports 11.17 W and no memory."""
    meter, clock = opened(FakeGpu(power=lambda t: 11.17, name="NVIDIA GB10"))

    def no_memory(_):
        raise FakeNvml.NVMLError(NOT_SUPPORTED)

    meter._library.nvmlDeviceGetMemoryInfo = no_memory
    assert meter.device().memory is None
    assert run(meter, clock, 20.0).power == pytest.approx(11.17, rel=0.01)


def test_superchip_meters_its_module():
    """ml-energy/zeus#172: GH200 meters CPU, GPU and memory together."""
    meter, clock = opened(FakeGpu(module=True))
    assert (meter.info.boundary, meter.info.scope) == ("module", "superchip module")
    assert "superchip: energy is that of CPU, GPU and memory together" in meter.info.notes


def test_bindings_or_driver_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    info = nvml.probe()
    assert (str(info.reason), info.remedy) == (
        "no-meter: the Python bindings of NVML are not installed",
        "pip install nvidia-ml-py",
    )
    info = nvml.probe(FakeNvml([], Clock(), starts=False))
    assert str(info.reason) == "no-meter: NVML does not start (NVML Shared Library Not Found)"
    assert info.remedy.startswith("install the NVIDIA driver")


def test_mixed_gpus_may_be_numbered_differently():
    gpus = FakeGpu(name="RTX 4060"), FakeGpu(name="RTX PRO 6000", uuid="GPU-1")
    by_speed, _ = opened(*gpus)
    by_address, _ = opened(*gpus, environ={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert any("CUDA_DEVICE_ORDER" in note for note in by_speed.info.notes)
    assert not any("CUDA_DEVICE_ORDER" in note for note in by_address.info.notes)


def test_state_is_that_of_the_worst_gpu():
    meter, _ = opened(FakeGpu(throttle=1 | 4), FakeGpu(uuid="GPU-1", throttle=64, clock_mhz=900))
    state = meter.state()
    assert state.throttle_reasons == ("HwThermalSlowdown", "SwPowerCap")
    assert (state.chip_clock, state.memory_clock, state.power_limit) == (900e6, 2619e6, 700.0)
    assert (state.performance_state, state.ecc, state.persistence, state.display_active) == (
        "P0",
        True,
        None,
        False,
    )
    assert meter.device().driver == "590.48.01"
    meter.close()
    assert meter._library.shut == 1


def test_windows_do_not_overlap():
    meter, clock = opened(FakeGpu())
    with pytest.raises(RuntimeError, match="meter nvml: expected a started window"):
        meter.stop()
    meter.start()
    with pytest.raises(RuntimeError, match="meter nvml: expected the last window to be stopped first"):
        meter.start()


def test_clock_that_runs_backwards():
    meter, clock = opened(FakeGpu())
    reading = run(meter, clock, 20.0, during=lambda t: setattr(clock, "now", 900.0) if t > 19.95 else None)
    assert reading.energy_reason.code == "clock-jump"


@settings(max_examples=15, deadline=None)
@given(st.floats(20, 400), st.floats(0, 300), st.floats(0.5, 5), st.floats(15, 40))
def test_counter_and_integral_find_the_true_energy(base, swing, period, seconds):
    """Both methods agree with the energy that the fake really used, within the stated resolution."""

    def power(t):
        return base + swing * (1 + np.sin(2 * np.pi * t / period)) / 2

    meter, clock = opened(FakeGpu(power=power, update=0.05))
    reading = run(meter, clock, seconds, step=0.05)
    times = np.linspace(reading.start, reading.stop, 20_000)
    true = np.trapezoid(power(times), times)
    peak = base + swing
    assert reading.energy == pytest.approx(true, abs=2 * 0.06 * peak)
    assert reading.cross_check == pytest.approx(true, rel=0.02, abs=2 * 0.06 * peak)


def test_importing_joulesim_measure_does_not_import_pynvml():
    code = "import sys, joulesim.measure, joulesim.measure.meters.nvml; print('pynvml' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_the_fake_has_no_call_that_nvml_lacks():
    real = pytest.importorskip("pynvml")
    ours = [name for name in dir(FakeNvml) if name.lower().startswith("nvml")]
    assert [name for name in ours if not hasattr(real, name)] == []
    for name in ("NVML_FI_DEV_POWER_INSTANT", "NVML_FI_DEV_POWER_AVERAGE", "NVML_POWER_SCOPE_MODULE"):
        assert getattr(FakeNvml, name) == getattr(real, name)
    assert isinstance(real.NVMLError(LOST), real.NVMLError_GpuIsLost)
    assert type(FakeNvml.NVMLError(LOST)) is FakeNvml.NVMLError_GpuIsLost


def test_bindings_older_than_the_power_fields():
    class OldNvml(FakeNvml):
        NVML_FI_DEV_POWER_INSTANT = NVML_FI_DEV_POWER_AVERAGE = None

    clock = Clock()
    meter = nvml.open_meter(OldNvml([FakeGpu()], clock), {}, threaded=False, clock=clock, sleep=clock.sleep)
    assert meter.info.fields[-1] == "nvmlDeviceGetPowerUsage"


def test_gpu_that_is_lost_while_it_is_watched():
    class Fragile(FakeNvml):
        asked = 0

        def nvmlDeviceGetTotalEnergyConsumption(self, handle):
            self.asked += 1
            if self.asked > 5:
                raise self.NVMLError(LOST)
            return 7

    clock = Clock()
    info = nvml.probe(Fragile([FakeGpu()], clock), {}, clock=clock, sleep=clock.sleep)
    assert "update period not observed, taken as 0.1 s" in info.notes
