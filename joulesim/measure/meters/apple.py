"""
Apple silicon through ``powermetrics``: CPU, GPU and neural engine, no DRAM, display or SSD.

powermetrics needs root. It is never started on an Intel Mac, where such calls hang (mlco2/codecarbon#1313).
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from joulesim.measure.integrate import interval_energy
from joulesim.measure.meters.base import Meter, MeterAbsent, too_short
from joulesim.measure.meters.powermetrics import Parser, Sample
from joulesim.measure.reading import MeterInfo, Reading
from joulesim.measure.record import Device
from joulesim.measure.validity import Reason

PERIOD = 0.2
"""Interval that powermetrics is asked for. [s]"""
_COMMAND = ("powermetrics", "--samplers", "cpu_power,gpu_power", "-b", "1", "-i", str(round(PERIOD * 1e3)))
_RULE = "echo '%admin ALL=(root) NOPASSWD: /usr/bin/powermetrics' | sudo tee /etc/sudoers.d/powermetrics"


def probe() -> MeterInfo:
    """Whether powermetrics can be run here."""
    if platform.system() != "Darwin" or platform.machine() != "arm64":
        return _absent("no-meter", "this is no Mac with Apple silicon")
    if shutil.which("powermetrics") is None:
        return _absent("no-meter", "powermetrics is not on the path", "add /usr/bin to the path")
    if not _is_root():
        allowed = subprocess.run(["sudo", "-n", "-l", "powermetrics"], capture_output=True)
        if allowed.returncode:
            return _absent("no-permission", "powermetrics needs root", _RULE)
    return MeterInfo(
        name="apple",
        boundary="chip",
        scope="CPU, GPU and neural engine; no DRAM, display or SSD",
        method="interval averages",
        fields=("Combined Power (CPU + GPU + ANE)",),
        devices=(platform.processor() or "Apple silicon",),
        power_resolution=1e-3,
        update_period=PERIOD,
        notes=("powers are Apple's own model of the chip, not a shunt",),
    )


def open_meter(clock: Callable[[], float] = time.monotonic) -> AppleMeter:
    """Meter of this Mac's chip."""
    info = probe()
    if not info.available:
        raise MeterAbsent(info)
    return AppleMeter(info, _COMMAND if _is_root() else ("sudo", "-n", *_COMMAND), clock)


class AppleMeter(Meter):
    """A running powermetrics; a sample ends when its header line arrives."""

    def __init__(self, info: MeterInfo, command: Sequence[str], clock=time.monotonic):
        self.info, self._clock = info, clock
        self._samples: list[tuple[float, Sample]] = []
        self._arrived = threading.Condition()
        self._start = 0.0
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._reader = threading.Thread(target=self._read, name="meter-apple", daemon=True)
        self._reader.start()

    def start(self) -> None:
        self._start = self._clock()

    def stop(self) -> Reading:
        start, stop = self._start, self._clock()
        refused = too_short(self.info, stop - start)
        if refused:
            return self._none(start, stop, refused)
        with self._arrived:
            self._arrived.wait_for(lambda: self._covers(stop), timeout=10 * PERIOD)
            samples = list(self._samples)
            self._samples = [(at, sample) for at, sample in samples if at > stop]
        return self._reading(samples, start, stop)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def device(self) -> Device:
        return Device(names=self.info.devices, count=1)

    def _read(self) -> None:
        parser, ended = Parser(), 0.0
        for line in self._process.stdout:
            now = self._clock()
            done, is_header = parser.feed(line)
            if done:
                self._keep(ended, done)
            ended = now if is_header else ended
        if last := parser.finish():
            self._keep(ended, last)
        with self._arrived:
            self._arrived.notify_all()

    def _keep(self, ended: float, sample: Sample) -> None:
        with self._arrived:
            self._samples.append((ended, sample))
            self._arrived.notify_all()

    def _covers(self, stop: float) -> bool:
        return not self._reader.is_alive() or bool(self._samples and self._samples[-1][0] >= stop)

    def _reading(self, samples: list[tuple[float, Sample]], start: float, stop: float) -> Reading:
        ends = _ends(samples)
        touching = [
            (end, sample) for end, (_, sample) in zip(ends, samples, strict=True)
            if end > start and end - sample.elapsed < stop
        ]
        faults = {fault.code: fault for _, sample in touching if (fault := sample.fault)}
        if "missing-values" in faults:
            return self._none(start, stop, faults["missing-values"])
        when = [end for end, _ in touching], [sample.elapsed for _, sample in touching]
        integral = interval_energy(*when, [sample.power for _, sample in touching], start, stop)
        if integral.energy is None:
            if (status := self._process.poll()) is not None:
                ended = Reason(code="driver-error", detail=f"powermetrics ended with status {status}")
                return self._none(start, stop, ended)
            detail = f"powermetrics gave {len(touching)} samples and did not cover the window"
            return self._none(start, stop, Reason(code="window-not-bracketed", detail=detail))
        if integral.longest_gap > 10 * PERIOD:
            detail = f"{integral.longest_gap:.3g} s without a sample"
            faults["sampling-gap"] = Reason(code="sampling-gap", detail=detail)
        rails = [rail for rail in ("CPU", "GPU", "ANE") if all(rail in s.rails for _, s in touching)]
        parts = {
            rail: interval_energy(*when, [s.rails[rail] for _, s in touching], start, stop) for rail in rails
        }
        return Reading(
            meter=self.info,
            start=start,
            stop=stop,
            energy=integral.energy,
            parts={rail: part.energy for rail, part in parts.items()},
            resolution=integral.energy / (stop - start) * PERIOD,
            samples=integral.samples,
            reasons=tuple(faults.values()),
        )

    def _none(self, start: float, stop: float, reason: Reason) -> Reading:
        return Reading(meter=self.info, start=start, stop=stop, energy_reason=reason)


def _ends(samples: list[tuple[float, Sample]]) -> np.ndarray:
    """Ends of intervals that follow each other without a gap, on the clock of the promptest arrival. [s]"""
    if not samples:
        return np.array([])
    arrivals = np.array([at for at, _ in samples])
    passed = np.cumsum([sample.elapsed for _, sample in samples])
    return passed + (arrivals - passed).min()


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _absent(code: str, detail: str, remedy: str = "") -> MeterInfo:
    return MeterInfo(name="apple", available=False, reason=Reason(code=code, detail=detail), remedy=remedy)
