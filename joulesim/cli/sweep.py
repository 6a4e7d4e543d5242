"""``joulesim sweep``."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from joulesim import units
from joulesim.cli import output, ranges
from joulesim.cli import scenario as scenario_arguments
from joulesim.errors import Fault, InputError

_COLUMNS = ("energy_per_correct_answer", "energy_per_answer", "ttft", "tpot", "output_throughput", "power", "max_batch")
_MOST_ROWS = 1_000_000
_ON_DISK = (".zarr", ".nc")
_IN_TEXT = (".csv", ".json")


def arguments(parser) -> None:
    """Options of the command."""
    over_arguments(parser)
    parser.add_argument("--minimise", metavar="QUANTITY", help="sort by it, best first; -QUANTITY for largest first")
    parser.add_argument("--subject-to", action="append", default=[], metavar="LIMIT", help="e.g. 'ttft <= 0.5 s'")
    parser.add_argument("--variables", metavar="A,B", help="predicted quantities to keep (default: all)")
    parser.add_argument("--intervals", action="store_true", help="work out the interval of every quantity too")
    parser.add_argument("--draws", default="0", metavar="N", help="draws of the model's constants, as a dimension")
    parser.add_argument("-o", "--output-style", dest="output", default="table", metavar="WHERE",
                        help="table, json, csv, md, or a file that ends in .zarr, .nc, .csv or .json (default: table)")
    parser.add_argument("--rows", default="20", metavar="N", help="rows of a table (default: 20)")
    parser.add_argument("--memory", default="1 GB", help="most memory of a process that writes to disk (default: 1 GB)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="Dask scheduler whose workers do the work, tcp://host:port")
    parser.add_argument("--plot", metavar="FILE",
                        help="draw a line, a heat map or a frontier, by the number of dimensions")


def over_arguments(parser) -> None:
    """A scenario and what is swept."""
    parser.add_argument("scenario", help="shipped scenario, YAML file, or with --on a model")
    scenario_arguments.arguments(parser)
    parser.add_argument("--over", action="append", default=[], metavar="FIELD=VALUES", help=ranges.HELP)
    parser.add_argument("--design", metavar="KIND:N", help="sobol:N or random:N points of the ranges instead of a grid")


def run(options) -> int:
    """Sweep, then print, write and draw."""
    kind, path = _destination(options.output)
    found = dataset(options, to=path if path and path.suffix in _ON_DISK else None)
    if options.plot:
        from joulesim import plots

        plots.save(plots.sweep(found, _quantity(options.minimise, found).lstrip("-")), options.plot)
    if path and path.suffix in _ON_DISK:
        sizes = " x ".join(f"{n:,} {name}" for name, n in found.sizes.items())
        print(f"{path}: {sizes}, {len(found.data_vars)} variables")
        return 0
    most = None if kind in ("csv", "json") else count(options.rows, "--rows")
    rows = chosen(found, options.minimise, options.subject_to, most)
    if path:
        with path.open("w", newline="") as handle:
            write(rows, kind, handle)
    elif kind in ("csv", "json"):
        write(rows, kind, sys.stdout)
    else:
        print(table(rows, _columns(rows, options), kind))
        hidden = found.reason.size - rows.reason.size
        if hidden > 0 and not options.subject_to:
            print(f"\n{hidden:,} more points; --rows shows them, -o FILE keeps them")
    return 0


def dataset(options, to=None):
    """The Dataset that the arguments ask for."""
    from joulesim.sweep import sweep

    over = ranges.over(options.over, options.design)
    scenario, _ = scenario_arguments.read(options.scenario, options)
    variables = getattr(options, "variables", None)
    return sweep(scenario, over, variables=[v.strip() for v in variables.split(",")] if variables else None,
                 intervals=getattr(options, "intervals", False),
                 draws=count(getattr(options, "draws", "0"), "--draws", 0),
                 to=to, memory=getattr(options, "memory", "1 GB"), client=getattr(options, "scheduler", None),
                 progress=sys.stderr.isatty(), text=True)


def count(text: str, flag: str, least: int = 1) -> int:
    """Whole number of an option."""
    if not text.isdigit() or int(text) < least:
        raise InputError(Fault(flag, f"expected a whole number of at least {least}, got {text!r}"))
    return int(text)


def chosen(found, minimise, subject_to, most: int | None):
    """Points to show: the best where something is minimised or limited, else the first."""
    from joulesim.sweep import views

    if minimise or subject_to:
        return views.best(found, _quantity(minimise, found), subject_to, most)
    flat = views.flat(found)
    if most is None and flat.sizes["point"] > _MOST_ROWS:
        raise InputError(Fault("-o", f"expected at most {_MOST_ROWS:,} points as text, got {flat.sizes['point']:,}",
                               "write them to a .zarr or .nc file"))
    return flat.isel(point=slice(most))


def table(rows, names: list[str], kind: str) -> str:
    """Points as a table: swept fields, then quantities with their units."""
    fields = [name for name in rows.coords if rows[name].dims == ("point",)]
    columns = [[_shown(value, rows[name].attrs.get("units", "")) for value in rows[name].values]
               for name in (*fields, *names)]
    return output.table(zip(*columns, strict=True), [*fields, *(name.replace("_", " ") for name in names)], kind)


def _shown(value, unit: str) -> str:
    if isinstance(value, str):
        return value
    if value != value:
        return ""
    long = {"B": "byte", "s": "second", "W": "watt", "J": "joule", "Hz": "hertz"}
    return units.show(float(value), "/".join(long.get(part, part) for part in unit.split("/")) if unit != "1" else "")


def _columns(rows, options) -> list[str]:
    wanted = [options.minimise.lstrip("-")] if options.minimise else []
    kept = [v.strip() for v in options.variables.split(",")] if options.variables else _COLUMNS
    names = [name for name in dict.fromkeys([*wanted, *kept]) if name in rows]
    names = [name for name in names if options.variables or np.isfinite(rows[name].values).any()]
    return [*names, *(["reason"] if (rows.reason.values != 0).any() else [])]


def _quantity(minimise: str | None, found) -> str:
    if minimise:
        return minimise
    known = [name for name in _COLUMNS if name in found and np.isfinite(found[name].values).any()]
    return known[0] if known else next(iter(found.data_vars))


def _destination(text: str) -> tuple[str, Path | None]:
    if text in output.FORMATS:
        return text, None
    path = Path(text)
    if path.suffix in (*_ON_DISK, *_IN_TEXT):
        return path.suffix[1:], path
    raise InputError(Fault("-o", f"expected {', '.join(output.FORMATS)} or a file that ends in "
                           f"{', '.join((*_ON_DISK, *_IN_TEXT))}, got {text!r}"))


def write(rows, kind: str, handle) -> None:
    """Points as CSV or JSON, numbers in canonical units."""
    fields = [name for name in rows.coords if rows[name].dims == ("point",)]
    names = [*fields, *rows.data_vars]
    columns = [rows[name].values.tolist() for name in names]
    if kind == "csv":
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(["" if v != v else v for v in row] for row in zip(*columns, strict=True))
        return
    print(output.to_json({
        "scenario": rows.attrs["scenario"], "joulesim_version": rows.attrs["joulesim_version"],
        "units": {name: rows[name].attrs["units"] for name in names if "units" in rows[name].attrs},
        "reasons": rows.reason.attrs["legend"],
        "points": [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)],
    }), file=handle)
