"""Running a task on an engine under a meter: one record a model, all attempts in it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from joulesim.measure import conditions, host
from joulesim.measure.meters.base import Meter
from joulesim.measure.outcome import Latency, Spread, Throughput, Tokens
from joulesim.measure.record import Record, fields_of
from joulesim.measure.runtimes.base import Answer, Settings
from joulesim.measure.task import Item, correctness, marked, per_correct
from joulesim.measure.validity import Reason, Validity
from joulesim.measure.worker import Worker, WorkerError

_PATIENCE = 600.0
"""An answer may take that long before its engine counts as hung. [s]"""


def measure_task(
    engine: str, settings: Settings, meter: Meter, name: str, model: str, task: str, items: Sequence[Item],
    allow_code: bool = False,
) -> tuple[Record, dict[str, Any]]:
    """
    Answer every question, within one window of the meter.

    Gives the record and the cost of a correct answer: joules where the meter gives them, else CPU seconds of the
    engine, else seconds.

    Joules of one window are shared out over its answers by their time, so that the interval covers which questions were
    asked; it does not cover the meter.
    """
    with Worker(engine) as worker:
        opened = worker.ask("open", model=model, settings=settings.model_dump())
        started = time.time()
        meter.start()
        try:
            answers = [_answer(worker, item) for item in items]
        finally:
            reading = meter.stop()
        modelled = bool(worker.hello.get("modelled"))
    right = marked(items, answers, allow_code)
    counts = correctness(right, answers)
    unit, costs = _costs(reading.energy, answers)
    found = per_correct(costs, right)
    output_tokens = sum(a.output_tokens for a in answers)
    cpu = [a.cpu_time for a in answers]
    energies = fields_of(reading)
    reasons = [*reading.reasons]
    if counts.failed:
        detail = next(a.failure for a in answers if a.failure)
        reasons.append(Reason(code="requests-failed", detail=f"{counts.failed} of {len(items)}: {detail}"))
    seen = meter.device()
    record = Record(**{
        **energies,
        "provenance": "modelled" if modelled else "measured",
        "scenario": {"name": f"{name}/{task}", "model": {"name": name}, "task": {"name": task, "questions": len(items)},
                     "kv_cache": settings.kv_format},
        "device": seen.model_copy(update={"names": seen.names or (host.processor(),),
                                          "host": seen.host or host.describe()}),
        "state": meter.state().model_copy(update={"power_source": host.power_source(), "sampling": reading.overhead}),
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
        "validity": Validity.of(reasons),
        "window": energies["window"].model_copy(update={"started_at": _stamp(started)}),
    })
    joules = (f"Joules at the {reading.meter.boundary} boundary." if reading.energy is not None
              else f"Joules are unknown: {reading.energy_reason}. Costs are {unit}.")
    return record, {**counts.model_dump(), "output_tokens": output_tokens, "unit": unit, "per_correct": found.value,
                    "low": found.low, "high": found.high, "bound": found.bound, "cost": sum(costs), "joules": joules}


def _answer(worker: Worker, item: Item) -> Answer:
    try:
        (said,) = worker.ask("generate", timeout=_PATIENCE, prompts=[item.prompt], max_tokens=item.max_tokens,
                             **({"stop": item.stop} if item.stop else {}))
        return Answer(**said)
    except WorkerError as error:
        if error.dead:
            raise
        return Answer(finish="failed", failure=str(error))


def _costs(energy: float | None, answers: Sequence[Answer]) -> tuple[str, list[float]]:
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
