"""
Logs of ``nvidia-smi --query-gpu=... --format=csv -l 1``.

Columns are taken by name, since their number differs by driver (202 to 241 have been seen). Units stand in the
header (``power.draw [W]``) or in the cells (``39.32 W``). What stands in brackets is missing, never 0.

References
----------
``nvidia-smi --help-query-gpu``: "power.draw: on Ampere or newer devices, returns average power draw over 1 sec"
(GA100 excepted); captures in utkuozdemir/nvidia_gpu_exporter, ``internal/captures``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from joulesim.errors import Fault, InputError, did_you_mean
from joulesim.measure.importers.power_rows import Gathered
from joulesim.measure.importers.text import Row, csv_rows, is_missing, read_text
from joulesim.measure.power_log import PowerLog
from joulesim.measure.validity import Reason

_CHANNEL = ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "index", "serial")
"""Columns that tell GPUs apart, best first."""
_POWER = ("power.draw.instant", "power.draw", "power.draw.average")
"""Columns that hold a GPU's power, best first."""
_CELL = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*(mW|W|kW)?")
_WATTS = {"mW": 1e-3, "W": 1.0, "kW": 1e3}
_AMPERE_WITHOUT_GA100 = 8.6
"""First compute capability whose ``power.draw`` is an average."""


def read_nvidia_smi(
    path: str | os.PathLike, zone: str = "", gpus: int | None = None, columns: Sequence[str] = ()
) -> PowerLog:
    """
    Power of each GPU over time.

    Parameters
    ----------
    zone : str
        Zone of the machine that wrote the log; its stamps carry none.
    gpus : int, optional
        Number of GPUs that took part; another number in the log makes every energy of it invalid.
    columns : sequence of str
        Names of the columns where the log was written with ``noheader``.
    """
    file = str(path)
    header, rows, faults = csv_rows(read_text(path), file, columns)
    names = {_name(column): column for column in header}
    stamp = _column(names, ("timestamp",), file)
    fields = [field for field in _POWER if field in names]
    if not fields:
        hint = did_you_mean("power.draw", names) or "query power.draw.instant"
        raise InputError(Fault(file, "expected a column power.draw, there is none", hint))
    channel = next((names[name] for name in _CHANNEL if name in names), None)
    if channel is None:
        _one_gpu(rows, stamp)
    chosen = _chosen(rows, channel, {field: names[field] for field in fields})
    gathered = Gathered(file, zone, faults=faults)
    for row in rows:
        gpu = _gpu(row, channel)
        _sample(row, gathered, gpu, stamp, names[chosen[gpu]])
    used = set(chosen.values())
    old_average = "power.draw" in used and not _is_instant(rows, names.get("compute_cap"))
    return gathered.log(
        boundary="board",
        scope="GPU board with its memory",
        field=", ".join(sorted(used)),
        averaged="power.draw.average" in used or old_average,
        reasons=_reasons(rows, names, len(chosen), gpus),
    )


def _name(column: str) -> str:
    """Name of a column without its unit: ``power.draw [W]`` is ``power.draw``."""
    return re.sub(r"\s*\[.*\]$", "", column).strip().lower()


def _column(names: dict[str, str], wanted: Sequence[str], file: str) -> str:
    found = next((names[name] for name in wanted if name in names), None)
    if found is None:
        hint = "log with a header, or name the columns with columns=[...]"
        raise InputError(Fault(file, f"expected a column {wanted[0]}, there is none", hint))
    return found


def _gpu(row: Row, channel: str | None) -> str:
    return row.cells[channel] if channel else "0"


def _one_gpu(rows: list[Row], stamp: str) -> None:
    """Without a column that tells GPUs apart, one stamp must not come twice."""
    seen: dict[str, Row] = {}
    for row in rows:
        first = seen.setdefault(row.cells[stamp], row)
        if first is not row:
            what = f"the stamp of line {first.line} comes again and no column tells GPUs apart"
            raise InputError(Fault(row.where, what, "log the column uuid or index too"))


def _chosen(rows: list[Row], channel: str | None, columns: dict[str, str]) -> dict[str, str]:
    """Best field that has values, by GPU."""
    has: dict[str, set[str]] = {}
    for row in rows:
        fields = has.setdefault(_gpu(row, channel), set())
        fields.update(field for field, column in columns.items() if not is_missing(row.cells[column]))
    return {gpu: next((f for f in columns if f in fields), next(iter(columns))) for gpu, fields in has.items()}


def _sample(row: Row, gathered: Gathered, gpu: str, stamp: str, column: str) -> None:
    cell, where = row.cells[column], f"{row.where}: {_name(column)}"
    if is_missing(cell):
        gathered.absent(gpu, cell or "empty")
        return
    match = _CELL.fullmatch(cell)
    if match is None:
        gathered.faults.append(Fault(where, f"expected watts, got {cell!r}"))
        return
    in_header = re.search(r"\[(mW|W|kW)\]", column)
    unit = match[2] or (in_header[1] if in_header else "W")
    time = gathered.time(row.cells[stamp], f"{row.where}: timestamp")
    if time is not None:
        gathered.add(gpu, time, float(match[1]) * _WATTS[unit], where)


def _reasons(rows: list[Row], names: dict[str, str], found: int, gpus: int | None) -> list[Reason]:
    reasons = []
    if gpus is not None and found != gpus:
        reasons.append(Reason(code="device-count", detail=f"{found} GPUs are logged, {gpus} took part"))
    mig = names.get("mig.mode.current")
    if mig and any(row.cells[mig] == "Enabled" for row in rows):
        reasons.append(Reason(code="mig-whole-gpu"))
    return reasons


def _is_instant(rows: list[Row], column: str | None) -> bool:
    """Whether ``power.draw`` is instantaneous as far as the log tells: older than Ampere, or GA100."""
    capabilities = [row.cells[column] for row in rows] if column else []
    known = [float(text) for text in capabilities if re.fullmatch(r"\d+\.\d+", text)]
    return bool(known) and len(known) == len(rows) and max(known) < _AMPERE_WITHOUT_GA100
