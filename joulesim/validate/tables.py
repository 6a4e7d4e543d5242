"""Tables of published measurements, row by row: what can be used, and why the rest can not."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from joulesim import catalogue
from joulesim.errors import Fault, InputError, did_you_mean
from joulesim.specs.hardware import HardwareSpec
from joulesim.validate import cells, wording
from joulesim.validate.points import Point
from joulesim.validate.workloads import Task, tasks

NEEDED = ("hardware", "model", "runtime", "weight_format", "batch_concurrency", "output_tokens", "phase",
          "energy_boundary")
"""Columns without which a table says too little; the measured ones may be missing."""

_NUMBERS = {"throughput_tok_s": "output_throughput", "itl_ms": "itl", "ttft_ms": "ttft", "power_w": "power",
            "energy_j_per_token": "energy_per_token"}
_MILLI = ("itl", "ttft")
_LARGEST = 64 << 20
_ABOVE_RATING = 3.0
"""Power over the rated limit beyond which a row is in the wrong unit; short of it a limit may have been raised."""


class Table(NamedTuple):
    """Rows of a file that can be used, and the fault of each that can not, by row number."""

    points: list[Point]
    faults: dict[int, Fault]
    rows: int
    notes: dict[int, Fault]
    """Faults of an accuracy, which leave a row its energy per token."""


@cache
def names(kind: str) -> dict[str, str]:
    """What published tables call models, hardware, runtimes, weight and cache formats; and runtimes of a format's own."""
    path = catalogue.data_root() / "validation" / "published" / "names.yaml"
    return catalogue.read_yaml(path)[kind]


def read(path: Path, hardware: Mapping[str, str] | None = None) -> Table:
    """
    Rows of a CSV in the columns of the published tables.

    Parameters
    ----------
    path : Path
        The file. ``<stem>_output_lengths.csv`` beside it is read too, where it exists.
    hardware : mapping, optional
        Further device names, to a profile's name or path.

    Raises
    ------
    InputError
        When the file is no such table at all; rows that cannot be used are faults of the result.
    """
    rows, columns = _rows(path)
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        hints = (f"{name} ({did_you_mean(name, columns)})" if did_you_mean(name, columns) else name for name in missing)
        raise InputError(Fault(str(path), f"expected the columns {', '.join(NEEDED)}, got no {', '.join(hints)}"))
    lengths = _output_lengths(path)
    points, faults, notes, seen = [], {}, {}, {}
    for number, (line, row) in enumerate(rows, start=1):
        where = f"{path.name}: line {line}"
        if isinstance(row, Fault):
            faults[number] = row
            continue
        try:
            point = _point(path.stem, number, row, where, hardware or {}, lengths)
            twin = seen.setdefault(tuple(row.items()), line)
            if twin != line:
                raise InputError(Fault(where, f"is the same row as line {twin}", "remove one of them"))
            points.append(point)
            if note := cells.accuracy(row, where)[1]:
                notes[number] = note
        except InputError as error:
            faults[number] = error.faults[0]
    return Table(points, faults, len(rows), notes)


def _rows(path: Path) -> tuple[list[tuple[int, dict[str, str] | Fault]], list[str]]:
    """Rows by line, a ragged one as its fault, and the columns."""
    try:
        if path.stat().st_size > _LARGEST:
            raise InputError(Fault(str(path), f"expected a table of at most {_LARGEST} bytes, got {path.stat().st_size}"))
        with path.open(newline="", encoding="utf-8-sig") as handle:
            reader = csv.reader(handle)
            header = [name.strip() for name in next(reader, [])]
            rows = [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except OSError as error:
        raise InputError(Fault(str(path), f"cannot be read ({error.strerror})")) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(Fault(str(path), f"not a CSV file ({error})")) from None
    if not header:
        raise InputError(Fault(str(path), "expected a table, got an empty file"))
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise InputError(Fault(str(path), f"the column {twice[0]!r} stands twice", "remove one of them"))
    renamed = [name for name in header if re.search(r"[\[(].*[\])]$", name)]
    if renamed:
        raise InputError(Fault(str(path), f"the column {renamed[0]!r} has a unit in its header",
                               f"name it as one of {', '.join(_NUMBERS)}"))
    if len(header) == 1 and (other := next((mark for mark in ";\t|" if mark in header[0]), None)):
        raise InputError(Fault(str(path), f"expected commas between cells, got {other!r}", "write it with commas"))
    faults = {line: Fault(f"{path.name}: line {line}", f"expected {len(header)} cells, got {len(cells)}",
                          "quote cells with commas") for line, cells in rows if len(cells) != len(header)}
    if faults and len(faults) == len(rows):
        raise InputError(list(faults.values()))
    return [(line, faults.get(line) or dict(zip(header, cells, strict=True))) for line, cells in rows], header


def _point(table: str, number: int, row: dict[str, str], where: str, hardware: Mapping[str, str], lengths) -> Point:
    notes = row.get("notes", "")
    task = _in_notes(notes, "task") or ""
    slots = _slots(notes, where)
    workload = tasks().get(task, Task())
    device = hardware.get(row["hardware"].strip()) or _named("hardware", row["hardware"], where)
    devices = _devices(row, where)
    degrees = _parallelism(row.get("parallelism", ""), devices, where)
    phase = _match(wording.PHASES, row["phase"], where, "phase")
    batch = cells.number(row, "batch_concurrency", where) or slots
    prompt, output = _length(row, "prompt_tokens", where), _length(row, "output_tokens", where)
    if phase == "prefill":
        output, batch = output or 1.0, batch or 1.0
    if output is None and (total := wording.TOTALS.search(notes)):
        tokens, prompts = map(float, total.groups())
        output = cells.within(tokens / prompts if prompts else math.inf, "notes: tokens over prompts", total[0], where)
    if prompt is None and phase in ("serving", "prefill") and not _usual_prompt(task):
        raise InputError(Fault(f"{where}: prompt_tokens", "expected a number, got nothing"))
    if phase == "prefill" and prompt == 0:
        raise InputError(Fault(f"{where}: prompt_tokens", "expected at least one token, got 0"))
    if batch is None or output is None:
        what = "batch_concurrency" if batch is None else "output_tokens"
        raise InputError(Fault(f"{where}: {what}", "expected a number, got nothing"))
    if output < 1:
        raise InputError(Fault(f"{where}: output_tokens", f"expected at least one token, got {output:g}"))
    scope = row.get("throughput_scope", "")
    if wording.WHOLE_BATCH.search(scope):
        prompt, output = None if prompt is None else prompt / batch, output / batch
    rate = next((meaning for words, meaning in wording.RATES if words in scope and phase == "request"), "")
    measured = {field: cells.measured(row, column, where) for column, field in _NUMBERS.items()}
    measured |= {field: measured[field] / 1e3 for field in _MILLI if measured[field] is not None}
    _consistent(measured, where)
    if wording.CONTAMINATED.search(row.get("energy_derivation", "")):
        measured["power"] = None
    model, weights = _named("models", row["model"], where), _weights(row, where)
    runtime = _named("runtimes", row["runtime"], where)
    runtime = _of_its_time(runtime, row.get("date", ""))
    kernels = names("runtimes_of_weights").get(runtime, {})
    runtime = kernels.get(_key(row["weight_format"]), kernels.get(weights, runtime))
    profile = catalogue.load_hardware(device)
    _possible(measured["power"], devices, profile, where)
    place = profile.kind if profile.kind == "cpu" else profile.vendor
    runtime = names("runtimes_of_vendors").get(runtime, {}).get(place, runtime)
    shape = lengths.get((row["model"], task, row["hardware"], devices, slots), {})
    nearest = min(shape, key=lambda mean: abs(mean - output), default=None)
    otherwise = _requests(workload, slots), workload.output_spread, workload.output_maximum
    requests, spread, maximum = shape.get(nearest, otherwise)
    return Point(
        table=table, row=number, source=row.get("source_url", ""), hardware=device,
        model=model, runtime=runtime, weights=weights, kv_cache=_cache(row, where),
        phase=", ".join(filter(None, (phase, rate))), task=task if task in tasks() else "",
        devices=devices, **degrees, power_cap=_cap(row.get("hardware_variant", ""), where),
        max_batch=slots, batch=batch, requests=requests,
        prompt_tokens=prompt if prompt is not None else _usual_prompt(task), output_tokens=output,
        output_spread=spread or 1.0, output_maximum=maximum,
        boundary=_match(wording.BOUNDARIES, row["energy_boundary"], where, "energy_boundary"),
        gross=not wording.NET.search(row["energy_boundary"]), **measured,
        accuracy_task=row.get("accuracy_task", ""), accuracy=cells.accuracy(row, where)[0],
        accuracy_count=cells.number(row, "accuracy_n", where), flag="; ".join(wording.FLAGS.findall(notes)),
    )


def _length(row: Mapping[str, str], column: str, where: str) -> float | None:
    """Tokens of a request; approximate ones count, unstated ones are none."""
    text = row.get(column, "").strip()
    if wording.UNSTATED.search(text):
        return None
    return cells.number({column: wording.TOKENS.sub("", text)}, column, where)


def _of_its_time(runtime: str, date: str) -> str:
    """Runtime as it was at a date, where it changed in kind."""
    earlier = names("runtimes_before").get(runtime)
    return earlier["runtime"] if earlier and re.match(r"\d{4}-\d\d", date) and date < earlier["date"] else runtime


def _weights(row: Mapping[str, str], where: str) -> str | None:
    """Shipped format; ``None`` for a checkpoint in its own format."""
    name = _named("weights", row["weight_format"], where)
    if not name.startswith("checkpoint"):
        return name
    model = _named("models", row["model"], where)
    if catalogue.load_model(model).weight_format not in (None, "bf16", "f16"):
        return None
    otherwise = name.partition(" ")[2]
    return "fp8_block128" if otherwise == "fp8_e4m3" and model.startswith("qwen3") else otherwise or None


def _cache(row: Mapping[str, str], where: str) -> str | None:
    """Shipped cache format; ``None`` for 16 bit."""
    text = row.get("kv_format", "").strip()
    name = _named("caches", text, where) if text else "default"
    return None if name == "default" else name


def _usual_prompt(task: str) -> float:
    return {"lm-arena-chat": 670.0, "gpqa": 225.0, "sourcegraph-fim": 1374.0}.get(task, 0.0)


def _slots(notes: str, where: str) -> float | None:
    """Slots of the engine, where the notes say so."""
    return cells.number({"notes: max_num_seqs": _in_notes(notes, "max_num_seqs") or ""}, "notes: max_num_seqs", where)


def _requests(workload: Task, slots: float | None) -> float | None:
    """Requests of a run that repeats its list until there are about twice as many as slots."""
    if workload.unique is None or not slots:
        return None
    repeats = max(1.0, round(1.5 * slots / workload.unique))
    return workload.unique * repeats


def _in_notes(notes: str, key: str) -> str | None:
    found = re.search(rf"\b{key}=([^;,\s]+)", notes)
    return found.group(1) if found else None


def _named(kind: str, text: str, where: str) -> str:
    key = _key(text.rsplit("/", 1)[-1] if kind == "models" else text)
    known = names(kind)
    column = {"models": "model", "runtimes": "runtime", "weights": "weight_format", "caches": "kv_format"}.get(kind, kind)
    if key in known:
        return known[key]
    if kind == "hardware" and key in catalogue.names("hardware"):
        return key
    if kind == "models" and key in catalogue.names("model"):
        return key
    hint = did_you_mean(key, known) or "add it to validation/published/names.yaml"
    if kind == "hardware":
        hint = did_you_mean(key, known) or "give its profile with --hardware-file"
    raise InputError(Fault(f"{where}: {column}", f"unknown {column} {text!r}", hint))


def _key(text: str) -> str:
    """Name as ``names.yaml`` writes it."""
    return re.sub(r"\s+", "", text.lower())


def _match(table, text: str, where: str, column: str) -> str:
    lower = text.lower()
    for words, meaning in table:
        if words in lower:
            return meaning
    what = "got nothing" if not text.strip() else f"got {text!r}"
    said = dict.fromkeys(meaning if any(w in meaning for w, _ in table) else words for words, meaning in table)
    raise InputError(Fault(f"{where}: {column}", f"expected one of {', '.join(said)}, {what}"))


def _consistent(measured: dict[str, float | None], where: str) -> None:
    """Energy, power and throughput of a row must tell one story."""
    energy, power, rate = (measured[name] for name in ("energy_per_token", "power", "output_throughput"))
    if None in (energy, power, rate):
        return
    ratio = energy / (power / rate)
    if 300 < ratio < 3000:
        raise InputError(Fault(f"{where}: energy_j_per_token", f"looks like mJ: {energy:g} against {power / rate:.4g} J "
                               "from power over throughput", "divide it by 1000"))
    if 1 / 3000 < ratio < 1 / 300:
        raise InputError(Fault(f"{where}: energy_j_per_token", f"looks like kJ: {energy:g} against {power / rate:.4g} J "
                               "from power over throughput", "multiply it by 1000"))


def _possible(power: float | None, devices: int, hardware: HardwareSpec, where: str) -> None:
    """No board draws many times its rated limit."""
    most = _ABOVE_RATING * devices * (hardware.power_limit or float("inf"))
    if power is not None and power > most:
        what = "looks like mW" if power > 100 * most else "is more than the devices can draw"
        raise InputError(Fault(f"{where}: power_w", f"{what}: {power:g} W for {devices} x {hardware.power_limit:g} W",
                               "divide it by 1000" if "mW" in what else "check the number of devices"))


def _devices(row: Mapping[str, str], where: str) -> int:
    """Devices of a row, one where it does not say."""
    number = cells.number(row, "num_gpus", where) or 1.0
    if number % 1:
        raise InputError(Fault(f"{where}: num_gpus", f"expected a whole number of devices, got {number:g}"))
    return int(number)


def _parallelism(text: str, devices: int, where: str) -> dict[str, int]:
    found = {axis.upper(): float(n) for axis, n in re.findall(r"\b(TP|DP|EP|PP)[ =]?(\d+)", text, re.IGNORECASE)}
    found = {axis: int(cells.within(degree, "parallelism", text, where)) for axis, degree in found.items()}
    said = text.strip().lower() not in ("", "none")
    if not found and said and (devices > 1 or re.search(r"\b(TP|DP|EP|PP)\b", text, re.IGNORECASE)):
        raise InputError(Fault(f"{where}: parallelism", f"expected degrees such as TP2 EP1, got {text!r}"))
    if found.get("PP", 1) > 1:
        raise InputError(Fault(f"{where}: parallelism", f"expected no pipeline, got {text!r}",
                               "a table's rows say nothing of the micro-batches in a pipeline; predict it as a scenario"))
    data, expert = found.get("DP", 1), found.get("EP", 1)
    tensor = found.get("TP", 1)
    if data > devices or tensor > devices:
        raise InputError(Fault(f"{where}: parallelism", f"expected degrees of {devices} devices, got {text!r}"))
    if expert > 1 and tensor * data != devices:  # one engine spans the devices: attention is split over them
        tensor = devices // data
    elif tensor * data != devices:
        data = devices // tensor
    if tensor * data != devices:
        raise InputError(Fault(f"{where}: parallelism", f"expected degrees of {devices} devices, got {text!r}"))
    return {"tensor": tensor, "expert": expert, "data": data}


def _cap(variant: str, where: str) -> float | None:
    found = wording.CAP.search(variant)
    watts = next(filter(None, found.groups())) if found else None
    return None if watts is None else cells.within(float(watts), "hardware_variant: power limit", watts, where)


def _output_lengths(path: Path) -> dict[tuple, dict[float, tuple]]:
    """Spread of output lengths by model, task, device, devices and slots, where the file beside the table says so."""
    beside = path.with_name(f"{path.stem}_output_lengths.csv")
    if not beside.is_file():
        return {}
    found: dict[tuple, dict[float, tuple]] = {}
    for line, row in _rows(beside)[0]:
        where = f"{beside.name}: line {line}"
        try:
            named = row["model"], row["task"], row["hardware"], int(row["num_gpus"])
            numbers = {name: float(row[name]) for name in ("max_num_seqs", "outputs", "mean", "mean_square_over_mean", "max")}
        except (KeyError, TypeError, ValueError) as error:
            what = ("expected model, task, hardware, num_gpus, max_num_seqs, outputs, mean, mean_square_over_mean, max: "
                    f"{error!r}")
            raise InputError(Fault(where, what, "mend or remove the file beside the table")) from None
        slots, outputs, mean, square, most = (cells.within(n, name, row[name], where) for name, n in numbers.items())
        key, shape = (*named, slots), (outputs, square / mean, most)
        found.setdefault(key, {})[mean] = shape
    return found
