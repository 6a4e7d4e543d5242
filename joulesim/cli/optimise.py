"""``joulesim optimise``."""

from __future__ import annotations

from joulesim import units
from joulesim.cli import output, ranges
from joulesim.cli import scenario as scenario_arguments
from joulesim.errors import Fault, InputError
from joulesim.scenario import SHORTCUTS


def arguments(parser) -> None:
    """Options of the command."""
    parser.add_argument("scenario", help="shipped scenario, YAML file, or with --on a model")
    scenario_arguments.arguments(parser)
    parser.add_argument("--over", action="append", default=[], metavar="FIELD=VALUES",
                        help="choices FIELD=a,b,c or a range FIELD=low:high, each with its unit")
    parser.add_argument("--minimise", default="energy_per_correct_answer", metavar="QUANTITY",
                        help="what to make small; -QUANTITY is made large (default: %(default)s)")
    parser.add_argument("--subject-to", action="append", default=[], metavar="LIMIT", help="e.g. 'ttft <= 0.5 s'")
    output.arguments(parser)


def run(options) -> int:
    """Find the best deployment and print it."""
    from joulesim.optimise import optimise, shown

    scenario, _ = scenario_arguments.read(options.scenario, options)
    found = optimise(scenario, _over(options.over), options.minimise, options.subject_to)
    name = options.minimise.lstrip("-")
    if options.output == "json":
        print(output.to_json({
            "minimised": found.minimised, "best": found.best._asdict(), "distance": found.distance,
            "runner_up": found.runner_up._asdict() if found.runner_up else None, "binding": found.binding,
            "evaluated": found.evaluated, "prediction": found.prediction.to_dict(),
        }))
        return 0
    other = found.runner_up
    rows = [(field, _shown(field, value), _shown(field, other.fields[field]) if other else "")
            for field, value in found.best.fields.items()]
    currency = found.prediction.money.currency
    rows.append((name.replace("_", " "), shown(name, found.best.value, currency),
                 shown(name, other.value, currency) if other else ""))
    print(output.table(rows, ("", "best", "runner-up"), options.output))
    if options.output != "csv":
        print(f"\nRunner-up: {f'{found.distance:.2%} behind' if other else 'none'}. "
              f"Binding: {'; '.join(found.binding) or 'nothing'}. {found.evaluated:,} points predicted.")
    return 0


def _over(texts: list[str]) -> dict:
    found = {}
    for text in texts:
        field, equals, values = text.partition("=")
        if not equals:
            raise InputError(Fault("--over", f"expected FIELD=VALUES, got {text!r}"))
        found[field.strip()] = ranges.span(field.strip(), values)
    if not found:
        raise InputError(Fault("--over", "expected a field to choose, got none", "e.g. --over serving.batch=1:64"))
    return found


def _shown(field: str, value) -> str:
    from joulesim.sweep import axes

    unit = axes.unit(SHORTCUTS.get(field, field))
    return str(value) if unit is None or isinstance(value, str) else units.show(value, unit, 6)
