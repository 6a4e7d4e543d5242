"""Exports of wall meters, and tegrastats logs."""

import pytest

from joulesim.errors import InputError
from joulesim.measure.importers.wall_log import read_tegrastats, read_wall_csv


@pytest.fixture
def export(tmp_path):
    def write(text):
        path = tmp_path / "plug.csv"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("header", "cells", "unit"),
    [
        ("Power [W]", ("80", "90"), ""),
        ("Power (kW)", ("0.08", "0.09"), ""),
        ("Power", ("80 W", "0.09 kW"), ""),
        ("Power", ("80000", "90000"), "mW"),
    ],
)
def test_units(export, header, cells, unit):
    path = export(f"Time,{header}\n1736944496,{cells[0]}\n1736944497,{cells[1]}\n")
    log = read_wall_csv(path, "Time", header, unit)
    assert log.powers[header] == pytest.approx([80.0, 90.0])
    assert log.info.boundary == "wall"


def test_clock_offset_is_taken_off(export):
    path = export("t,w [W]\n" + "".join(f"{1000 + t},100\n" for t in range(201)))
    log = read_wall_csv(path, "t", "w [W]", clock_offset=60.0)
    assert log.start == 940.0
    assert log.reading(940.0, 1140.0).energy == pytest.approx(20_000.0)


def test_missing_and_bad_cells(export):
    path = export("t,Power\n1,80 W\n2,\n3,90\n4,loud\n5,80 J\n6,82 W\n")
    log = read_wall_csv(path, "t", "Power")
    assert log.powers["Power"] == [80.0, 82.0]
    said = [str(fault).split("plug.csv:")[1] for fault in log.faults]
    assert said[0] == "4: Power: expected watt, got the bare number '90'; give unit='W'"
    assert said[1].startswith("5: Power: expected watt, got 'loud'")
    assert said[2].startswith("6: Power: expected watt, got '80 J' (energy)")
    assert "Power: 1 samples are empty" in {reason.detail for reason in log.reasons}


def test_missing_column(export):
    path = export("Time,Power\n1,80 W\n")
    with pytest.raises(InputError, match="expected a column 'power', there is none. Did you mean Power?"):
        read_wall_csv(path, "Time", "power")
    with pytest.raises(InputError, match="expected a column 'zzz', there is none; there is Time, Power"):
        read_wall_csv(path, "zzz", "Power")


def test_tegrastats(tmp_path):
    path = tmp_path / "tegra.log"
    path.write_text(
        "01-15-2025 12:34:56 RAM 1/2MB VDD_IN 5000mW/5000mW VDD_SOC 1000mW/1000mW\n"
        "RAM 1/2MB VDD_IN 5000mW/5000mW\n01-15-2025 12:34:57 RAM 1/2MB\n"
        "01-15-2025 12:34:58 RAM 1/2MB VDD_IN 7000mW/6000mW VDD_SOC 1000mW/1000mW\n"
    )
    log = read_tegrastats(path, "UTC")
    assert log.powers == {"VDD_IN": [5.0, 7.0]}
    assert [str(fault).split("tegra.log:")[1] for fault in log.faults] == [
        "2: expected a time stamp, got 'RAM 1/2MB VDD_IN 5000mW/5000mW'",
        "3: expected a rail VDD_IN or POM_5V_IN, got '01-15-2025 12:34:57 RAM 1/2MB'",
    ]
