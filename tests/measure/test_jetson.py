"""Jetson rails through a fake sysfs."""

import pytest

from joulesim.measure.meters import jetson
from joulesim.measure.meters.base import MeterAbsent

from .clock import Clock, run


def hwmon(root, **rails):
    """JetPack 5 layout: millivolts and milliamperes by rail."""
    folder = root / "ina3221" / "1-0040" / "hwmon" / "hwmon3"
    folder.mkdir(parents=True)
    for index, (name, (millivolts, milliamperes)) in enumerate(rails.items(), start=1):
        (folder / f"in{index}_label").write_text(name + "\n")
        (folder / f"in{index}_input").write_text(f"{millivolts}\n")
        (folder / f"curr{index}_input").write_text(f"{milliamperes}\n")
    (folder / "in7_label").write_text("sum of shunt voltages\n")  # has no current
    return folder


def opened(root):
    clock = Clock()
    return jetson.open_meter(root, threaded=False, clock=clock, sleep=clock.sleep), clock


def test_input_of_the_module_contains_the_other_rails(tmp_path):
    hwmon(tmp_path, VDD_IN=(5000, 2400), VDD_CPU_GPU_CV=(5000, 1000), VDD_SOC=(5000, 400))
    meter, clock = opened(tmp_path)
    reading = run(meter, clock, 20.0)
    assert reading.energy == pytest.approx(12.0 * 20.0)
    assert (meter.info.boundary, meter.info.fields) == ("board", ("VDD_IN",))


def test_chip_rails_are_added_where_there_is_no_input_rail(tmp_path):
    hwmon(tmp_path, VDD_GPU_SOC=(10_000, 1500), VDD_CPU_CV=(10_000, 500), VIN_SYS_5V0=(5000, 1000))
    meter, clock = opened(tmp_path)
    reading = run(meter, clock, 20.0)
    assert reading.power == pytest.approx(20.0)
    assert (meter.info.boundary, set(reading.parts)) == ("chip", {"VDD_GPU_SOC", "VDD_CPU_CV"})
    assert meter.device().count == 1


def test_jetpack_4(tmp_path):
    folder = tmp_path / "ina3221x" / "6-0040" / "iio:device0"
    folder.mkdir(parents=True)
    (folder / "rail_name_0").write_text("POM_5V_IN")
    (folder / "in_power0_input").write_text("4300")
    meter, clock = opened(tmp_path)
    assert run(meter, clock, 20.0).power == pytest.approx(4.3)


def test_unknown_rails_are_not_guessed(tmp_path):
    hwmon(tmp_path, VDD_A=(1, 1), VDD_B=(1, 1))
    message = "rails VDD_A, VDD_B are not known, and adding nested rails would count twice; meter at the wall"
    with pytest.raises(MeterAbsent, match=message):
        jetson.open_meter(tmp_path)


def test_no_monitor(tmp_path):
    assert jetson.probe(tmp_path).reason.detail == "there is no INA3221 power monitor"


def test_unreadable_rail(tmp_path):
    folder = hwmon(tmp_path, VDD_IN=(5000, 2400))
    (folder / "in1_input").write_text("")
    info = jetson.probe(tmp_path)
    assert "in1_input: could not convert string to float" in info.reason.detail
    assert info.remedy == "sudo chmod a+r on that file"


@pytest.mark.parametrize(
    ("line", "rails"),
    [
        (
            "RAM 2/30MB VDD_GPU_SOC 3170mW/3100mW VDD_CPU_CV 950mW/950mW VIN_SYS_5V0 4527mW/4527mW",
            {"VDD_GPU_SOC": 3.17, "VDD_CPU_CV": 0.95, "VIN_SYS_5V0": 4.527},
        ),
        ("GPU@30C POM_5V_IN 2132/2132 POM_5V_GPU 41/41", {"POM_5V_IN": 2.132, "POM_5V_GPU": 0.041}),
        ("RAM 1/2MB", {}),
        ("RAM 100/200 CPU [1%@2]", {}),
    ],
)
def test_tegrastats(line, rails):
    assert jetson.parse_tegrastats(line) == pytest.approx(rails)
