"""``joulesim sensitivity``."""

from __future__ import annotations

from joulesim.cli import output
from joulesim.cli import scenario as scenario_arguments


def arguments(parser) -> None:
    """Options of the command."""
    parser.add_argument("scenario", help="shipped scenario, YAML file, or with --on a model")
    scenario_arguments.arguments(parser)
    output.arguments(parser)
    parser.add_argument("--plot", metavar="FILE", help="draw the tornado")


def run(options) -> int:
    """Print how far each number moves the energy per correct answer."""
    from joulesim import sensitivity

    scenario, _ = scenario_arguments.read(options.scenario, options)
    found = sensitivity.effects(scenario)
    if options.plot:
        from joulesim import plots

        plots.save(plots.tornado(found, scenario.name), options.plot)
    if options.output == "json":
        print(output.to_json([e._asdict() for e in found]))
        return 0
    raw = options.output == "csv"
    rows = [
        (
            e.name,
            e.group,
            e.elasticity if raw else f"{e.elasticity:+.3f}",
            e.spread if raw else "" if not e.spread else f"{abs(e.elasticity) * e.spread:.1%}",
            e.source,
        )
        for e in found
    ]
    print(
        output.table(
            rows, ("number", "of", "elasticity", "spread" if raw else "uncertainty it causes", "source"), options.output
        )
    )
    if not raw and found:
        print(f"\n{_advice(found)}")
    return 0


def _advice(found) -> str:
    uncertain = [e for e in found if e.spread]
    devices = [e for e in found if e.group == "hardware"]
    parts = []
    if uncertain:
        worst = max(uncertain, key=lambda e: abs(e.elasticity) * e.spread)
        parts.append(f"Measure {worst.name} next: it causes {abs(worst.elasticity) * worst.spread:.1%} of uncertainty.")
    if devices:
        best = max(devices, key=lambda e: abs(e.elasticity))
        more = "more" if best.elasticity < 0 else "less"
        parts.append(
            f"Of the device, {more} {best.name.removeprefix('hardware.')} helps most: 1 % of it changes the energy per "
            f"correct answer by {best.elasticity:+.2f} %."
        )
    return " ".join(parts)
