"""Every intermediate of a prediction in flow order, with the formula that made it, and the waterfall of an answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from joulesim import calls, capacity, cost, inputs
from joulesim.constants import UNITS
from joulesim.prediction import QUANTITIES, Prediction


class Step(NamedTuple):
    """One intermediate."""

    stage: str
    name: str
    value: float | None
    unit: str
    formula: str


def steps(p: Prediction) -> list[Step]:
    """Intermediates of a prediction, first to last."""
    return [*_counts(p), *_memory(p), *_constants(p), *_phases(p), *_results(p)]


def _first(value) -> float | None:
    number = float(np.asarray(value).flat[0])
    return number if np.isfinite(number) else None


def _counts(p: Prediction) -> list[Step]:
    x, o, model = p.inputs, p.outcome, p.scenario.model
    rows = [
        ("parameters", model.parameters, "weight", "specs.model.ModelSpec.parameters"),
        ("active parameters", model.active_parameters, "weight", "specs.model.ModelSpec.active_parameters"),
        ("prompt tokens, mean", o.prompt_tokens, "token", "formulas.lengths"),
        ("cached prompt tokens, mean", inputs.mean(x.cached, x), "token", "workload.shared_prefix_tokens"),
        ("output tokens, mean", o.output_tokens, "token", "formulas.lengths"),
        ("decode steps of a request", o.steps, "", "output tokens - 1"),
        ("cache and state of one sequence", capacity.sequence_bytes(x, x.context), "byte", "formulas.kv_cache.resident_bytes"),
        ("weights read by a decode step", calls.layers(x, _values(p), x.batch).bytes + calls.head(x, _values(p), x.batch).bytes,
         "byte", "formulas.weights.weight_passes"),
    ]
    if model.experts:
        from joulesim.formulas.weights import distinct_experts

        touched = distinct_experts(x.batch, x.experts_routed, x.experts_per_token, _values(p)["expert_skew"])
        rows.append(("experts touched per layer by a decode step", touched, "", "formulas.weights.distinct_experts"))
    return [Step("counts", name, _first(value), unit, formula) for name, value, unit, formula in rows]


def _values(p: Prediction) -> dict[str, float]:
    return {name: c.value for name, c in p.constants.items()}


def _memory(p: Prediction) -> list[Step]:
    formulas = {"buffers": "formulas.memory.logits_bytes", "kv_cache": "formulas.kv_cache.resident_bytes"}
    rows = [Step("memory", name.replace("_", " "), value, "byte", formulas.get(name, "capacity.memory_parts"))
            for name, value in p.memory.items()]
    return [*rows, Step("memory", "headroom", p.headroom, "byte", "usable - weights - cache - buffers"),
            Step("memory", "largest batch", p.max_batch, "", "formulas.memory.largest_batch")]


def _constants(p: Prediction) -> list[Step]:
    return [Step("constants", name.replace("_", " "), _first(c.value), UNITS[name], f"{c.kind}: {c.ref}")
            for name, c in p.constants.items() if not name.endswith("_residual")]


def _phases(p: Prediction) -> list[Step]:
    rows = []
    for stage, phase in (("prefill", p.outcome.prefill), ("decode", p.outcome.decode)):
        work = phase.work
        rows += [
            (stage, "traffic", work.bytes, "byte", "calls.layers, calls.head, attending.look"),
            (stage, "arithmetic", work.flops + work.narrow_flops, "FLOP", "calls.layers, formulas.attention.flops"),
            (stage, "unpacking", work.instructions, "", "weights x instructions per weight"),
            *((stage, f"time of {name} alone", value, "second", f"cost.bounds[{name!r}]")
              for name, value in cost.bounds(p.inputs, _values(p), phase).items()),
            (stage, "device time", work.device_time, "second", "formulas.roofline.overlapped + launches + links"),
            (stage, "clock under the power limit", phase.clock, "", "formulas.power.clock_factor"),
            (stage, "time", phase.time, "second", "formulas.power.time_at"),
            *((stage, f"{name} energy", value, "joule", formula) for (name, value), formula in
              zip(phase.energy._asdict().items(), _ENERGY, strict=True)),
        ]
    per_round = f"a round of {p.batch} request{'s' if p.batch > 1 else ''}"
    return [Step(f"{stage} ({per_round})", name, _first(value), unit, formula) for stage, name, value, unit, formula in rows]


_ENERGY = (
    "static power x time", "clock-on power x time on the device", "energy per FLOP x arithmetic",
    "energy per instruction x instructions", "energy per byte x traffic", "energy per link byte x link traffic",
)


def _results(p: Prediction) -> list[Step]:
    formulas = {"energy_per_answer": "sum of components x attempts / batch", "power": "energy / time"}
    rows = [Step("answer", name.replace("_", " "), p.estimates[name].value, unit, formulas.get(name, "predict.quantities"))
            for name, unit in QUANTITIES.items()]
    correct = p.energy_per_correct_answer
    return [*rows, Step("answer", "accuracy", p.accuracy.value, "", "correct / attempted"),
            Step("answer", "energy per correct answer", correct.value, "joule/answer", "formulas.answer.energy_per_correct")]


def waterfall(p: Prediction) -> list[tuple[str, str, float]]:
    """Joules of one answer by phase and component; they sum to ``energy_per_answer``. Empty when it is unknown."""
    if p.energy_per_answer is None:
        return []
    from joulesim.predict import attempts_per_answer

    per_answer = attempts_per_answer(p.scenario.task) / p.inputs.batch
    bars = []
    for stage, phase in (("prefill", p.outcome.prefill), ("decode", p.outcome.decode)):
        for name, value in phase.energy._asdict().items():
            share = p.inputs.chip_share_of_memory_energy if (name, p.scenario.boundary) == ("memory", "chip") else 1.0
            bars.append((stage, name, _first(value) * per_answer * share))
    bars += [("around", name, value) for name, value in p.breakdown.items()
             if name in ("idle", "host", "psu_loss") and value]
    return bars
