"""powermetrics: its text, and a process that prints it."""

import platform
import shutil
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from joulesim.measure.meters import apple
from joulesim.measure.meters.base import MeterAbsent
from joulesim.measure.meters.powermetrics import parse
from joulesim.measure.reading import MeterInfo

HEADER = "*** Sampled system activity (Wed Nov  9 12:00:00 2022 -0800) (1010.09ms elapsed) ***"
PUBLISHED = f"""Machine model: MacBookPro18,3
{HEADER}

**** Processor usage ****

E-Cluster Power: 48 mW
P-Cluster Power: 1192 mW
CPU Power: 1240 mW
GPU Power: 380 mW
ANE Power: 42 mW
Combined Power (CPU + GPU + ANE): 1662 mW

**** GPU usage ****

GPU Power: 380 mW
"""


def one(text):
    (sample,) = parse(text.splitlines())
    return sample


def test_rails_and_their_sum():
    """Case powermetrics-01: 1240 + 380 + 42 = 1662 mW over 1010.09 ms."""
    sample = one(PUBLISHED)
    assert sample.rails == {"CPU": 1.240, "GPU": 0.380, "ANE": 0.042}
    assert (sample.power, sample.combined, sample.elapsed) == pytest.approx((1.662, 1.662, 1.01009))
    assert sample.fault is None


def test_watts_by_version():
    sample = one(PUBLISHED.replace("1240 mW", "1.24 W").replace("1662 mW", "1.662 W"))
    assert (sample.rails["CPU"], sample.power, sample.fault) == (1.24, 1.662, None)


def test_missing_ane_is_unknown_and_not_zero():
    """Case powermetrics-02: M2 Pro has no ANE channel."""
    text = PUBLISHED.replace("ANE Power: 42 mW\n", "").replace("(CPU + GPU + ANE): 1662", "(CPU + GPU): 1620")
    sample = one(text)
    assert "ANE" not in sample.rails
    assert (sample.power, sample.fault) == (1.620, None)


def test_cpu_rail_of_zero_is_a_missing_rail():
    """Case powermetrics-02: on A18 the CPU rail stays at 0 under full load."""
    text = PUBLISHED.replace("CPU Power: 1240 mW", "CPU Power: 0 mW")
    assert one(text).power is None
    assert str(one(text).fault) == "missing-values: powermetrics reports no CPU power"


def test_missing_gpu_rail():
    sample = one(PUBLISHED.replace("GPU Power: 380 mW\n", ""))
    assert str(sample.fault) == "missing-values: powermetrics reports no GPU power"


def test_sum_that_does_not_match():
    sample = one(PUBLISHED.replace("1662 mW", "2662 mW"))
    assert str(sample.fault) == "rails-disagree: CPU + GPU + ANE is 1.662 W, combined power is 2.662 W"


def test_old_versions_print_no_sum():
    sample = one("\n".join(line for line in PUBLISHED.splitlines() if "Combined" not in line))
    assert (sample.combined, sample.power, sample.fault) == (None, pytest.approx(1.662), None)


def test_several_samples_and_noise():
    assert len(parse([*"Machine model\n".splitlines(), *(PUBLISHED * 3).splitlines()])) == 3
    assert parse(["GPU Power: 380 mW"]) == []


INFO = MeterInfo(name="apple", boundary="chip", method="interval averages", update_period=1e-3)
FAKE = """
import sys, time
last, limit = time.monotonic(), int(sys.argv[1])
for n in range(limit):
    time.sleep(0.02)
    now = time.monotonic()
    print(f"*** Sampled system activity (now) ({(now - last) * 1e3:.2f}ms elapsed) ***", flush=True)
    last = now
    print(sys.argv[2].replace("|", chr(10)), flush=True)
time.sleep(float(sys.argv[3]))
"""
RAILS = "CPU Power: 4000 mW|GPU Power: 30.0 W|ANE Power: 0 mW|Combined Power (CPU + GPU + ANE): 34000 mW"


def fake(limit=10_000, rails=RAILS, linger=0):
    return apple.AppleMeter(INFO, [sys.executable, "-c", FAKE, str(limit), rails, str(linger)])


def test_a_running_powermetrics_is_integrated():
    with fake() as meter:
        time.sleep(0.2)
        for _ in range(2):
            meter.start()
            time.sleep(0.3)
            reading = meter.stop()
            assert reading.energy == pytest.approx(34.0 * reading.time, rel=1e-6)
            assert reading.parts == {
                "CPU": pytest.approx(4.0 * reading.time),
                "GPU": pytest.approx(30.0 * reading.time),
                "ANE": 0.0,
            }
            assert reading.samples >= 5


def test_short_window():
    with fake() as meter:
        meter.start()
        assert meter.stop().energy_reason.code == "window-too-short"


def test_powermetrics_that_ends():
    with fake(limit=2) as meter:
        meter.start()
        time.sleep(0.4)
        assert str(meter.stop().energy_reason) == "driver-error: powermetrics ended with status 0"


def test_powermetrics_that_falls_silent(monkeypatch):
    monkeypatch.setattr(apple, "PERIOD", 0.005)
    with fake(limit=3, linger=30) as meter:
        time.sleep(0.2)
        meter.start()
        time.sleep(0.2)
        reason = meter.stop().energy_reason
        assert str(reason) == "window-not-bracketed: powermetrics gave 0 samples and did not cover the window"


def test_missing_rail_leaves_the_energy_unknown():
    with fake(rails="CPU Power: 0 mW|GPU Power: 30 W") as meter:
        time.sleep(0.1)
        meter.start()
        time.sleep(0.2)
        reading = meter.stop()
        assert (reading.energy, reading.energy_reason.code) == (None, "missing-values")


def test_sum_that_does_not_match_is_suspect():
    with fake(rails=RAILS.replace("34000", "35000")) as meter:
        time.sleep(0.1)
        meter.start()
        time.sleep(0.2)
        assert [reason.code for reason in meter.stop().reasons] == ["rails-disagree"]


def mac(monkeypatch, machine="arm64", path="/usr/bin/powermetrics", sudo=0, root=False):
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "processor", lambda: "arm")
    monkeypatch.setattr(shutil, "which", lambda name: path)
    monkeypatch.setattr(apple, "_is_root", lambda: root)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=sudo))


def test_found_on_apple_silicon(monkeypatch):
    mac(monkeypatch)
    info = apple.probe()
    assert (info.available, info.boundary) == (True, "chip")
    assert info.scope == "CPU, GPU and neural engine; no DRAM, display or SSD"
    mac(monkeypatch, root=True, sudo=1)
    assert apple.probe().available


def test_root_is_needed(monkeypatch):
    mac(monkeypatch, sudo=1)
    info = apple.probe()
    assert str(info.reason) == "no-permission: powermetrics needs root"
    assert "NOPASSWD: /usr/bin/powermetrics" in info.remedy
    with pytest.raises(MeterAbsent, match="meter apple: no-permission: powermetrics needs root"):
        apple.open_meter()


def test_never_started_on_an_intel_mac(monkeypatch):
    """mlco2/codecarbon#1313: such calls hang there."""
    mac(monkeypatch, machine="x86_64")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("was started"))
    assert apple.probe().reason.detail == "this is no Mac with Apple silicon"


def test_not_on_the_path(monkeypatch):
    mac(monkeypatch, path=None)
    info = apple.probe()
    assert (info.reason.detail, info.remedy) == (
        "powermetrics is not on the path",
        "add /usr/bin to the path",
    )
