"""
Running a declared campaign: one record a point, each on disk before the next begins.

Killed at any moment it loses at most the point in flight; the same command goes on where it stopped, in the same order.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from joulesim.errors import Fault, InputError
from joulesim.measure import conditions, host, runtimes, synth
from joulesim.measure.meters.base import Meter, NoMeter
from joulesim.measure.outcome import Latency, Spread, Throughput, Tokens
from joulesim.measure.plan import Campaign, Point, Resident, in_order, split_hash
from joulesim.measure.record import Device, Idle, Record, State, content_hash, fields_of
from joulesim.measure.records import RecordFile
from joulesim.measure.repeats import WANTED, median_interval, variation
from joulesim.measure.runtimes.base import Runtime, Settings
from joulesim.measure.validity import Reason, Validity
from joulesim.measure.worker import Here, Worker, WorkerError

DRIFT = 0.05
"""Change of the drift point that is reported. [1]"""
DRIFT_EVERY = 6
"""Models between two measurements of the drift point."""
BUSY = 0.5
"""Cores kept busy by others that cast doubt on a wall time."""
PREEMPTED = 1.5
"""Wall over CPU time of a single thread above which it was pushed aside for a third of the time."""
JUMP = 1.0
"""Disagreement of wall clock and monotonic clock over a window that is a jump. [s]"""
_PATIENCE = 120.0
"""A point may take this much longer than declared before its process counts as hung. [s]"""


class Progress(NamedTuple):
    """Where a campaign stands."""

    done: int
    total: int
    elapsed: float
    """[s]"""
    left: float
    """Estimate. [s]"""
    name: str


@dataclass
class Summary:
    """What became of a campaign."""

    path: Path
    hash: str
    clock: Literal["wall", "cpu"]
    total: int
    measured: int = 0
    """Records written now."""
    before: int = 0
    """Records that were there."""
    failed: int = 0
    impossible: int = 0
    """Points of phases or formats that the engine does not have; left out of the total."""
    unmeasured: list[str] = field(default_factory=list)
    """Points that the budget did not reach."""
    drift: float | None = None
    """Largest change of the drift point."""
    sampling: float | None = None
    """Largest CPU share that sampling the meter took; ``None`` where nothing was sampled. [cores]"""
    torn: str = ""
    """What became of a half-written record that was found."""

    @property
    def complete(self) -> bool:
        """Whether every point was measured as often as declared."""
        return not self.unmeasured


@dataclass(frozen=True)
class Clocks:
    """Clocks of a campaign, to be turned by tests."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


def suitable_clock(facts: Mapping[str, Any], settings: Settings) -> Literal["wall", "cpu"]:
    """CPU time for one thread on a CPU, where neighbours make wall time noise; else, or where nobody sees it, wall time."""
    seen = facts.get("backend") != "gpu" and facts.get("sees_cpu", True)
    return "cpu" if seen and settings.threads == 1 else "wall"


class Runner:
    """
    One campaign on one engine and meter.

    Parameters
    ----------
    campaign : Campaign
        What to measure.
    path : path
        File of records, made or gone on with.
    engine : str or Runtime
        Name of the runtime, which then runs in a process of its own, or the runtime.
    settings : Settings
        How models are run; the cache format is the point's.
    meter : Meter, optional
        Source of joules; none: energy is null with the reason.
    files : mapping of str to str
        Model files by name; every other model is synthetic.
    budget : float, optional
        Time after which no point is begun. [s]
    models : path, optional
        Where synthetic models are kept; by default each is deleted when its points are done.
    declared : mapping, optional
        The scenario whose calls these are, as plain data, to stand in each record.
    """

    def __init__(
        self,
        campaign: Campaign,
        path: str | os.PathLike,
        engine: str | Runtime,
        settings: Settings | None = None,
        meter: Meter | None = None,
        files: Mapping[str, str] | None = None,
        budget: float | None = None,
        models: str | os.PathLike | None = None,
        clock: Literal["wall", "cpu"] | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
        clocks: Clocks = Clocks(),
        declared: Mapping[str, Any] | None = None,
    ):
        self.campaign, self.path, self.engine = campaign, Path(path), engine
        self.settings = settings or Settings()
        self.meter = meter or NoMeter()
        self.files, self.budget, self.models = dict(files or {}), budget, models and Path(models)
        self.hash = split_hash(campaign, self.settings, runtimes.name_of(engine))
        self._clock, self._progress, self._clocks = clock, progress, clocks
        self._declared = {"declared": dict(declared)} if declared else {}
        self._facts: dict[str, Any] = {}
        self._idle: dict[str, float | None] = {}
        self._drift: list[float] = []
        self._began = 0.0
        self._worker: Worker | Here | None = None

    def run(self) -> Summary:
        """Measure what is not in the file yet."""
        self._began = self._clocks.monotonic()
        self._worker = self._start()
        self._facts = self._worker.hello
        try:
            return self._run()
        finally:
            if self._worker:
                self._worker.close()

    def _start(self) -> Worker | Here:
        return Worker(self.engine) if isinstance(self.engine, str) else Here(self.engine)

    def _run(self) -> Summary:
        clock = self._clock or suitable_clock(self._facts, self.settings)
        self._clock = clock
        points = [p for p in self.campaign.points() if self._can(p)]
        if not points:
            formats = ", ".join(sorted({p.weights for p in self.campaign.points()}))
            what = f"no point that {runtimes.name_of(self.engine)} can make, in {formats}"
            raise InputError(Fault(f"campaign {self.campaign.name}", what, "choose a campaign in its formats"))
        with RecordFile(self.path) as file:
            mine = [r.campaign for r in file.records if r.campaign and r.campaign.hash == self.hash]
            mine = [place for place in mine if place.role in ("fit", "test")]
            done = {(place.point, place.repeat) for place in mine}
            summary = Summary(self.path, self.hash, clock, len(points) * self.campaign.rounds, before=len(mine),
                              impossible=len(self.campaign.points()) - len(points), torn=str(file.torn or ""))
            self._baseline(file, "empty", summary)
            for number in range(self.campaign.rounds):
                missing = [p for p in points if (p.name, number) not in done]
                for i, resident in enumerate(in_order(missing, f"{self.hash}{number}")):
                    if i % DRIFT_EVERY == 0:
                        self._check_drift(file, summary)
                    self._resident(file, resident, number, summary)
            if summary.measured:
                self._check_drift(file, summary)
            self._baseline(file, "empty-after", summary)
        return summary

    def _can(self, point: Point) -> bool:
        """Whether the engine has the phase and the formats of a point."""
        formats = self._facts.get("formats")
        return point.call.phase in self._facts["phases"] and (
            formats is None or [point.weights, point.kv_format] in formats)

    def _out_of_time(self) -> bool:
        return self.budget is not None and self._clocks.monotonic() - self._began >= self.budget

    def _resident(self, file: RecordFile, resident: Resident, number: int, summary: Summary) -> None:
        """Measure points of one model; what the budget leaves no time for is noted."""
        left = list(resident.points)
        if self._out_of_time():
            summary.unmeasured += [p.name for p in left]
            return
        with self._model(resident) as model:
            while left and not self._out_of_time():
                left = self._with_worker(file, model, resident, left, number, summary)
        summary.unmeasured += [p.name for p in left if p.role != "drift"]

    def _check_drift(self, file: RecordFile, summary: Summary) -> None:
        """Measure the drift point once more."""
        point = self.campaign.drift_point()
        if point and self._can(point) and not self._out_of_time():
            self._resident(file, Resident(*point[:3], [point]), len(self._drift), summary)

    def _with_worker(
        self, file: RecordFile, model: str, resident: Resident, left: list[Point], number: int, summary: Summary
    ) -> list[Point]:
        """Measure points until one kills the child; what is left then."""
        settings = self.settings.model_copy(update={"kv_format": resident.kv_format})
        try:
            if self._worker is None:
                self._worker = self._start()
            opened = self._worker.ask("open", model=model, settings=settings.model_dump())
            described = self._described(model, resident)
        except WorkerError as error:
            self._dismiss(error)
            return self._all_failed(file, left, number, error, summary)
        runtime = conditions.Runtime(**opened)
        self._baseline(file, "resident", summary, self._worker)
        while left and not self._out_of_time():
            point = left.pop(0)
            try:
                record = self._measure(self._worker, point, number, runtime, described)
            except WorkerError as error:
                self._append(file, self._failure(point, number, error), summary)
                self._dismiss(error)
                if error.dead:
                    return left
                continue
            self._append(file, record, summary)
        return left

    def _dismiss(self, error: WorkerError) -> None:
        """Let a dead child go; the next point gets a new one."""
        if error.dead and self._worker:
            self._worker.close()
            self._worker = None

    def _measure(
        self, worker: Worker | Here, point: Point, number: int, runtime: conditions.Runtime, described: dict
    ) -> Record:
        """One point, in one window of the meter."""
        call = point.call.model_dump()
        at_least = max(self.campaign.point_time, 1.05 * self.meter.info.shortest_window)
        at_most = max(self.campaign.longest_point, 2 * at_least)
        worker.ask("prepare", timeout=_PATIENCE + at_most, call=call)
        surroundings, wall = host.Surroundings(), self._clocks.wall()
        start = self._clocks.monotonic()
        self.meter.start()
        try:
            times = worker.ask("run", timeout=_PATIENCE + at_most, call=call, clock=self._clock, at_least=at_least,
                               at_most=at_most, repeats=self.campaign.repeats)
        finally:
            reading = self.meter.stop()
        stop = self._clocks.monotonic()
        jumped = (self._clocks.wall() - wall) - (stop - start)
        judged = times["cpu"] if self._clock == "cpu" else times["wall"]
        others = surroundings.others(sum(times["cpu"]))
        core, memory = _probed(judged, times.get("probe") or [])
        state = self._state(others).model_copy(update={
            "core_probe": core, "memory_probe": memory, "sampling": reading.overhead})
        reasons = [*self._doubts(judged, times, state), *reading.reasons]
        if abs(jumped) > JUMP:
            reasons.append(Reason(code="clock-jump", detail=f"the wall clock jumped by {jumped:+.3g} s"))
        if point.role == "drift":
            reasons += self._drifted(median_interval(judged).median)
        return self._record(point, number, judged, times, reading, reasons, state, runtime, described, wall)

    def _record(self, point, number, judged, times, reading, reasons, state, runtime, described, wall) -> Record:
        call, n = point.call, len(judged)
        rows = call.rows * n
        prompts = call.phase == "prefill"
        rates = tuple(call.rows / t for t in judged if t > 0)
        energies = fields_of(reading)
        window = energies["window"].model_copy(update={"started_at": _stamp(wall)})
        return Record(**{
            **energies,
            "provenance": "modelled" if self._facts.get("modelled") else "measured",
            "scenario": self._scenario(point, described),
            "campaign": self._place(point, number),
            "device": self._device(),
            "state": state,
            "runtime": runtime,
            "window": window,
            "clock": self._clock,
            "time": max(window.stop - window.start, 0.0),
            "cpu_time": sum(times["cpu"]) if times["cpu"] else None,
            "idle": Idle(empty=self._idle.get("empty"), resident=self._idle.get("resident")),
            "tokens": Tokens(prompt=rows if prompts else None, output=None if prompts else rows,
                             requests=n, counted_by="the call"),
            "throughput": Throughput(**{"prompt" if prompts else "output": rates and sum(rates) / len(rates) or None,
                                        "samples": rates[:50]}),
            "latency": Latency(e2e_latency=_spread(judged)),
            "validity": Validity.of(reasons),
        })

    def _doubts(self, judged: list[float], times: dict, state: State) -> Iterator[Reason]:
        interval = median_interval(judged)
        if interval.half_width > WANTED:
            detail = f"{len(judged)} repeats, median known within {interval.half_width:.1%}"
            yield Reason(code="few-repeats", detail=detail)
        spread = variation(judged)
        if spread > 0.05:
            yield Reason(code="high-variation", detail=f"coefficient of variation {spread:.1%}")
        if self._clock == "cpu":
            ratio = median_interval(times["wall"]).median / max(interval.median, 1e-12)
            if ratio > PREEMPTED:
                detail = f"wall time {ratio:.2f} of CPU time; CPU time is what counts here"
                yield Reason(code="background-load", detail=detail)
        elif (state.background_load or 0.0) > BUSY:
            yield Reason(code="background-load", detail=f"others kept {state.background_load:.2f} cores busy")
        if state.power_source == "battery":
            yield Reason(code="on-battery")
        if state.throttle_reasons:
            yield Reason(code="throttled", detail=", ".join(state.throttle_reasons))

    def _drifted(self, value: float) -> list[Reason]:
        self._drift.append(value)
        change = value / self._drift[0] - 1
        return [Reason(code="drift", detail=f"{change:+.1%} since the first time")] if abs(change) > DRIFT else []

    def _baseline(self, file: RecordFile, state: str, summary: Summary,
                  worker: Worker | Here | None = None) -> None:
        """Power with nothing to do; once a campaign for each state, and only where there is a meter."""
        if not self.meter.info.available or state in self._idle or self._out_of_time():
            return
        length = max(1.0, 1.05 * self.meter.info.shortest_window)
        wall = self._clocks.wall()
        self.meter.start()
        try:
            if worker:
                worker.ask("rest", timeout=_PATIENCE + length, seconds=length)
            else:
                time.sleep(length)
        finally:
            reading = self.meter.stop()
        self._idle[state] = reading.power
        energies = fields_of(reading)
        place = conditions.Campaign(name=self.campaign.name, hash=self.hash, point=f"idle/{state}", role="baseline")
        self._append(file, Record(**{
            **energies, "provenance": "measured", "scenario": {"name": f"idle/{state}"}, "campaign": place,
            "device": self._device(), "state": self._state(None),
            "window": energies["window"].model_copy(update={"started_at": _stamp(wall)}),
        }), summary, counts=False)

    def _append(self, file: RecordFile, record: Record, summary: Summary, counts: bool = True) -> None:
        file.append(record)
        counts = counts and record.campaign.role != "drift"
        summary.measured += counts
        summary.failed += record.validity.verdict == "invalid"
        if record.state.sampling is not None:
            summary.sampling = max(summary.sampling or 0.0, record.state.sampling)
        if self._drift:
            summary.drift = max(abs(value / self._drift[0] - 1) for value in self._drift)
        if counts:
            done, elapsed = summary.measured, self._clocks.monotonic() - self._began
            missing = max(summary.total - summary.before - done, 0)
            left = elapsed / done * missing
            if self.budget is not None:
                left = min(left, max(self.budget - elapsed, 0.0))
            self._progress(Progress(summary.before + done, summary.total, elapsed, left, record.campaign.point))

    def _all_failed(
        self, file: RecordFile, points: list[Point], number: int, error: WorkerError, summary: Summary
    ) -> list[Point]:
        for point in points:
            self._append(file, self._failure(point, number, error), summary)
        return []

    def _failure(self, point: Point, number: int, error: WorkerError) -> Record:
        return Record(
            provenance="modelled" if self._facts.get("modelled") else "measured",
            scenario=self._scenario(point, {}), campaign=self._place(point, number), device=self._device(),
            clock=self._clock, energy_reason=error.reason, validity=Validity.of([error.reason]),
        )

    def _place(self, point: Point, number: int) -> conditions.Campaign:
        return conditions.Campaign(name=self.campaign.name, hash=self.hash, point=point.name, repeat=number,
                                   role=point.role)

    def _scenario(self, point: Point, described: dict) -> dict[str, Any]:
        return {"name": point.name, "model": {"name": point.model, **described}, "weights": point.weights,
                "kv_cache": point.kv_format, "call": point.call.model_dump(), "axis": point.axis,
                **self._declared}

    def _device(self) -> Device:
        seen = self.meter.device()
        return seen.model_copy(update={
            "names": seen.names or (host.processor(),), "count": seen.count or 1,
            "memory": seen.memory or host.memory(), "host": seen.host or host.describe(),
        })

    def _state(self, others: float | None) -> State:
        return self.meter.state().model_copy(update={"power_source": host.power_source(), "background_load": others})

    def _described(self, model: str, resident: Resident) -> dict[str, Any]:
        shape = self.campaign.shape(resident.model)
        if self._facts.get("modelled"):
            return {"shape": shape.model_dump(exclude={"sources"}, exclude_none=True)} if shape else {}
        if self._facts.get("describes"):
            return self._worker.ask("describe")
        return synth.description(model) if self._opens_files or Path(model).is_file() else {}

    @contextlib.contextmanager
    def _model(self, resident: Resident) -> Iterator[str]:
        """File of a model: the one that was given, or a synthetic one that is deleted afterwards."""
        if resident.model in self.files:
            yield self._file(resident)
            return
        if not self._opens_files:
            yield self.settings.model_name or resident.model
            return
        shape = self.campaign.shape(resident.model)
        if runtimes.known(self.engine).models == ".json":
            with tempfile.TemporaryDirectory(prefix="joulesim-") as folder:
                yield str(synth.write_sizes(Path(folder) / f"{resident.model}.json", shape, resident.weights))
            return
        if self.models:
            kept = self.models / f"{resident.model}-{resident.weights}-{_short(shape)}.gguf"
            yield str(kept if kept.exists() else synth.write(kept, shape, resident.weights))
            return
        with tempfile.TemporaryDirectory(prefix="joulesim-") as folder:
            yield str(synth.write(Path(folder) / "model.gguf", shape, resident.weights))

    @property
    def _opens_files(self) -> bool:
        """Whether the engine opens models itself; a server has its own, known by a name alone."""
        return bool(runtimes.known(self.engine).models)

    def _file(self, resident: Resident) -> str:
        """A given file; ``{weights}`` in its path stands for the format."""
        return self.files[resident.model].replace("{weights}", resident.weights)


def _probed(times: list[float], probes: list[Sequence[float]]) -> tuple[float, float] | tuple[None, None]:
    """Probe that belongs to the median time: the median call takes the median ratio of call and probe times it. [s]"""
    if not probes:
        return None, None
    core, memory = (statistics.median(times) / statistics.median(t / p for t, p in zip(times, part, strict=True))
                    for part in zip(*probes, strict=True))
    return core, memory


def _spread(samples: list[float]) -> Spread:
    interval = median_interval(samples)
    mean = sum(samples) / len(samples)
    return Spread(mean=mean, median=interval.median, n=len(samples), sd=variation(samples) * mean,
                  percentiles={"0": min(samples), "100": max(samples)})


def _stamp(wall: float) -> str:
    return datetime.datetime.fromtimestamp(wall, datetime.UTC).isoformat()


def _short(shape) -> str:
    return content_hash(shape.model_dump(mode="json"))[:8]
