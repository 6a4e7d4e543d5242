"""Tables of published measurements, row by row: what can be used, and why the rest can not."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from joulesim import catalogue
from joulesim.errors import Fault, InputError, did_you_mean
from joulesim.validate.points import Point
from joulesim.validate.workloads import Task, tasks

NEEDED = ("hardware", "model", "runtime", "weight_format", "batch_concurrency", "output_tokens", "phase",
          "energy_boundary")
"""Columns without which a table says too little; the measured ones may be missing."""

_NUMBERS = {"throughput_tok_s": "output_throughput", "itl_ms": "itl", "ttft_ms": "ttft", "power_w": "power",
            "energy_j_per_token": "energy_per_token"}
_MILLI = ("itl_ms", "ttft_ms")
_WARNING = re.compile(r"\b(FLAG\w*|VOIDED|not usable|do not fit)\b")
_BOUNDARIES = (("wall", "wall"), ("whole system", "wall"), ("board", "board"), ("gpu", "board"), ("chip", "board"),
               ("soc", "chip"), ("package", "chip"), ("powermetrics", "chip"))
"""What a table's words for a boundary mean here; NVML reads the board, whatever tables call it."""
_PHASES = (("steady state", "serving"), ("static batch", "static"), ("decode-dominated", "request"), ("decode", "decode"),
           ("prefill", "prefill"), ("serving", "serving"), ("request", "request"), ("mixed", "request"))
_LARGEST = 64 << 20


class Table(NamedTuple):
    """Rows of a file that can be used, and the fault of each that can not, by row number."""

    points: list[Point]
    faults: dict[int, Fault]
    rows: int


@cache
def names(kind: str) -> dict[str, str]:
    """What published tables call models, hardware, runtimes and weight formats."""
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
    points, faults, seen = [], {}, {}
    for number, (line, row) in enumerate(rows, start=1):
        where = f"{path.name}: line {line}"
        try:
            point = _point(path.stem, number, row, where, hardware or {}, lengths)
            twin = seen.setdefault(tuple(row.items()), line)
            if twin != line:
                raise InputError(Fault(where, f"is the same row as line {twin}", "remove one of them"))
            points.append(point)
        except InputError as error:
            faults[number] = error.faults[0]
    return Table(points, faults, len(rows))


def _rows(path: Path) -> tuple[list[tuple[int, dict[str, str]]], list[str]]:
    try:
        if path.stat().st_size > _LARGEST:
            raise InputError(Fault(str(path), f"expected a table of at most {_LARGEST} bytes, got {path.stat().st_size}"))
        with path.open(newline="", encoding="utf-8-sig") as handle:
            reader = csv.reader(handle)
            header = [name.strip() for name in next(reader, [])]
            rows = [(reader.line_num, cells) for cells in reader if any(cells)]
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
    faults = [Fault(f"{path}: line {line}", f"expected {len(header)} cells, got {len(cells)}", "quote cells with commas")
              for line, cells in rows if len(cells) != len(header)]
    if faults:
        raise InputError(faults)
    return [(line, dict(zip(header, cells, strict=True))) for line, cells in rows], header


def _point(table: str, number: int, row: dict[str, str], where: str, hardware: Mapping[str, str], lengths) -> Point:
    notes = row.get("notes", "")
    task = _in_notes(notes, "task") or ""
    slots = _in_notes(notes, "max_num_seqs")
    workload = tasks().get(task, Task())
    device = hardware.get(row["hardware"].strip()) or _named("hardware", row["hardware"], where)
    devices = int(_number(row, "num_gpus", where, low=1) or 1)
    degrees = _parallelism(row.get("parallelism", ""), devices, where)
    batch = _number(row, "batch_concurrency", where, low=0) or (float(slots) if slots else None)
    output = _number(row, "output_tokens", where, low=0)
    phase = _match(_PHASES, row["phase"], where, "phase")
    if phase == "prefill":
        output = output or 1.0
    if batch is None or output is None:
        what = "batch_concurrency" if batch is None else "output_tokens"
        raise InputError(Fault(f"{where}: {what}", "expected a number, got nothing"))
    if output == 0:
        raise InputError(Fault(f"{where}: output_tokens", "expected at least one token, got 0"))
    prompt = _number(row, "prompt_tokens", where, low=0)
    measured = {field: _measured(row, column, where) for column, field in _NUMBERS.items()}
    _consistent(measured, where)
    weights = _named("weights", row["weight_format"], where)
    shape = lengths.get((row["model"], task, row["hardware"], devices, slots), {})
    nearest = min(shape, key=lambda mean: abs(mean - output), default=None)
    requests, spread, maximum = shape.get(nearest, (_requests(workload, slots), workload.output_spread, workload.output_maximum))
    return Point(
        table=table, row=number, source=row.get("source_url", ""), hardware=device,
        model=_named("models", row["model"], where), runtime=_named("runtimes", row["runtime"], where),
        weights=None if weights == "checkpoint" else weights, phase=phase, task=task if task in tasks() else "",
        devices=devices, **degrees, power_cap=_cap(row.get("hardware_variant", "")),
        max_batch=float(slots) if slots else None, batch=batch, requests=requests,
        prompt_tokens=prompt if prompt is not None else _usual_prompt(task), output_tokens=output,
        output_spread=spread or 1.0, output_maximum=maximum,
        boundary=_match(_BOUNDARIES, row["energy_boundary"], where, "energy_boundary"),
        gross="SUBTRACTED" not in row["energy_boundary"].upper(), **measured,
        accuracy_task=row.get("accuracy_task", ""), accuracy=_number(row, "accuracy", where, low=0),
        accuracy_count=_number(row, "accuracy_n", where, low=0), flag="; ".join(_WARNING.findall(notes)),
    )


def _usual_prompt(task: str) -> float:
    return {"lm-arena-chat": 670.0, "gpqa": 225.0, "sourcegraph-fim": 1374.0}.get(task, 0.0)


def _requests(workload: Task, slots: str | None) -> float | None:
    """Requests of a run that repeats its list until there are about twice as many as slots."""
    if workload.unique is None or not slots:
        return None
    repeats = max(1.0, round(1.5 * float(slots) / workload.unique))
    return workload.unique * repeats


def _in_notes(notes: str, key: str) -> str | None:
    found = re.search(rf"\b{key}=([^;,\s]+)", notes)
    return found.group(1) if found else None


def _named(kind: str, text: str, where: str) -> str:
    key = re.sub(r"\s+", "", text.lower().rsplit("/", 1)[-1] if kind == "models" else text.lower())
    known = names(kind)
    column = {"models": "model", "runtimes": "runtime", "weights": "weight_format"}.get(kind, kind)
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


def _match(table, text: str, where: str, column: str) -> str:
    lower = text.lower()
    for words, meaning in table:
        if words in lower:
            return meaning
    what = "got nothing" if not text.strip() else f"got {text!r}"
    raise InputError(Fault(f"{where}: {column}", f"expected one of {', '.join(dict.fromkeys(m for _, m in table))}, {what}"))


def _number(row: Mapping[str, str], column: str, where: str, low: float) -> float | None:
    text = row.get(column, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise InputError(Fault(f"{where}: {column}", f"expected a number, got {text!r}")) from None
    if not low <= value < float("inf"):
        raise InputError(Fault(f"{where}: {column}", f"expected at least {low:g}, got {text!r}"))
    return value


def _measured(row: Mapping[str, str], column: str, where: str) -> float | None:
    value = _number(row, column, where, low=0)
    if value == 0:
        raise InputError(Fault(f"{where}: {column}", "expected more than 0, got 0; leave it empty if it is unknown"))
    return value / 1e3 if value is not None and column in _MILLI else value


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


def _parallelism(text: str, devices: int, where: str) -> dict[str, int]:
    found = {axis: int(n) for axis, n in re.findall(r"\b(TP|DP|EP|PP)(\d+)", text)}
    if found.get("PP", 1) > 1:
        raise InputError(Fault(f"{where}: parallelism", f"expected no pipeline, got {text!r}", "pipelines are not modelled yet"))
    data, expert = found.get("DP", 1), found.get("EP", 1)
    tensor = found.get("TP", 1)
    if expert > 1 and tensor * data != devices:  # one engine spans the devices: attention is split over them
        tensor = devices // data
    elif tensor * data != devices:
        data = devices // tensor
    if tensor * data != devices:
        raise InputError(Fault(f"{where}: parallelism", f"expected degrees of {devices} devices, got {text!r}"))
    return {"tensor": tensor, "expert": expert, "data": data}


def _cap(variant: str) -> float | None:
    found = re.search(r"(?:power (?:cap|limit)|limit)\s*(\d+(?:\.\d+)?)\s*W|(\d+(?:\.\d+)?)\s*W limit", variant)
    return float(found.group(1) or found.group(2)) if found else None


def _output_lengths(path: Path) -> dict[tuple, dict[float, tuple]]:
    """Spread of output lengths by model, task, device, devices and slots, where the file beside the table says so."""
    beside = path.with_name(f"{path.stem}_output_lengths.csv")
    if not beside.is_file():
        return {}
    found: dict[tuple, dict[float, tuple]] = {}
    for _, row in _rows(beside)[0]:
        key = (row["model"], row["task"], row["hardware"], int(row["num_gpus"]), row["max_num_seqs"])
        mean = float(row["mean"])
        found.setdefault(key, {})[mean] = (float(row["outputs"]), float(row["mean_square_over_mean"]) / mean, float(row["max"]))
    return found
