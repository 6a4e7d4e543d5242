"""Predict tables of published measurements, and say how wrong the predictions are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from joulesim import capacity, catalogue, uncertainty
from joulesim.errors import Fault, InputError, did_you_mean
from joulesim.validate import evaluate, fit, holdout, points, tables
from joulesim.validate.points import Point

COLUMNS = ("row", "energy_j_per_token", "energy_low", "energy_high", "itl_ms", "throughput_tok_s", "power_w",
           "energy_j_per_correct", "reason")
"""Columns of a prediction of a table; an empty cell is refused, with the reason."""
_ROOM = 10.0
"""Batch over the largest that fits beyond which a row is said not to fit; engines ran up to five times our arithmetic."""


class Row(NamedTuple):
    """Prediction of one row; ``None`` where it is refused."""

    number: int
    point: Point | None
    energy: float | None = None
    low: float | None = None
    high: float | None = None
    itl: float | None = None
    throughput: float | None = None
    power: float | None = None
    energy_per_correct: float | None = None
    reason: str = ""

    def cells(self) -> tuple:
        """The row under :data:`COLUMNS`."""
        itl = None if self.itl is None else self.itl * 1e3
        return (self.number, self.energy, self.low, self.high, itl, self.throughput, self.power,
                self.energy_per_correct, self.reason)

    def plain(self) -> dict[str, Any]:
        """The row as plain data under :data:`COLUMNS`; ``None`` for an empty cell."""
        return {name: None if cell == "" else cell for name, cell in zip(COLUMNS, self.cells(), strict=True)}


def predict_file(path: Path, hardware: Mapping[str, str] | None = None, level: float = 0.8) -> list[Row]:
    """
    Predictions of every row of a table with the shipped constants, nothing refitted, nothing measured read.

    Parameters
    ----------
    path : Path
        CSV in the columns of the published tables.
    hardware : mapping, optional
        Device names of the table to profiles that are not shipped.
    level : float
        Probability of the interval of the energy.
    """
    table = tables.read(path, hardware)
    found = {number: Row(number, None, reason=str(fault)) for number, fault in table.faults.items()}
    for row in predict_points([p.blank() for p in table.points], level, table.notes):
        found[row.number] = row
    measured = {p.row: p for p in table.points}
    return [found[number]._replace(point=measured.get(number)) for number in sorted(found)]


def predict_points(given: Sequence[Point], level: float = 0.8, notes: Mapping[int, Fault] | None = None) -> list[Row]:
    """Predictions of points with the shipped constants; ``notes`` say by row why an accuracy is none."""
    rows: list[Row] = []
    usable: list[Point] = []
    for positions in evaluate.alike(given):  # what cannot be built lies in what such points share
        points_ = [given[position] for position in positions]
        try:
            evaluate.gather(points_[:1])
            usable += points_
        except InputError as error:
            rows += [Row(point.row, point, reason=str(error.faults[0])) for point in points_]
    for group in evaluate.gather(usable):
        predicted = evaluate.predict(group, uncertainty.spread_out(evaluate.known(group)))
        for position, (point, misfit) in enumerate(zip(group.points, _misfits(group), strict=True)):
            row = _row(point, *(values[position] for values in predicted), group, level)
            no_correct = _no_correct(row, (notes or {}).get(row.number))
            rows.append(row._replace(reason="; ".join(filter(None, (row.reason, no_correct, misfit)))))
    return sorted(rows, key=lambda row: row.number)


def _misfits(group) -> list[str]:
    """What a row asks of its devices beyond their memory, by our arithmetic; empty where it fits."""
    x = group.inputs
    parts = capacity.memory_parts(x)
    room = np.broadcast_to(capacity.largest_batch(x, parts), x.batch.shape)[:, 0]
    short = np.broadcast_to(parts["weights"] > parts["usable"], x.batch.shape)[:, 0]
    return [f"does not fit: weights of {float(np.max(parts['weights'])) / 1e9:.3g} GB a device" if weights else
            f"does not fit: {point.batch:.0f} sequences where {most:.0f} find room" if point.batch > _ROOM * most else ""
            for point, weights, most in zip(group.points, short, room, strict=True)]


def _row(point: Point, itl, throughput, power, energy, group, level: float) -> Row:
    if not np.isfinite(energy[0]):
        time = np.isfinite(throughput[0])
        return Row(point.row, point, itl=float(itl[0]) if time else None, throughput=float(throughput[0]) if time else None,
                   reason=_why_unknown(group, point))
    low, high = uncertainty.interval(float(energy[0]), uncertainty.log_spread(energy), level)
    correct = None
    if point.accuracy and point.phase != "prefill":
        correct = float(energy[0]) * point.output_tokens / point.accuracy
    return Row(point.row, point, float(energy[0]), float(low), float(high), float(itl[0]), float(throughput[0]),
               float(power[0]), correct)


def _no_correct(row: Row, note: Fault | None) -> str:
    """Why a row has no energy per correct answer; empty where it has, and where nothing is said of answers."""
    if note:
        return str(note)
    accuracy, asked = row.point.accuracy, row.point.accuracy_task or row.point.accuracy is not None
    if row.energy is None or row.energy_per_correct is not None or not asked:
        return ""
    what = ("a prefill gives no answer" if row.point.phase == "prefill" else
            "the row has no accuracy" if accuracy is None else "no answer is right")
    return f"energy per correct answer: {what}"


def _why_unknown(group, point: Point) -> str:
    hardware = group.scenario.hardware
    fields = {f for c in evaluate.known(group).values() for f in c.needs}
    fields |= {f for f in ("memory_bandwidth", "power_limit") if getattr(hardware, f) is None}
    boundary = group.points[0].boundary
    system = {"host": ("host_power",), "wall": ("host_power", "psu_efficiency")}.get(boundary, ())
    fields |= {f"system.{f}" for f in system if getattr(hardware.system, f) is None}
    if fields:
        return "; ".join(f"hardware.{f} is unknown ({hardware.why_unknown(f)})" for f in sorted(fields))
    rest, cap = evaluate.known(group)["static_power"].value, point.power_cap
    return f"a limit of {cap:g} W is below the {rest:.3g} W drawn at rest" if cap and cap <= rest else "not a number"


def errors(rows: Sequence[Row]) -> dict[str, Any]:
    """Errors of predictions against what the table measured, where it did; logarithms split energy into its factors."""
    found: dict[str, Any] = {"rows": len(rows), "predicted": sum(r.energy is not None for r in rows)}
    pairs = {"energy": ("energy", "energy_per_token"), "throughput": ("throughput", "output_throughput"),
             "power": ("power", "power"), "itl": ("itl", "itl")}
    for name, (ours, theirs) in pairs.items():
        both = [(getattr(r, ours), getattr(r.point, theirs)) for r in rows if r.point and getattr(r, ours) is not None]
        percent = np.array([100.0 * (p / m - 1.0) for p, m in both if m])
        found[name] = holdout.summary(percent)._asdict()
    inside = [r.low <= r.point.energy_per_token <= r.high for r in rows
              if r.point and r.energy is not None and r.point.energy_per_token]
    found["interval_coverage"] = float(np.mean(inside)) if inside else None
    found["interval_high_over_low"] = float(np.median([r.high / r.low for r in rows if r.energy])) if any(
        r.energy for r in rows) else None
    found["worst"] = [
        {"row": r.number, "model": r.point.model, "hardware": r.point.hardware, "batch": r.point.batch,
         "energy_error_percent": 100.0 * (r.energy / r.point.energy_per_token - 1.0),
         "log_time": _log(r.point.output_throughput, r.throughput), "log_power": _log(r.power, r.point.power)}
        for r in _worst(rows)
    ]
    found["refused"] = [{"row": r.number, "reason": r.reason} for r in rows if r.energy is None]
    return found


def _log(a, b) -> float | None:
    return float(np.log(a / b)) if a and b else None


def _worst(rows: Sequence[Row], count: int = 5) -> list[Row]:
    known = [r for r in rows if r.point and r.energy and r.point.energy_per_token]
    return sorted(known, key=lambda r: -abs(np.log(r.energy / r.point.energy_per_token)))[:count]


# --- shipped tables -------------------------------------------------------------------------------------


def shipped() -> list[str]:
    """Names of the tables that the project carries."""
    return sorted(p.stem for p in (catalogue.data_root() / "validation" / "published").glob("*.csv"))


def load(table: str) -> list[Point]:
    """Points of a shipped table."""
    if table not in shipped():
        raise InputError(Fault("--table", f"no table {table!r}", did_you_mean(table, shipped()) or ", ".join(shipped())))
    return points.read(catalogue.data_root() / "validation" / "published" / f"{table}.csv")


def rows_of(plan: fit.Plan) -> list[Point]:
    """Points of a plan's tables that ran on its runtime."""
    return [p for table in plan.tables for p in load(table) if p.runtime == plan.runtime]


class Report(NamedTuple):
    """Held-out errors of a runtime's fit."""

    plan: fit.Plan
    result: fit.FitResult
    errors: holdout.Errors
    excluded: dict[str, holdout.Errors]
    """Classes that a rule leaves out, predicted by the fit on the others."""


def report(plan: fit.Plan, by: str) -> Report:
    """Fit the tables of a plan with each model, each device or nothing left out."""
    used, excluded = holdout.split(rows_of(plan), plan)
    result = fit.fit(used, plan)
    found = holdout.leave_out(used, plan, by, result)
    return Report(plan, result, found, {rule: holdout.errors(result, left, "rule") for rule, left in excluded.items()})


class TableErrors(NamedTuple):
    """Held-out errors of a table, over the runtimes that it holds."""

    table: str
    seen: bool
    """Whether the fits had seen the same devices under the same runtime."""
    errors: holdout.Errors

    @property
    def median(self) -> float:
        """Median absolute error of the energy, of the power where a table has no energy. [%]"""
        energy = holdout.summary(self.errors.percent("energy"))
        return energy.median if energy.count else holdout.summary(self.errors.percent("power")).median


MANY_MODELS = 20
"""Models beyond which a fifth of them is left out at a time."""


def folds(points_: Sequence[Point]) -> int | None:
    """Fits that leave out every model once; ``None``: one a model."""
    return 5 if len({p.model for p in points_}) > MANY_MODELS else None


def by_table(runtimes: Sequence[str], by: str = "table") -> list[TableErrors]:
    """Every table of the runtimes' plans predicted by fits without it, or without the model of a row."""
    parts: dict[tuple[str, bool], list[holdout.Errors]] = {}
    for runtime in runtimes:
        plan = fit.plan(runtime)
        used, _ = holdout.split(rows_of(plan), plan)
        if by == "model" and len({p.model for p in used}) < 2:
            continue
        found = holdout.leave_out(used, plan, by, folds=folds(used) if by == "model" else None)
        tables_of = {p.hardware: {q.table for q in used if q.hardware == p.hardware} for p in used}
        keys = [(p.table, by == "model" or len(tables_of[p.hardware]) > 1) for p in used]
        for key in sorted(set(keys)):
            parts.setdefault(key, []).append(found.where([k == key for k in keys]))
    return [TableErrors(table, seen, holdout.joined(several)) for (table, seen), several in sorted(parts.items())]


def table_coverage(found: Sequence[TableErrors], level: float = 0.8) -> list[tuple[float, float]]:
    """
    Share of each table's energies inside an interval, and its high over low; ``nan`` where nothing gives a width.

    The width for a model comes from the table's other models where its devices were seen, and from the other tables
    where they were not.
    """
    unseen = [t.errors for t in found if not t.seen]
    return [holdout.coverage(t.errors, level, lambda p: p.model) if t.seen
            else holdout.coverage(holdout.joined(unseen), level, lambda p: p.table, only=t.table) for t in found]


def classes(points_: Sequence[Point]) -> dict[str, np.ndarray]:
    """Classes of points that are reported apart: all, by device, and by dense or mixture of experts."""
    devices = np.array([p.hardware for p in points_])
    experts = np.array([catalogue.load_model(p.model).experts is not None for p in points_])
    found = {"all": np.ones(len(points_), bool)}
    found |= {device: devices == device for device in sorted(set(devices))}
    return found | {"dense": ~experts, "mixture of experts": experts}
