"""The polling thread: what it costs, and what it does when a driver hangs."""

import threading
import time

import pytest

from joulesim.measure.meters import sampled
from joulesim.measure.meters.base import NoMeter, observed_update_period, too_short
from joulesim.measure.meters.sampled import Channel, SampledMeter
from joulesim.measure.reading import MeterInfo
from joulesim.measure.validity import Reason

from .clock import Clock

INFO = MeterInfo(name="fake", boundary="board", method="sampled power", update_period=1e-3)


def test_a_thread_polls_between_start_and_stop():
    meter = SampledMeter(INFO, [Channel("gpu", power=lambda: 42.0)], period=0.01)
    meter.start()
    time.sleep(0.2)
    reading = meter.stop()
    assert reading.energy == pytest.approx(42.0 * reading.time)
    assert reading.samples >= 8
    assert reading.overhead < 0.2
    assert not [t for t in threading.enumerate() if t.name == "meter-fake"]


def test_polling_at_the_default_rate_costs_less_than_a_hundredth_of_a_core():
    count = iter(range(10**9))
    channels = [Channel(f"gpu{i}", count=lambda: next(count), power=lambda: 300.0) for i in range(8)]
    meter = SampledMeter(INFO, channels)
    meter.start()
    time.sleep(0.5)
    assert meter.stop().overhead < 0.01


def test_driver_that_hangs(monkeypatch):
    monkeypatch.setattr(sampled, "ANSWER_TIME", 0.05)
    release, calls = threading.Event(), iter(range(100))
    meter = SampledMeter(
        INFO, [Channel("gpu", power=lambda: next(calls) and release.wait(5) and 0.0)], period=0.01
    )
    meter.start()
    time.sleep(0.15)
    reading = meter.stop()
    release.set()
    assert str(reading.energy_reason) == "driver-error: gpu: the driver did not answer within 0.05 s"


def test_surprise_of_a_driver_is_a_verdict():
    def read():
        raise ZeroDivisionError("vendor bug")

    meter = SampledMeter(INFO, [Channel("gpu", power=read)], period=0.01)
    meter.start()
    time.sleep(0.15)
    assert str(meter.stop().energy_reason) == "driver-error: gpu: ZeroDivisionError('vendor bug')"


def test_no_meter_keeps_time_and_says_why():
    clock = Clock()
    reason = Reason(code="no-permission", detail="root only")
    meter = NoMeter(MeterInfo(name="rapl", available=False, reason=reason), clock)
    with meter:
        meter.start()
        clock.sleep(3.0)
        reading = meter.stop()
    assert (reading.time, reading.energy, reading.energy_reason) == (3.0, None, reason)
    assert NoMeter().stop().energy_reason.code == "no-meter"


def test_update_period_is_observed():
    clock = Clock()
    assert observed_update_period(lambda: int(clock() / 0.1), clock, clock.sleep) == pytest.approx(
        0.1, rel=0.02
    )
    assert observed_update_period(lambda: 5, clock, clock.sleep) is None


def test_exactly_100_periods_are_enough():
    assert too_short(INFO, 0.1) is None
    assert too_short(INFO, 0.0999).code == "window-too-short"
    assert too_short(MeterInfo(name="x"), 0.0) is None
    assert "repeat" not in too_short(INFO, 0.0).detail
