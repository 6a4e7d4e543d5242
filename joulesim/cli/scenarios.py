"""``joulesim scenarios``."""

from __future__ import annotations

from joulesim import catalogue
from joulesim.cli import listing
from joulesim.scenario import load_scenario


def arguments(parser) -> None:
    """Options of the command."""
    listing.arguments(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--models", action="store_true", help="list the shipped models")
    which.add_argument("--runtimes", action="store_true", help="list the shipped runtimes")


def run(options) -> int:
    """List scenarios, models or runtimes, or show one scenario as declared."""
    if options.models or options.runtimes:
        kind = "model" if options.models else "runtime"
        rows = [{"name": name, "title": _title(kind, name)} for name in catalogue.names(kind)]
        listing.show_all(rows, options.output)
    elif options.name:
        scenario = load_scenario(options.name)
        listing.show_one(scenario.document, options.output, lambda _, value: str(value))
    else:
        rows = []
        for name in catalogue.names("scenario"):
            s = catalogue.read_yaml(catalogue.folder("scenario") / f"{name}.yaml")
            rows.append({"name": name, "title": s.get("title", ""), "hardware": s["hardware"], "model": s["model"],
                         "runtime": s["runtime"]})
        listing.show_all(rows, options.output)
    return 0


def _title(kind: str, name: str) -> str:
    return catalogue.read_yaml(catalogue.folder(kind) / f"{name}.yaml").get("title", "")
