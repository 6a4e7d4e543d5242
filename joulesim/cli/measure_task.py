"""``joulesim measure --task`` and ``--parity``: answers that can be checked, and framings that should agree."""

from __future__ import annotations

import sys
import time

from joulesim.cli import measure, output
from joulesim.errors import Fault, InputError

BLOCKS = (2, 3, 4, 5, 8, 16)
"""Rows of the blocks that are compared."""
_PATIENCE = 1800.0
"""A comparison may take that long. [s]"""
_WORDS = (
    "The history of the city begins with", "To bake bread one needs", "In physics, energy is", "Once upon a time",
    "The most important rule of chess is", "A computer program is", "My favourite season is", "The river flows from",
    "Scientists have found that", "Dear Sir or Madam,", "The capital of France is", "Whales are",
    "The recipe calls for", "In 1969, people", "Music is often", "The law says that",
)


def run(options) -> int:
    """Answer every question of a task; cost per correct answer."""
    from joulesim.measure import meters
    from joulesim.measure.answers import measure_task
    from joulesim.measure.records import RecordFile
    from joulesim.measure.task import read_task
    from joulesim.measure.worker import WorkerError

    items = read_task(options.task, options.allow_code_execution)
    name, settings, _ = measure.engine(options)
    path, rows = options.records or "task.jsonl", []
    with meters.open_beside(name, options.meter) as meter, RecordFile(path) as file:
        for label, model in _models(options, name).items():
            try:
                record = measure_task(name, settings, meter, label, model, str(options.task), items,
                                      options.allow_code_execution, measure.seconds(options))
            except WorkerError as error:
                raise InputError(Fault(f"runtime {name}, {label}", str(error))) from None
            file.append(record)
            rows.append({"model": label, **_facts(record)})
    if options.output == "json":
        print(output.to_json({"records": path, "results": rows}))
    else:
        headers = ("model", "correct", "truncated", "empty", "failed", "tokens an answer", "per correct answer",
                   "interval, 95 %")
        print(output.table([_row(row) for row in rows], headers, options.output))
        if options.output == "table":
            print(f"\n{rows[0]['joules']}")
    return 0


def missing(options, path) -> list[tuple[str, str]]:
    """Shipped tasks that a real model has not answered yet in a file of records: task and name of the model."""
    from pathlib import Path

    from joulesim.measure.records import read_records
    from joulesim.measure.task import SHIPPED

    there = {r.scenario["name"] for r in (read_records(path) if Path(path).exists() else ()) if r.questions}
    labels = _models(options, "llama_cpp") if options.gemma else {}
    return [(task, label) for task in SHIPPED for label in labels if f"{label}/{task}" not in there]


def run_missing(options, path, budget: float | None) -> None:
    """Answer the shipped tasks that are missing, each in an equal share of what is left of the budget."""
    from joulesim.measure import meters
    from joulesim.measure.answers import measure_task
    from joulesim.measure.records import RecordFile
    from joulesim.measure.task import SHIPPED
    from joulesim.measure.worker import WorkerError

    began, left = time.monotonic(), missing(options, path)
    if not left:
        return
    name, settings, _ = measure.engine(options)
    models = _models(options, name)
    with meters.open_beside(name, options.meter) as meter, RecordFile(path) as file:
        for i, (task, label) in enumerate(left):
            share = None if budget is None else (budget - (time.monotonic() - began)) / (len(left) - i)
            if share is not None and share <= 0:
                return
            print(f"joulesim: {label} answers {task}", file=sys.stderr)
            try:
                record = measure_task(name, settings, meter, label, models[label], task, SHIPPED[task](), budget=share)
            except WorkerError as error:
                print(f"joulesim: {label} did not answer {task}: {error}", file=sys.stderr)
                continue
            file.append(record)


def _facts(record) -> dict:
    """Outcome of a task as plain data."""
    from joulesim.measure.answers import cost

    found = cost(record)
    value, low, high, bound = found.per_correct
    return {**record.correctness.model_dump(), "output_tokens": record.tokens.output, "unit": found.unit,
            "per_correct": value, "low": low, "high": high, "bound": bound, "cost": found.total, "joules": found.joules}


def _row(row: dict) -> tuple:
    unit = row["unit"]
    if row["per_correct"] is None:
        value, interval = "unknown", f"more than {row['bound']:.3g} {unit}"
    else:
        high = "no upper end" if row["high"] is None else f"{row['high']:.3g} {unit}"
        value, interval = f"{row['per_correct']:.3g} {unit}", f"{row['low']:.3g} to {high}"
    counts = (f"{row['correct']} of {row['attempted']}", row["truncated"], row["empty"], row["failed"])
    return (row["model"], *counts, f"{row['output_tokens'] / row['attempted']:.1f}", value, interval)


def run_parity(options) -> int:
    """Compare decoding token by token with decoding in blocks."""
    from joulesim.measure.parity import Parity
    from joulesim.measure.worker import Worker, WorkerError

    name, settings, _ = measure.engine(options)
    results = []
    prompts = [_WORDS[i % len(_WORDS)] for i in range(options.prompts)]
    for label, model in _models(options, name).items():
        try:
            with Worker(name) as worker:
                worker.ask("open", model=model, settings=settings.model_dump())
                said = worker.ask("parity", timeout=_PATIENCE, prompts=prompts, output_tokens=options.tokens,
                                  blocks=BLOCKS)
        except WorkerError as error:
            raise InputError(Fault(f"runtime {name}, {label}", str(error).replace("ValueError: ", ""))) from None
        results.append((label, Parity(**said)))
    if options.output == "json":
        print(output.to_json([{"model": label, **p.model_dump(), "self_acceptance": {
            str(b.rows): b.self_acceptance for b in p.blocks}} for label, p in results]))
        return 0
    rows = [(label, b.rows, f"{b.self_acceptance:.4f}", f"{b.positions - b.agreed} of {b.positions}",
             b.first_difference, b.margin_there and f"{b.margin_there:.3f}", f"{b.largest_difference:.3g}")
            for label, p in results for b in p.blocks]
    print(output.table(rows, ("model", "rows", "self-acceptance", "differ", "first at", "margin there",
                              f"largest difference of {results[0][1].values}"), options.output))
    rows = [(label, s.draft_length, _share(s.accepted, s.verified), _share(s.accepted, s.drafted),
             "yes" if s.same_text else "no") for label, p in results for s in p.speculated]
    if rows:
        print("\n" + output.table(rows, ("model", "drafted at a time (copying)", "accepted of verified", "of drafted",
                                         "same text"), options.output))
    if options.output in ("table", "md"):
        print()
        for label, p in results:
            print(f"{label}: {p.repeats_identical} of {p.repeats} repeated single steps are bit-identical.")
        if not rows:
            print("This server shows what follows a block, not each of its rows: one position a block is compared, and no "
                  "draft is verified.")
    return 0


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f} ({part} of {whole})" if whole else "nothing drafted"


def _models(options, engine: str) -> dict[str, str]:
    given = measure.files(options)
    if not given and engine not in ("http", "fake"):
        raise InputError(Fault("--model", "expected a model file, got none", "give --model NAME=PATH"))
    if options.gemma:
        from joulesim.measure.gemma import NAME

        path = given.pop(NAME)
        given |= {f"{NAME}-{weights}": path.replace("{weights}", weights) for weights in ("q4_k_m", "q8_0", "q4_0")}
    return given or {options.server_model or "model": options.server_model or "model"}
