"""The registry of meters."""

import pytest

from joulesim.errors import NotFoundError
from joulesim.measure import meters
from joulesim.measure.meters import NoMeter, nvml, open_meter, probe, rapl, shelly
from joulesim.measure.reading import MeterInfo
from joulesim.measure.validity import Reason


def absent(name, code="no-meter", detail="not here", remedy=""):
    return MeterInfo(name=name, available=False, reason=Reason(code=code, detail=detail), remedy=remedy)


@pytest.fixture
def nowhere(monkeypatch):
    for name in meters.METERS:
        monkeypatch.setattr(meters._module(name), "probe", lambda name=name: absent(name))


def test_every_meter_has_a_verdict_here():
    infos = probe()
    assert [info.name for info in infos] == list(meters.METERS)
    assert all(info.available or info.reason for info in infos)


def test_no_meter_says_why_for_each(nowhere):
    meter = open_meter()
    assert isinstance(meter, NoMeter)
    assert str(meter.stop().energy_reason) == "no-meter: nvml: not here"
    assert meter.info.notes[-1] == "rapl: no-meter: not here"


def test_a_locked_meter_is_the_reason_that_helps(nowhere, monkeypatch):
    monkeypatch.setattr(
        rapl, "probe", lambda: absent("rapl", "no-permission", "root only", "sudo chmod a+r FILE")
    )
    meter = open_meter()
    assert str(meter.info.reason) == "no-permission: rapl: root only"
    assert meter.info.remedy == "sudo chmod a+r FILE"


def test_the_first_that_works_is_taken(nowhere, monkeypatch):
    monkeypatch.setattr(rapl, "probe", lambda: MeterInfo(name="rapl"))
    monkeypatch.setattr(rapl, "open_meter", lambda: "the RAPL meter")
    assert open_meter() == "the RAPL meter"


def test_by_name(monkeypatch):
    monkeypatch.setattr(nvml, "open_meter", lambda: "the NVML meter")
    monkeypatch.setattr(shelly, "open_meter", lambda address: f"the plug at {address}")
    assert open_meter("nvml") == "the NVML meter"
    assert open_meter("shelly:10.0.0.7") == "the plug at 10.0.0.7"
    assert isinstance(open_meter("none"), NoMeter)


def test_no_such_meter():
    with pytest.raises(NotFoundError, match="meter nvmll: no such meter. Did you mean nvml?"):
        open_meter("nvmll")
    with pytest.raises(NotFoundError, match="meter x: no such meter; there is nvml, amd, apple"):
        open_meter("x")
