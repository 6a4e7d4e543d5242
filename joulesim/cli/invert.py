"""``joulesim invert``."""

from __future__ import annotations

from joulesim import units
from joulesim.cli import output
from joulesim.cli import scenario as scenario_arguments
from joulesim.errors import Fault, InputError


def arguments(parser) -> None:
    """Options of the command."""
    parser.add_argument("scenario", help="shipped scenario, YAML file, or with --on a model")
    scenario_arguments.arguments(parser)
    parser.add_argument("--throughput", required=True, help="measured output tokens of all devices, e.g. '12680 token/s'")
    parser.add_argument("--power", help="measured power of all devices, e.g. '6152 W'")
    output.arguments(parser)


def run(options) -> int:
    """Read a measurement backwards and print."""
    from joulesim.invert import invert

    scenario, assumed = scenario_arguments.read(options.scenario, options)
    readings = invert(scenario, _quantity("--throughput", options.throughput, "token/second"),
                      None if options.power is None else _quantity("--power", options.power, "watt"))
    if options.output == "json":
        print(output.to_json({"scenario": scenario.name, "readings": [r._asdict() for r in readings],
                              "assumptions": assumed}))
        return 0
    rows = [(r.name, "" if r.value is None else r.value if options.output == "csv" else f"{r.value:.4g}", r.unit,
             r.reason or r.meaning) for r in readings]
    print(output.table(rows, ("reading", "value", "unit", "meaning, or why there is none"), options.output))
    return 0


def _quantity(flag: str, text: str, unit: str) -> float:
    try:
        return units.parse(text, unit)
    except units.UnitError as fault:
        raise InputError(Fault(flag, fault.what)) from None
