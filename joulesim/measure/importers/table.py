"""
Records from any CSV whose columns somebody names.

A value needs its unit: in the map, in the header (``power [W]``), at the end of the column's name
(``power_w``, ``energy_j_per_token``) or in the cell. An energy that is off by a factor that units are off by is
reported with the factor's name and never repaired.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ValidationError

from joulesim.errors import Fault, InputError, did_you_mean
from joulesim.measure.importers import stamps
from joulesim.measure.importers.plausible import check
from joulesim.measure.importers.text import Row, csv_rows, is_missing, read_text
from joulesim.measure.record import Record
from joulesim.measure.records import Records
from joulesim.measure.validity import Reason
from joulesim.specs.base import faults_of
from joulesim.units import UnitError, parse, show, unit

FIELDS: dict[str, str] = {
    "energy": "joule",
    "power": "watt",
    "time": "second",
    "cpu_time": "second",
    "resolution": "joule",
    "idle.empty": "watt",
    "idle.resident": "watt",
    "tokens.prompt": "token",
    "tokens.cached": "token",
    "tokens.output": "token",
    "tokens.output_recounted": "token",
    "tokens.drafted": "token",
    "tokens.verified": "token",
    "tokens.accepted": "token",
    "tokens.requests": "request",
    "tokens.failed": "request",
    "throughput.prompt": "token/second",
    "throughput.output": "token/second",
    "throughput.mixed": "token/second",
    "throughput.requests": "request/second",
    "throughput.sd": "token/second",
    "latency.ttft.mean": "second",
    "latency.ttft.median": "second",
    "latency.tpot.mean": "second",
    "latency.tpot.median": "second",
    "latency.itl.mean": "second",
    "latency.itl.median": "second",
    "latency.e2e_latency.mean": "second",
    "latency.e2e_latency.median": "second",
    "correctness.correct": "answer",
    "correctness.attempted": "answer",
    "ratios.energy_per_output_token": "joule/token",
    "ratios.energy_per_prompt_token": "joule/token",
    "ratios.energy_per_total_token": "joule/token",
    "ratios.energy_per_request": "joule/request",
    "ratios.energy_per_correct_answer": "joule/answer",
    "state.power_limit": "watt",
}
"""Quantities that a column can hold, and their canonical units."""
_COUNTS = ("token", "request", "answer")
"""A bare number of these is a number of things."""
_TEXTS = (
    "boundary", "runtime.name", "runtime.version", "device.driver", "state.power_mode", "source.ref", "source.note",
)
_STAMPS = ("window.start", "window.stop")
_SUFFIXES = (
    ("j_per_token", "J/token"), ("j_per_request", "J/request"), ("tok_s", "token/s"), ("kwh", "kWh"), ("wh", "Wh"),
    ("ms", "ms"), ("s", "s"), ("w", "W"), ("j", "J"),
)
"""Last words of column names that say a unit. ``mj`` is none: it may be millijoule or megajoule."""
Columns = Mapping[str, str | tuple[str, str]]


def read_table(
    path: str | os.PathLike,
    columns: Columns,
    fixed: Mapping[str, Any] | None = None,
    provenance: str = "published",
    source: str = "",
    zone: str = "",
    known: Mapping[str, Collection[str]] | None = None,
) -> Records:
    """
    One record for each row that can be used; a fault by file and line for each that cannot.

    Parameters
    ----------
    columns : mapping
        Record field -> column, or (column, unit). Fields are those of :data:`FIELDS`, ``boundary``,
        ``window.start`` and ``window.stop`` (time stamps), a few texts, and ``scenario.`` followed by any dotted
        name of a scenario file.
    fixed : mapping
        Record field -> value that holds for every row, in canonical units.
    source : str
        Citation or address of the table.
    zone : str
        Zone of time stamps without one.
    known : mapping
        Record field -> values that are known, e.g. ``{"scenario.model": names}``; others are refused.

    Examples
    --------
    >>> read_table("mine.csv", {"scenario.model": "model", "power": ("P", "W"), "throughput.output": "tok_s"},
    ...            fixed={"boundary": "wall"})                                             # doctest: +SKIP
    """
    file = str(path)
    header, rows, faults = csv_rows(read_text(path), file)
    units = _checked(columns, header, file)
    local = stamps.zone(zone, file) if zone else None
    records, seen = [], {}
    for row in rows:
        try:
            flat = {**(fixed or {}), **_values(row, columns, units, local)}
            check(flat, known or {}, row.where)
            first = seen.setdefault(tuple(row.cells.values()), row.line)
            if first != row.line:
                raise InputError(Fault(row.where, f"is the same as line {first}", "the row is left out"))
            records.append(_record(flat, row, provenance, source or file))
        except InputError as error:
            faults.extend(error.faults)
    return Records(records, faults)


def _checked(columns: Columns, header: list[str], file: str) -> dict[str, str]:
    """Unit of each quantity's column, empty when the cells must say it; all faults of the map together."""
    faults, units = [], {}
    for field, given in columns.items():
        column, stated = (given, "") if isinstance(given, str) else given
        if field not in (*FIELDS, *_TEXTS, *_STAMPS) and not field.startswith("scenario."):
            hint = did_you_mean(field, (*FIELDS, *_TEXTS, *_STAMPS)) or "see joulesim.measure.importers.table.FIELDS"
            faults.append(Fault(file, f"no record field {field!r}", hint))
        elif column not in header:
            hint = did_you_mean(column, header) or f"there is {', '.join(header)}"
            faults.append(Fault(file, f"expected a column {column!r} for {field}, there is none", hint))
        elif field in FIELDS:
            units[field] = stated or _unit_of(column)
            try:
                fits = not units[field] or unit(units[field]).dimensions == unit(FIELDS[field]).dimensions
            except UnitError:
                fits = False
            if not fits:
                what = f"column {column!r} for {field}: expected {FIELDS[field]}, got {units[field]!r}"
                faults.append(Fault(file, what))
    if faults:
        raise InputError(faults)
    return units


def _unit_of(column: str) -> str:
    if bracketed := re.search(r"[\[(]([^\])]+)[\])]\s*$", column):
        return bracketed[1]
    name = f"_{column.lower()}"
    return next((text for suffix, text in _SUFFIXES if name.endswith(f"_{suffix}")), "")


def _values(row: Row, columns: Columns, units: dict[str, str], local) -> dict[str, Any]:
    """Values of a row by record field; empty cells are unknown and left out."""
    values, faults = {}, []
    for field, given in columns.items():
        column = given if isinstance(given, str) else given[0]
        cell = row.cells[column]
        if is_missing(cell):
            continue
        where = f"{row.where}: {column}"
        try:
            if field in FIELDS:
                values[field] = _quantity(cell, units[field], FIELDS[field])
            elif field in _STAMPS:
                values[field] = stamps.unix(cell, local)[0]
            else:
                values[field] = _plain(cell) if field.startswith("scenario.") else cell
        except UnitError as error:
            faults.append(Fault(where, error.what, error.remedy))
        except ValueError as error:
            remedy = "say where with zone='Europe/Berlin'" if isinstance(error, stamps.NoZone) else ""
            faults.append(Fault(where, str(error), remedy))
    if faults:
        raise InputError(faults)
    return values


def _quantity(cell: str, stated: str, wanted: str) -> float:
    bare = re.fullmatch(r"[-+.\d_eE]+", cell) is not None
    text = f"{cell} {stated or (wanted if wanted in _COUNTS else '')}".strip() if bare else cell
    try:
        value = parse(text, wanted)
    except UnitError as error:
        if bare and not stated:
            raise UnitError(error.what, "name the unit: columns={field: (column, unit)}") from None
        raise
    if value < 0:
        raise UnitError(f"expected at least 0, got {show(value, wanted)}")
    return value


def _plain(cell: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def _record(flat: dict[str, Any], row: Row, provenance: str, source: str) -> Record:
    nested: dict[str, Any] = {"provenance": provenance, "scenario": {}}
    for field, value in flat.items():
        *path, last = field.split(".")
        into = nested
        for name in path:
            into = into.setdefault(name, {})
        into[last] = value
    if "window" in nested:
        nested["window"].setdefault("clock", "unix")
    if "runtime" in nested:
        nested["runtime"].setdefault("name", "unknown")
    if "energy" not in nested:
        code = "not-published" if "ratios" in nested or "power" in nested else "no-power-in-file"
        nested["energy_reason"] = Reason(code=code)
    nested.setdefault("source", {}).setdefault("ref", source)
    nested["source"].update(file=row.file, line=row.line)
    for count in ("requests", "failed"):
        _whole(nested.get("tokens", {}), count)
    for count in ("correct", "attempted"):
        _whole(nested.get("correctness", {}), count)
    try:
        return Record.model_validate(nested)
    except ValidationError as error:
        raise InputError(faults_of(error, row.where, Record)) from None


def _whole(values: dict[str, Any], name: str) -> None:
    if isinstance(values.get(name), float) and values[name].is_integer():
        values[name] = int(values[name])
