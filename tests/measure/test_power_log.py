"""Recorded power: windows of a log, clocks that differ, and a log in place of a meter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim.errors import InputError
from joulesim.measure.meters.replay import Replay
from joulesim.measure.power_log import PowerLog

from .clock import Clock


def steady(watts=100.0, seconds=200, period=1.0, **more):
    times = np.arange(0.0, seconds + period, period).tolist()
    return PowerLog("log.csv", {"0": times}, {"0": [watts] * len(times)}, "board", **more)


def test_channels_add_up():
    """Case nvidia_smi-18: two GPUs, window 0 to 10 s, 2200 J + 3200 J = 5400 J at 540 W."""
    times = [-1, 1, 3.5, 6, 8.5, 11]
    powers = {"0": [100 + 20 * (t + 1) for t in times], "1": [200 + 20 * (t + 1) for t in times]}
    reading = PowerLog("log.csv", {"0": times, "1": times}, powers, "board").reading(0.0, 10.0)
    assert reading.parts == pytest.approx({"0": 2200.0, "1": 3200.0})
    assert (reading.energy, reading.power) == (pytest.approx(5400.0), pytest.approx(540.0))
    assert {reason.code for reason in reading.reasons} == {"few-samples"}
    assert str(reading.reasons[0]) == "few-samples: 0: 4 samples, 100 wanted"


def test_a_long_window_stands_without_remarks():
    reading = steady().reading(10.0, 190.0)
    assert (reading.energy, reading.reasons, reading.resolution) == (18_000.0, (), 100.0)
    assert reading.meter.notes == ("from log.csv",)


@pytest.mark.parametrize(
    ("start", "stop", "detail"),
    [
        (-5.0, 50.0, "0: the log begins 5 s after the window"),
        (50.0, 230.0, "0: the log ends 30 s before the window does"),
    ],
)
def test_window_outside_of_the_log(start, stop, detail):
    reading = steady().reading(start, stop)
    assert (reading.energy, str(reading.energy_reason)) == (None, f"window-not-bracketed: {detail}")


def test_channel_without_samples():
    reading = PowerLog("log.csv", {"0": []}, {"0": []}, "board").reading(0.0, 1.0)
    assert reading.energy_reason.detail == "0: no samples"


def test_too_few_samples_inside():
    reading = steady().reading(10.2, 12.8)
    assert str(reading.energy_reason) == "window-too-short: 0: 2 samples inside a window of 2.6 s"


def test_gaps_and_averages_are_named():
    log = steady(period=4.0, seconds=800, averaged=True, field="power.draw.average")
    reading = log.reading(100.0, 700.0)
    assert [str(reason) for reason in reading.reasons] == [
        "sampling-gap: 0: 4 s between samples",
        "power-averaged: power.draw.average",
    ]


@given(st.floats(-1e6, 1e6))
def test_a_clock_offset_moves_the_window_only(offset):
    log = PowerLog(
        "log.csv", {"0": [0, 1, 2, 3, 4]}, {"0": [1, 5, 2, 8, 3]}, "wall", marks={"run": (1.0, 3.0)}
    )
    moved = log.shifted(offset)
    assert moved.reading(0.5 + offset, 3.5 + offset).energy == pytest.approx(log.reading(0.5, 3.5).energy)
    assert moved.marks["run"] == (1.0 + offset, 3.0 + offset)


def test_some_channels_only():
    log = PowerLog("log.csv", {"0": [0, 9], "1": [0, 9]}, {"0": [1, 1], "1": [5, 5]}, "board")
    assert list(log.only(["1"]).times) == ["1"]
    with pytest.raises(InputError, match="log.csv: expected the channel '7', there is 0, 1"):
        log.only(["7"])


def test_replay_says_that_its_joules_are_of_another_run():
    clock = Clock()
    meter = Replay(steady(watts=50.0).shifted(1e9), clock)
    clock.sleep(20.0)
    meter.start()
    clock.sleep(150.0)
    reading = meter.stop()
    assert reading.energy == pytest.approx(7500.0)
    assert [reason.code for reason in reading.reasons] == ["replayed"]
    assert (reading.meter.name, reading.meter.live) == ("replay", False)


def test_replay_ends_with_its_trace():
    clock = Clock()
    meter = Replay(steady(), clock)
    meter.start()
    clock.sleep(300.0)
    assert meter.stop().energy_reason.code == "window-not-bracketed"
