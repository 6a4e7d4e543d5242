"""The five formats of llama.cpp's ``llama-bench`` as rows by field name: JSON, JSON lines, CSV, Markdown, SQL."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from joulesim.errors import Fault, InputError
from joulesim.measure.importers.text import csv_rows

_TEST = re.compile(r"(?:pp ?(?P<prompt>\d+))?\+?(?:tg ?(?P<output>\d+))?(?: ?@ ?d(?P<depth>\d+))?")
_RATE = re.compile(r"(?P<mean>\d+(?:\.\d+)?)(?:\s*(?:±|\+-|\+/-)\s*(?P<sd>\d+(?:\.\d+)?))?")
_INSERT = re.compile(r"INSERT INTO \w+ \((?P<names>[^)]*)\) VALUES \((?P<values>.*)\);?", re.I)
_BUILD = re.compile(r"build:\s*(?P<commit>\S+)\s*\((?P<number>\d+)\)")


@dataclass(frozen=True)
class BenchRow:
    """One row, by the field names of the JSON format."""

    where: str
    fields: dict[str, Any]


def bench_rows(text: str, file: str) -> tuple[list[BenchRow], list[Fault]]:
    """Rows of a file in whichever format it is, and the faults of the rows that cannot be used."""
    start = text.lstrip()
    if _INSERT.search(text):
        return _split(_sql(text, file))
    if re.search(r"^\s*\|.*\bt/s\b", text, re.M):
        return _split(_markdown(text, file))
    if re.search(r"^\s*[\[{]", text, re.M):
        return _split(_json(text, file))
    if "," in start.partition("\n")[0]:
        _, rows, faults = csv_rows(text, file)
        return [BenchRow(row.where, dict(row.cells)) for row in rows], faults
    what = "expected the output of llama-bench in JSON, CSV, Markdown or SQL, found none of them"
    raise InputError(Fault(file, what, "run it with -o json"))


def _split(found: Iterator[BenchRow | Fault]) -> tuple[list[BenchRow], list[Fault]]:
    every = list(found)
    return [t for t in every if isinstance(t, BenchRow)], [f for f in every if isinstance(f, Fault)]


def _json(text: str, file: str) -> Iterator[BenchRow | Fault]:
    """An array, or one object a line; banners of a backend may stand before it (llama.cpp#15554)."""
    first = re.search(r"^\s*\[\s*(?:\{|\]|$)", text, re.M)
    if first:
        try:
            data, _ = json.JSONDecoder().raw_decode(text[first.start():].lstrip())
        except ValueError as error:
            raise InputError(Fault(file, f"expected a JSON array, it breaks off or is damaged ({error})")) from None
        for number, fields in enumerate(data, start=1):
            where = f"{file}: entry {number}"
            yield BenchRow(where, fields) if isinstance(fields, dict) else Fault(where, "expected an object")
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("{"):
            try:
                yield BenchRow(f"{file}:{number}", json.loads(line))
            except ValueError:
                yield Fault(f"{file}:{number}", "expected one JSON object, the line breaks off or is damaged")


def _markdown(text: str, file: str) -> Iterator[BenchRow | Fault]:
    """Tables as users paste them; a file may hold several."""
    header: list[str] = []
    build = {}
    if match := _BUILD.search(text):
        build = {"build_commit": match["commit"], "build_number": match["number"]}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip().startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if "t/s" in cells:
            header = cells
        elif all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            continue
        elif len(cells) != len(header):
            what = f"expected {len(header)} cells as in the header, got {len(cells)}"
            yield Fault(f"{file}:{number}", what, "the row is left out, cells are never shifted")
        else:
            yield _pasted(dict(zip(header, cells, strict=True)) | build, f"{file}:{number}")


def _pasted(cells: dict[str, str], where: str) -> BenchRow | Fault:
    """A row of a Markdown table in the field names of the JSON format."""
    test, rate = _TEST.fullmatch(cells.get("test", "")), _RATE.fullmatch(cells["t/s"])
    if test is None or not (test["prompt"] or test["output"]):
        got = cells.get("test")
        return Fault(f"{where}: test", f"expected a test such as pp512 or tg128 @ d512, got {got!r}")
    if rate is None:
        return Fault(f"{where}: t/s", f"expected a rate such as 7100.00 ± 140.3, got {cells['t/s']!r}")
    return BenchRow(where, {
        "model_type": cells.get("model", ""),
        "backends": cells.get("backend", ""),
        "n_gpu_layers": cells.get("ngl"),
        **{name: value for name, value in cells.items() if name not in ("model", "backend", "ngl", "test", "t/s")},
        "n_prompt": test["prompt"] or 0,
        "n_gen": test["output"] or 0,
        "n_depth": test["depth"] or 0,
        "avg_ts": rate["mean"],
        "stddev_ts": rate["sd"],
    })


def _sql(text: str, file: str) -> Iterator[BenchRow | Fault]:
    for number, line in enumerate(text.splitlines(), start=1):
        match = _INSERT.search(line)
        if match is None:
            continue
        names = [name.strip() for name in match["names"].split(",")]
        (values,) = csv.reader([match["values"]], quotechar="'", skipinitialspace=True)
        if len(names) != len(values):
            what = f"expected {len(names)} values as there are names, got {len(values)}"
            yield Fault(f"{file}:{number}", what, "the row is left out, values are never shifted")
        else:
            yield BenchRow(f"{file}:{number}", dict(zip(names, values, strict=True)))
