"""``joulesim compare``."""

from __future__ import annotations

from joulesim import units
from joulesim.cli import output
from joulesim.cli import scenario as scenario_arguments
from joulesim.errors import Fault, InputError


def arguments(parser) -> None:
    """Options of the command."""
    parser.add_argument("scenarios", nargs="+", help="shipped scenarios or YAML files; the first is the reference")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", dest="changes",
                        help="change a dotted field in every scenario")
    output.arguments(parser)


def run(options) -> int:
    """Predict each scenario and print them against the first."""
    from joulesim.compare import compare
    from joulesim.predict import predict
    from joulesim.scenario import load_scenario

    if len(options.scenarios) < 2:
        raise InputError(Fault("joulesim compare", f"expected two scenarios or more, got {len(options.scenarios)}"))
    found = compare([predict(scenario_arguments.apply(load_scenario(name), options.changes)) for name in options.scenarios])
    if options.output == "json":
        print(output.to_json([_plain(c) for c in found]))
        return 0
    headers = ("scenario", "fits", "batch", "tokens/s", "power", "per output token", "per answer", "per correct answer",
               "ratio", "interval of the ratio")
    print(output.table([_row(c, options.output) for c in found], headers, options.output))
    if options.output != "csv":
        print("\n" + "\n".join(_verdict(c, found[0]) for c in found[1:]))
    return 0


def _plain(c) -> dict:
    return c.prediction.to_dict() | {
        "ratio": {"value": c.ratio.value, "low": c.ratio.low, "high": c.ratio.high, "level": c.ratio.level, "per": c.per},
        "ratio_reason": c.ratio.reason, "factors": c.factors,
    }


def _row(c, style: str) -> tuple:
    p, raw = c.prediction, style == "csv"

    def show(value, unit):
        return value if raw else units.show(value, unit)

    interval = "" if c.ratio.value is None else f"{c.ratio.low:.3g} to {c.ratio.high:.3g}"
    return (p.scenario.name, {True: "yes", False: "no", None: "unknown"}[p.feasible], p.batch,
            show(p.output_throughput, "token/second"), show(p.power, "watt"),
            show(p.energy_per_output_token, "joule/token"), show(p.energy_per_answer, "joule/answer"),
            show(p.energy_per_correct_answer.value, "joule/answer"),
            "" if c.ratio.value is None else f"{c.ratio.value:.3g}", interval)


def _verdict(c, first) -> str:
    name, reference = c.prediction.scenario.name, first.prediction.scenario.name
    if c.ratio.value is None:
        return f"{name} against {reference}: {c.ratio.reason}"
    cheaper, dearer, ratio = (name, reference, 1 / c.ratio.value) if c.ratio.value < 1 else (reference, name, c.ratio.value)
    sure = "" if c.ratio.low > 1 or c.ratio.high < 1 else f", but the {c.ratio.level:.0%} interval of the ratio includes 1"
    made_of = ", ".join(f"{factor} x{value:.3g}" for factor, value in c.factors.items())
    return f"{cheaper} is cheaper than {dearer} per {c.per} by a factor of {ratio:.3g}{sure}. Ratio to {reference}: {made_of}."
