"""``joulesim predict``."""

from __future__ import annotations

from joulesim import units
from joulesim.cli import output
from joulesim.cli import scenario as scenario_arguments
from joulesim.errors import Fault, InputError
from joulesim.prediction import QUANTITIES, Prediction

_ROWS = ("ttft", "tpot", "e2e_latency", "output_throughput", "power", "energy_per_output_token", "energy_per_answer")


def arguments(parser) -> None:
    """Options of the command."""
    parser.add_argument("scenario", help="shipped scenario, YAML file, or with --on a model")
    scenario_arguments.arguments(parser)
    output.arguments(parser)
    parser.add_argument("--level", default="0.8", help="probability that the intervals claim (default: 0.8)")
    parser.add_argument("--require-feasible", action="store_true", help="exit with 1 when the deployment does not fit")
    parser.add_argument("--plot", metavar="FILE", help="draw the waterfall of an answer and the scenario's roofline")


def run(options) -> int:
    """Predict and print."""
    from joulesim.predict import predict

    scenario, assumed = scenario_arguments.read(options.scenario, options)
    prediction = predict(scenario, level(options.level))
    prediction.assumptions[:0] = assumed
    if options.plot:
        from joulesim import plots

        plots.save(plots.prediction(prediction), options.plot)
    if options.output == "json":
        print(output.to_json(prediction.to_dict()))
    elif options.output == "csv":
        print(output.table(_rows(prediction, raw=True), ("quantity", "value", "low", "high", "unit", "note"), "csv"))
    else:
        print(_report(prediction, options.output))
    return 1 if options.require_feasible and prediction.feasible is not True else 0


def level(text: str) -> float:
    """Probability of an interval from text."""
    try:
        return units.parse(text, "")
    except units.UnitError as fault:
        raise InputError(Fault("--level", fault.what)) from None


def _report(p: Prediction, style: str) -> str:
    s = p.scenario
    weights = s.weights.name if s.weights else "checkpoint formats"
    heading = f"{s.name}: {s.model.name} ({weights}) on {s.hardware.name}" + (f" [{s.power_mode}]" if s.power_mode else "")
    lines = [
        f"{heading}, {s.runtime.name}, batch {p.batch}",
        p.reason + (f"; headroom {p.headroom / 2**20:,.0f} MiB" if p.headroom is not None else "")
        + (f"; largest batch {p.max_batch}" if p.max_batch is not None and p.feasible else ""),
    ]
    if p.feasible is False:
        sizes = p.memory | {"headroom": p.headroom}
        parts = [(name.replace("_", " "), units.show(size, "byte")) for name, size in sizes.items()]
        lines += ["", output.table(parts, ("memory", "size"), style)]
    else:
        lines += ["", output.table(_rows(p), ("quantity", "value", f"{p.level:.0%} interval", "note"), style)]
    shares = [(name, value) for name, value in p.breakdown.items() if value]
    if p.energy_per_answer:
        lines += ["", f"Energy per answer at the {s.boundary} boundary: " + ", ".join(
            f"{name.replace('_', ' ')} {value / p.energy_per_answer:.0%}" for name, value in shares)
            + f". Prefill is bound by {p.bound_by['prefill']}, decode by {p.bound_by['decode']}."]
    if p.money.notes and (p.money.cost_per_answer is not None or p.money.operational_per_answer is not None):
        lines += ["", "Cost and carbon: " + "; ".join(p.money.notes) + "."]
    lines += ["", "Rests on:", *(f"- {line}" for line in p.rests_on())]
    return "\n".join(lines)


def _rows(p: Prediction, raw: bool = False) -> list[tuple]:
    rows = []

    def add(name, value, low, high, unit, note=""):
        if raw:
            rows.append((name, value, low, high, units.symbol(unit), note))
            return
        span = "" if low is None and high is None else (
            f"{units.show(low, unit)} to {units.show(high, unit)}" if low is not None and high is not None
            else f"above {units.show(low, unit)}")
        rows.append((name.replace("_", " "), units.show(value, unit), "" if low == high else span, note))

    for name in _ROWS:
        e = p.estimates[name]
        note = f"{s.boundary} boundary" if (s := p.scenario) and name in ("power", "energy_per_answer") else ""
        add(name, e.value, e.low, e.high, QUANTITIES[name], e.reason or note)
    correct = p.energy_per_correct_answer
    task = p.scenario.task
    counts = f"{task.correct} of {task.attempted} correct" if task.correct is not None else ""
    add("energy_per_correct_answer", correct.value, correct.low, correct.high, "joule/answer", correct.reason or counts)
    if p.accuracy.value is not None:
        add("accuracy", p.accuracy.value, p.accuracy.low, p.accuracy.high, "")
    if p.scenario.serving.utilisation < 1:
        add("idle_energy_per_answer", p.idle_energy_per_answer, None, None, "joule/answer",
            f"busy {p.scenario.serving.utilisation:.0%} of the time")
    above = p.estimates["energy_above_idle_per_answer"]
    if above.value is not None:
        add("energy_above_idle_per_answer", above.value, above.low, above.high, "joule/answer")
    m = p.money
    for name, value, unit in (
        ("cost_per_correct_answer", m.cost_per_correct_answer, f"{m.currency}/answer"),
        ("operational_carbon_per_correct_answer", m.operational_per_correct_answer, "gCO2e/answer"),
        ("embodied_carbon_per_correct_answer", m.embodied_per_correct_answer, "gCO2e/answer"),
    ):
        if value is not None:
            add(name, value, None, None, unit)
    return rows
