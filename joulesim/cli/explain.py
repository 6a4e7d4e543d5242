"""``joulesim explain``."""

from __future__ import annotations

from joulesim import units
from joulesim.cli import output
from joulesim.cli import scenario as scenario_arguments


def arguments(parser) -> None:
    """Options of the command."""
    parser.add_argument("scenario", help="shipped scenario, YAML file, or with --on a model")
    scenario_arguments.arguments(parser)
    output.arguments(parser)
    parser.add_argument("--plot", metavar="FILE", help="draw the waterfall of an answer and the scenario's roofline")


def run(options) -> int:
    """Print every intermediate, then the waterfall."""
    from joulesim import explain
    from joulesim.predict import predict

    scenario, _ = scenario_arguments.read(options.scenario, options)
    prediction = predict(scenario)
    if options.plot:
        from joulesim import plots

        plots.save(plots.prediction(prediction), options.plot)
    steps, bars = explain.steps(prediction), explain.waterfall(prediction)
    if options.output == "json":
        print(output.to_json({
            "scenario": scenario.name,
            "steps": [step._asdict() for step in steps],
            "waterfall": [{"phase": phase, "component": name, "joules": value} for phase, name, value in bars],
        }))
    elif options.output == "csv":
        print(output.table(steps, ("stage", "name", "value", "unit", "formula"), "csv"))
    else:
        rows = [(s.stage, s.name, units.show(s.value, s.unit), s.formula) for s in steps]
        print(output.table(rows, ("stage", "name", "value", "made by"), options.output))
        print("\n" + _waterfall(prediction, bars, options.output))
    return 0


def _waterfall(prediction, bars, style: str) -> str:
    if not bars:
        return f"Energy is unknown: {prediction.estimates['energy_per_answer'].reason}"
    total = sum(value for *_, value in bars)
    rows, running = [], 0.0
    for phase, name, value in bars:
        running += value
        rows.append((phase, name.replace("_", " "), units.show(value, "joule"), f"{value / total:.1%}",
                     units.show(running, "joule")))
    heading = f"One answer at the {prediction.scenario.boundary} boundary: {units.show(total, 'joule')}"
    return heading + "\n\n" + output.table(rows, ("phase", "component", "energy", "share", "so far"), style)
