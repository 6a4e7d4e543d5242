"""AMD GPUs through a fake AMD SMI."""

import sys

import pytest

from joulesim.measure.meters import amd
from joulesim.measure.meters.base import MeterAbsent

from .clock import Clock, run
from .reference import published

RESOLUTION = 15.300000190734863
"""Case amd_intel-01. [uJ]"""


class FakeAmdSmi:
    """Stands in for the module ``amdsmi``; each GPU is a dictionary of what it answers."""

    class AmdSmiException(Exception):
        pass

    def __init__(self, clock, *gpus, starts=True):
        self.clock, self.gpus, self.starts, self.shut = clock, gpus, starts, 0

    def amdsmi_init(self):
        if not self.starts:
            raise self.AmdSmiException("AMDSMI_STATUS_NO_PERM")

    def amdsmi_shut_down(self):
        self.shut += 1

    def amdsmi_get_processor_handles(self):
        return list(self.gpus)

    def amdsmi_get_gpu_device_uuid(self, gpu):
        return gpu["id"]

    def amdsmi_get_gpu_asic_info(self, gpu):
        return {"market_name": gpu.get("name", "AMD Instinct MI300X")}

    def amdsmi_get_energy_count(self, gpu):
        if gpu.get("error"):
            raise self.AmdSmiException(gpu["error"])
        if "count" in gpu:
            count = gpu["count"]
        else:
            count = 1_000_000 + int(gpu["watts"] * gpu.get("scale", 1.0) * self.clock() * 1e6 / RESOLUTION)
        return {gpu.get("key", "energy_accumulator"): count, "counter_resolution": RESOLUTION, "timestamp": 1}

    def amdsmi_get_power_info(self, gpu):
        shown = gpu.get("shown", gpu["watts"])
        return {
            "current_socket_power": "N/A",
            "average_socket_power": "N/A",
            gpu.get("field", "socket_power"): shown,
        }


def opened(*gpus):
    clock = Clock()
    library = FakeAmdSmi(clock, *gpus)
    return amd.open_meter(library, threaded=False, clock=clock, sleep=clock.sleep), clock


def test_accumulator_times_resolution():
    """Cases amd_intel-01 and -02: 8152136 counts are 124.73 J, 65628 counts 1.004 J."""
    energies = [count * RESOLUTION / 1e6 for count in (8152136, 65628)]
    assert energies[0] == pytest.approx(published("amd_intel-01", "energy"), abs=0.005)
    assert energies[1] == pytest.approx(published("amd_intel-02", "energy"), rel=1e-6)
    meter, clock = opened({"id": "a", "watts": 500.0})
    reading = run(meter, clock, 10.0)
    assert reading.energy == pytest.approx(5000.0, rel=1e-6)
    assert reading.reasons == ()
    assert meter.info.energy_resolution == pytest.approx(15.3e-6)
    assert meter.info.method == "counter"


def test_a_window_holds_the_counts_of_the_published_case():
    gpu = {"id": "a", "watts": 1.0, "shown": "N/A", "key": "power"}
    meter, clock = opened(gpu)
    gpu["count"] = 0
    reading = run(meter, clock, 10.0, during=lambda t: gpu.update(count=round(8152136 * t / 10.0)))
    assert reading.energy == pytest.approx(published("amd_intel-01", "energy"), abs=0.005)


def test_stuck_accumulator_falls_back_to_power():
    """Case amd_intel-04: an MI210 reads 5198685762204 through the whole run."""
    meter, clock = opened(
        {"id": "a", "watts": 250.0, "count": 5198685762204, "field": "average_socket_power"}
    )
    reading = run(meter, clock, 20.0)
    assert reading.energy == pytest.approx(5000.0)
    assert {r.code for r in reading.reasons} == {"power-integrated", "power-averaged"}
    assert meter.info.method == "sampled power"
    assert "does not move, power is integrated" in meter.info.notes[0]


def test_accumulator_that_sticks_later_falls_back_to_power():
    gpu = {"id": "a", "watts": 250.0}
    meter, clock = opened(gpu)
    gpu["count"] = 5198685762204
    reading = run(meter, clock, 20.0)
    assert reading.energy == pytest.approx(5000.0)
    assert "stuck-counter" in str(reading.reasons[0])


def test_accumulator_that_runs_backwards_falls_back_to_power():
    gpu = {"id": "a", "watts": 250.0}
    meter, clock = opened(gpu)
    reading = run(meter, clock, 20.0, during=lambda t: gpu.update(count=10**9 - round(t * 1e6)))
    assert reading.energy == pytest.approx(5000.0)
    assert "counter-went-back" in str(reading.reasons[0])


def test_accumulator_in_another_unit_falls_back_to_power():
    meter, clock = opened({"id": "a", "watts": 250.0, "scale": 1000.0})
    reading = run(meter, clock, 20.0)
    assert reading.energy == pytest.approx(5000.0)
    assert "counter-implausible" in str(reading.reasons[0])


def test_second_die_of_a_board_is_counted_by_the_first():
    meter, clock = opened({"id": "a", "watts": 500.0}, {"id": "b", "watts": 0.0, "count": 0, "shown": "N/A"})
    reading = run(meter, clock, 10.0)
    assert reading.energy == pytest.approx(5000.0, rel=1e-6)
    assert list(reading.parts) == ["a"]
    assert meter.info.notes == (
        "AMD Instinct MI300X b: reads 0 and is left out: the counter of its sibling die holds both",
    )
    assert meter.device().count == 2


def test_power_that_goes_missing():
    gpu = {"id": "a", "watts": 250.0, "count": 7}
    meter, clock = opened(gpu)
    reading = run(meter, clock, 20.0, during=lambda t: gpu.update(shown="N/A" if t > 10 else 250.0))
    assert (reading.energy, reading.energy_reason.detail) == (None, "a: socket_power is N/A")


def test_driver_error_and_missing_count():
    gpu = {"id": "a", "watts": 250.0, "shown": "N/A"}
    meter, clock = opened(gpu)
    meter.start()
    clock.sleep(10.0)
    gpu["error"] = "AMDSMI_STATUS_BUSY"
    assert meter.stop().energy_reason.detail == "a: amdsmi_get_energy_count: AMDSMI_STATUS_BUSY"
    gpu["error"] = None
    meter.start()
    clock.sleep(10.0)
    gpu["count"] = "N/A"
    assert meter.stop().energy_reason.detail == "a: energy accumulator is N/A"
    meter.close()
    assert meter._library.shut == 1


@pytest.mark.parametrize("gpus", [(), ({"id": "a", "watts": 0.0, "shown": "N/A", "error": "no"},)])
def test_nothing_to_meter(gpus):
    clock = Clock()
    with pytest.raises(MeterAbsent, match="meter amd: no-meter: no AMD GPU with an energy or power reading"):
        amd.open_meter(FakeAmdSmi(clock, *gpus), clock=clock, sleep=clock.sleep)


def test_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    info = amd.probe()
    assert (info.reason.detail, info.remedy) == (
        "AMD SMI is not installed",
        "install ROCm, then pip install amdsmi",
    )
    info = amd.probe(FakeAmdSmi(Clock(), starts=False))
    assert info.reason.detail == "AMD SMI does not start (AMDSMI_STATUS_NO_PERM)"
    assert info.remedy == "add yourself to the groups render and video"
