"""Power over time from any CSV: a wall meter's export, a plug's history, tegrastats."""

from __future__ import annotations

import os
import re

from joulesim.errors import Fault, InputError, did_you_mean
from joulesim.measure.importers.power_rows import Gathered
from joulesim.measure.importers.text import csv_rows, is_missing, read_text
from joulesim.measure.meters.jetson import INPUTS, parse_tegrastats
from joulesim.measure.power_log import PowerLog
from joulesim.measure.reading import MeterBoundary
from joulesim.units import UnitError, parse

_TEGRASTATS = re.compile(r"(\d\d-\d\d-\d{4} \d\d:\d\d:\d\d) (.*)")


def read_wall_csv(
    path: str | os.PathLike,
    time: str,
    power: str,
    unit: str = "",
    zone: str = "",
    clock_offset: float = 0.0,
    boundary: MeterBoundary = "wall",
) -> PowerLog:
    """
    Power from two columns of a CSV.

    Parameters
    ----------
    time, power : str
        Names of the columns.
    unit : str
        Unit of the power, where neither the header (``power [W]``) nor the cells (``87.2 W``) say it.
    zone : str
        Zone of the stamps, where they have none.
    clock_offset : float
        How far the meter's clock is ahead of the machine's; it is taken off the stamps. [s]

    Examples
    --------
    >>> log = read_wall_csv("plug.csv", time="Time", power="Power [W]", zone="+02:00")    # doctest: +SKIP
    """
    file = str(path)
    header, rows, faults = csv_rows(read_text(path), file)
    for column in (time, power):
        if column not in header:
            known = did_you_mean(column, header) or f"there is {', '.join(header)}"
            raise InputError(Fault(file, f"expected a column {column!r}, there is none", known))
    in_header = re.search(r"[\[(]([^\])]+)[\])]\s*$", power)
    unit = unit or (in_header[1] if in_header else "")
    gathered = Gathered(file, zone, faults=faults)
    for row in rows:
        cell, where = row.cells[power], f"{row.where}: {power}"
        if is_missing(cell):
            gathered.absent(power, cell or "empty")
            continue
        try:
            watts = parse(f"{cell} {unit}" if unit and re.fullmatch(r"[-+.\deE]+", cell) else cell, "watt")
        except UnitError as error:
            remedy = "give unit='W'" if re.fullmatch(r"[-+.\deE]+", cell) else error.remedy
            gathered.faults.append(Fault(where, error.what, remedy))
            continue
        at = gathered.time(row.cells[time], f"{row.where}: {time}")
        if at is not None:
            gathered.add(power, at, watts, where)
    log = gathered.log(boundary=boundary, scope="all behind the meter", field=power)
    return log.shifted(-clock_offset) if clock_offset else log


def read_tegrastats(path: str | os.PathLike, zone: str = "") -> PowerLog:
    """Power of a Jetson module from a log of ``tegrastats`` with time stamps, by its input rail."""
    file = str(path)
    gathered = Gathered(file, zone)
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        where, stamped = f"{file}:{number}", _TEGRASTATS.fullmatch(line.strip())
        rails = parse_tegrastats(line)
        rail = next((name for name in INPUTS if name in rails), None)
        if stamped is None or rail is None:
            what = "a time stamp" if stamped is None else f"a rail {' or '.join(INPUTS)}"
            gathered.faults.append(Fault(where, f"expected {what}, got {line[:40]!r}"))
            continue
        at = gathered.time(stamped[1], where)
        if at is not None:
            gathered.add(rail, at, rails[rail], where)
    return gathered.log(boundary="board", scope="input of the module", field="tegrastats")
