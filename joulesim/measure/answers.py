"""Running a task on an engine under a meter: one record a model, all attempts in it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from joulesim.measure import conditions, host, synth
from joulesim.measure.campaign import suitable_clock
from joulesim.measure.meters.base import Meter
from joulesim.measure.outcome import Latency, Question, Spread, Throughput, Tokens
from joulesim.measure.record import Record, fields_of
from joulesim.measure.runtimes.base import Answer, Settings
from joulesim.measure.task import Item, PerCorrect, correctness, marked, per_correct
from joulesim.measure.validity import Reason, Validity
from joulesim.measure.worker import Worker, WorkerError

_PATIENCE = 600.0
"""An answer may take that long before its engine counts as hung. [s]"""


def measure_task(
    engine: str, settings: Settings, meter: Meter, name: str, model: str, task: str, items: Sequence[Item],
    allow_code: bool = False, budget: float | None = None,
) -> Record:
    """
    Answer every question within one window of the meter; after ``budget`` seconds none is asked any more.

    Where one thread on a CPU answers, the speed of its core is probed between its calls.
    """
    with Worker(engine) as worker:
        opened = worker.ask("open", model=model, settings=settings.model_dump())
        described = _described(worker, model)
        probed = suitable_clock(worker.hello, settings) == "cpu"
        answers, started = [], time.time()
        meter.start()
        try:
            began = time.monotonic()
            for item in items:
                if answers and budget is not None and time.monotonic() - began > budget:
                    break
                answers.append(_answer(worker, item, probed))
        finally:
            reading = meter.stop()
        modelled = bool(worker.hello.get("modelled"))
    right = marked(items[:len(answers)], answers, allow_code)
    counts = correctness(right, answers)
    cpu = [a.cpu_time for a in answers]
    probes = [(a.core_probe, a.memory_probe) for a in answers if a.core_probe and a.memory_probe]
    core, memory = map(statistics.fmean, zip(*probes, strict=True)) if probes else (None, None)
    energies = fields_of(reading)
    reasons = [*reading.reasons]
    if counts.failed:
        detail = next(a.failure for a in answers if a.failure)
        reasons.append(Reason(code="requests-failed", detail=f"{counts.failed} of {len(answers)}: {detail}"))
    seen = meter.device()
    output_tokens = sum(a.output_tokens for a in answers)
    return Record(**{
        **energies,
        "provenance": "modelled" if modelled else "measured",
        "scenario": {"name": f"{name}/{task}", "model": {"name": name, **described},
                     "task": {"name": task, "questions": len(items)}, "kv_cache": settings.kv_format},
        "device": seen.model_copy(update={"names": seen.names or (host.processor(),),
                                          "host": seen.host or host.describe()}),
        "state": meter.state().model_copy(update={
            "power_source": host.power_source(), "sampling": reading.overhead,
            "core_probe": core, "memory_probe": memory}),
        "runtime": conditions.Runtime(**opened),
        "clock": "wall",
        "cpu_time": sum(cpu) if None not in cpu else None,
        "tokens": Tokens(prompt=sum(a.prompt_tokens or 0 for a in answers),
                         cached=sum(a.cached_tokens for a in answers), output=output_tokens,
                         requests=len(answers) - counts.failed, failed=counts.failed,
                         counted_by="the engine"),
        "throughput": Throughput(output=output_tokens / reading.time if reading.time > 0 else None),
        "latency": Latency(e2e_latency=Spread(mean=sum(a.time for a in answers) / len(answers), n=len(answers))),
        "correctness": counts,
        "questions": tuple(
            Question(prompt=a.prompt_tokens, cached=a.cached_tokens, output=a.output_tokens, calls=a.calls, time=a.time,
                     cpu_time=a.cpu_time, core_probe=a.core_probe, memory_probe=a.memory_probe, correct=ok,
                     failed=a.finish == "failed")
            for a, ok in zip(answers, right, strict=True)),
        "validity": Validity.of(reasons),
        "window": energies["window"].model_copy(update={"started_at": _stamp(started)}),
    })


class Cost(NamedTuple):
    """What a correct answer cost."""

    unit: str
    """``J``, ``CPU s`` or ``s``."""
    total: float
    """Of all attempts."""
    per_correct: PerCorrect
    joules: str
    """At which boundary, or why there are none."""


def cost(record: Record) -> Cost:
    """
    Cost of a correct answer: joules where the meter gave them, else CPU seconds of the engine, else seconds.

    Joules of one window are shared out over its answers by their time, so that the interval covers which questions were
    asked; it does not cover the meter.
    """
    unit, costs = _costs(record.energy, record.questions)
    joules = (f"Joules at the {record.boundary} boundary." if record.energy is not None
              else f"Joules are unknown: {record.energy_reason}. Costs are {unit}.")
    return Cost(unit, sum(costs), per_correct(costs, [q.correct for q in record.questions]), joules)


def seconds(record: Record) -> tuple[str, list[float]]:
    """What each answer took, in CPU seconds of the engine where they are known, else in seconds."""
    return _costs(None, record.questions)


def _described(worker: Worker, model: str) -> dict[str, Any]:
    """What the model consists of; nothing where a server keeps that to itself, or a stand-in has none."""
    if worker.hello.get("describes"):
        return worker.ask("describe")
    return synth.description(model) if model.endswith(".gguf") and Path(model).is_file() else {}


def _answer(worker: Worker, item: Item, probed: bool) -> Answer:
    try:
        (said,) = worker.ask("generate", timeout=_PATIENCE, prompts=[item.prompt], max_tokens=item.max_tokens,
                             **({"stop": item.stop} if item.stop else {}), **({"probed": True} if probed else {}))
        return Answer(**said)
    except WorkerError as error:
        if error.dead:
            raise
        return Answer(finish="failed", failure=str(error))


def _costs(energy: float | None, answers: Sequence[Question]) -> tuple[str, list[float]]:
    """What each answer cost, and in what."""
    whole = sum(a.time for a in answers)
    if energy is not None and whole > 0:
        return "J", [energy * a.time / whole for a in answers]
    cpu = [a.cpu_time for a in answers]
    if None not in cpu:
        return "CPU s", cpu
    return "s", [a.time for a in answers]


def _stamp(wall: float) -> str:
    import datetime

    return datetime.datetime.fromtimestamp(wall, datetime.UTC).isoformat()
