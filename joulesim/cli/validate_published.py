"""``joulesim validate published``."""

from __future__ import annotations

from pathlib import Path

from joulesim.cli import output
from joulesim.errors import Fault, InputError


def arguments(parser) -> None:
    """Options of the command."""
    parser.add_argument("file", nargs="?", help="a table of your own, in the columns of the published ones: predict every row")
    parser.add_argument("--holdout", choices=("model", "hardware", "table", "none"), default=None,
                        help="what is left out of the fit that predicts it (default: model)")
    parser.add_argument("--runtime", default=None, help="runtime whose constants are fitted, or all: errors by table "
                        "(default: vllm; with --holdout table: all but vllm, whose table stands alone)")
    parser.add_argument("--table", default=None, help="a shipped table: predict it with the shipped constants")
    parser.add_argument("--hardware-file", action="append", default=[], metavar="NAME=PROFILE",
                        help="profile of a device that the table names and that is not shipped")
    parser.add_argument("--plot", metavar="FILE", help="parity and residual plots of the held-out errors")
    parser.add_argument("--ship", action="store_true", help="refit and rewrite the shipped constants of the runtime")
    output.arguments(parser)


def run(options) -> int:
    """Predict a table, or fit with something left out and print the errors."""
    from joulesim.validate import published

    if options.plot and (options.file or options.table or options.holdout == "table" or options.runtime == "all"):
        raise InputError(Fault("--plot", "expected --holdout of one runtime, whose errors it shows"))
    if options.file and options.table:
        raise InputError(Fault("--table", f"expected a file or a shipped table, got {options.file} and {options.table}"))
    _alone(options)
    if options.file:
        rows = published.predict_file(Path(options.file), _profiles(options.hardware_file))
        return _print_rows(rows, options.output)
    if options.table:
        rows = published.predict_points([p.blank() for p in published.load(options.table)])
        measured = {p.row: p for p in published.load(options.table)}
        return _print_rows([row._replace(point=measured[row.number]) for row in rows], options.output)
    options.holdout = options.holdout or "model"
    return _tables(options) if options.holdout == "table" or options.runtime == "all" else _held_out(options)


def _alone(options) -> None:
    """Refuse options of a fit beside a table, which is predicted without one, and profiles without a file that names them."""
    table = options.file or options.table
    faults = [Fault(f"--{name}", f"expected no table beside it, got {table}",
                    "a table is predicted with the shipped constants, nothing is fitted")
              for name in ("holdout", "runtime", "ship") if table and getattr(options, name)]
    if options.hardware_file and not options.file:
        faults.append(Fault("--hardware-file", "expected a table of your own, whose devices it describes, got none",
                            "give its file"))
    if faults:
        raise InputError(faults)


def _profiles(given: list[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, profile = text.partition("=")
        if not equals:
            name, profile = Path(text).stem, text
        if not Path(profile).is_file():
            raise InputError(Fault("--hardware-file", f"expected NAME=PROFILE with a profile file, got {text!r}"))
        found[name] = profile
    return found


def _print_rows(rows, style: str) -> int:
    from joulesim.validate import published

    if style == "json":
        print(output.to_json(published.errors(rows) | {"predictions": [row.plain() for row in rows]}))
    elif style == "csv":
        print(output.table([row.cells() for row in rows], published.COLUMNS, "csv"))
    else:
        print(output.table([_rounded(row.cells()) for row in rows], published.COLUMNS, style))
        print("\n" + _sentence(published.errors(rows)))
    return 0 if any(row.energy is not None or row.throughput is not None for row in rows) else 2


def _rounded(cells: tuple) -> list:
    return [f"{cell:.4g}" if isinstance(cell, float) else cell for cell in cells]


def _sentence(found: dict) -> str:
    parts = [f"{found['predicted']} of {found['rows']} rows predicted"]
    for name in ("energy", "throughput", "power"):
        if found[name]["count"]:
            parts.append(f"{name} off by {found[name]['median']:.1f} % in the median, {found[name]['p90']:.1f} % at the "
                         f"90th percentile ({found[name]['count']} rows)")
    if found["interval_coverage"] is not None:
        parts.append(f"80 % intervals hold {found['interval_coverage']:.0%}")
    return "; ".join(parts) + "."


def _held_out(options) -> int:
    from joulesim.validate import fit, published

    plan = fit.plan(options.runtime or "vllm")
    if options.ship:
        return _ship(plan)
    report = published.report(plan, options.holdout)
    rows = [(name, quantity, *_cells(found)) for name, quantity, found in _summaries(report)]
    if options.output == "json":
        print(output.to_json(_plain(report, options.holdout)))
    else:
        headers = ("points", "quantity", "median error", "90th percentile", "bias", "count")
        what = {"model": "each model predicted by a fit that has not seen it",
                "hardware": "each device predicted by a fit on the other, from its datasheet",
                "table": "each table predicted by a fit on the others",
                "none": "in-sample: the fit has seen every point, this is no validation"}[options.holdout]
        if options.output != "csv":
            print(f"{', '.join(plan.tables)}: {what}\n")
        print(output.table(rows, headers, options.output))
        if options.output != "csv":
            print("\n" + "\n".join(_notes(report, options.holdout)))
    if options.plot:
        from joulesim import plots

        plots.save(plots.parity(report.errors), options.plot)
    return 0


def _summaries(report):
    from joulesim.validate import holdout, published

    for name, keep in published.classes(report.errors.points).items():
        part = report.errors.where(keep)
        for quantity in holdout.QUANTITIES:
            yield name, quantity, holdout.summary(part.percent(quantity))
    for rule, part in report.excluded.items():
        for quantity in holdout.QUANTITIES:
            yield f"left out: {rule}", quantity, holdout.summary(part.percent(quantity))


def _tables(options) -> int:
    """Print the errors of every table, with models or whole tables left out, and their medians."""
    import numpy as np

    from joulesim.validate import fit, holdout, published

    by = options.holdout
    if by not in _LEFT_OUT:
        raise InputError(Fault("--runtime", f"expected one runtime with --holdout {by}, got all",
                               "errors by table need --holdout model or --holdout table"))
    if options.ship:
        raise InputError(Fault("--ship", "expected --runtime with one runtime, got all of them"))
    every = [r for r in fit.fitted_runtimes() if by == "model" or r != "vllm"]
    runtimes = [options.runtime] if options.runtime not in (None, "all") else every
    found = published.by_table(runtimes, by)
    covered = published.table_coverage(found)
    names = [(t.table, _SEEN[t.seen]) for t in found]
    rows = [(*name, quantity, holdout.summary(t.errors.percent(quantity)), cover if quantity == "energy" else (np.nan, np.nan))
            for name, t, cover in zip(names, found, covered, strict=True) for quantity in holdout.QUANTITIES]
    middle = {what: float(np.median(medians)) for what in _SEEN.values()
              if (medians := [t.median for t in found if _SEEN[t.seen] == what])}
    worst = [(t.table, _SEEN[t.seen], t.median) for t in sorted(found, key=lambda t: -t.median)[:3]]
    if options.output == "json":
        print(output.to_json({
            "holdout": by, "is_validation": True, "runtimes": runtimes, "median_over_tables": middle,
            "errors": [{"table": t, "hardware": h, "quantity": q, **s._asdict(), "covered": c, "high_over_low": r}
                       for t, h, q, s, (c, r) in rows],
            "worst": [dict(zip(("table", "hardware", "median"), w, strict=True)) for w in worst]}))
        return 0
    if options.output != "csv":
        print(_LEFT_OUT[by] + "\n")
    headers = ("table", "hardware", "quantity", "median error", "90th percentile", "bias", "count", "80 % intervals hold",
               "high over low")
    cells = [(*row[:3], *_cells(row[3]), *(("", "") if np.isnan(row[4][0]) else (f"{row[4][0]:.0%}", f"{row[4][1]:.2f}")))
             for row in rows if row[3].count]
    print(output.table(cells, headers, options.output))
    if options.output != "csv":
        lines = [f"median over tables, hardware {what}: {value:.1f} %" for what, value in middle.items()]
        print("\n" + "\n".join(lines + [f"worst: {t}, hardware {h}: {m:.0f} %" for t, h, m in worst]))
    return 0


_SEEN = {True: "seen", False: "never seen"}
_LEFT_OUT = {
    "table": "each table predicted by fits of its runtimes on the other tables; never seen: from the datasheet and the "
    "shared prior",
    "model": "each model predicted by fits of its runtimes that have not seen it; its devices they have seen",
}


def _cells(s) -> tuple:
    if not s.count:
        return "", "", "", 0
    return f"{s.median:.1f} %", f"{s.p90:.1f} %", f"{s.bias:+.1f} %", s.count


def _notes(report, by: str) -> list[str]:
    import numpy as np

    from joulesim.validate import holdout, published

    lines = []
    if by != "none":
        for name, keep in published.classes(report.errors.points).items():
            low, high, series = holdout.median_range(report.errors.where(keep))
            lines.append(f"energy, {name}: median error {low:.1f} to {high:.1f} % in nine of ten draws of its {series} series")
        for level in (0.5, 0.8, 0.95):
            share, ratio = holdout.coverage(report.errors, level, lambda p: p.model)
            lines.append(f"{level:.0%} intervals of energy hold {share:.0%} of held-out points; high over low {ratio:.2f}")
    worst = np.argsort(-np.abs(report.errors.logs["energy"]))[:5]
    for i in worst:
        p = report.errors.points[i]
        off = (f"{name} {100 * np.expm1(log):+.0f} %" for name, log in (
            (name, report.errors.logs[name][i]) for name in ("energy", "time")) if np.isfinite(log))
        lines.append(f"worst: {p.model} on {p.devices} x {p.hardware}, {p.task}, batch {p.batch:.0f}: {', '.join(off)}")
    lines += [f"left out by rule, {rule}: {len(part.points)} rows ({report.plan.rules[rule]}); predicted by a fit on all others"
              for rule, part in report.excluded.items()]
    return lines + [f"fit: {note}" for note in report.result.notes()]


def _plain(report, by: str) -> dict:
    from joulesim.validate import holdout, published

    coverage = {} if by == "none" else {
        str(level): dict(zip(("covered", "high_over_low"), holdout.coverage(report.errors, level, lambda p: p.model),
                             strict=True)) for level in (0.5, 0.8, 0.95)}
    ranges = {} if by == "none" else {
        name: dict(zip(("low", "high", "series"), holdout.median_range(report.errors.where(keep)), strict=True))
        for name, keep in published.classes(report.errors.points).items()}
    return {
        "tables": report.plan.tables, "holdout": by, "is_validation": by != "none",
        "errors": [{"points": name, "quantity": quantity, **s._asdict()} for name, quantity, s in _summaries(report)],
        "coverage": coverage, "median_error_of_energy_90": ranges,
        "records": report.result.records_hash, "notes": report.result.notes(),
        "constants": [{"name": p.label, "value": float(v), "stderr_of_log": float(e), "prior": p.value}
                      for p, v, e in zip(report.plan.parameters, _exp(report.result.shared), report.result.errors(),
                                         strict=False)],
    }


def _exp(logs):
    import numpy as np

    return np.exp(logs)


def _ship(plan) -> int:
    from joulesim import catalogue
    from joulesim.validate import fit, holdout, published, ship

    used, _ = holdout.split(published.rows_of(plan), plan)
    result = fit.fit(used, plan)
    seen = holdout.leave_out(used, plan, "model", result, folds=published.folds(used))
    unseen = holdout.leave_out(used, plan, "hardware", result) if len(result.devices) > 1 else None
    overall = holdout.scatter(seen)
    scatters = {device: holdout.scatter(seen.where([p.hardware == device for p in used]), like=overall)
                for device in result.devices}
    path = catalogue.data_root() / "validation" / "constants" / f"{plan.runtime}.yaml"
    unseen_scatter = holdout.scatter(unseen) if unseen else None
    ship.write(ship.document(result, scatters, unseen_scatter, plan.source), path)
    print(f"{path}: {len(used)} points, records {result.records_hash}")
    return 0
