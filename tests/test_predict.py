"""A prediction: what is known, what is not and why, and where an answer's joules end up."""

import json
import math

import numpy as np
import pytest

import joulesim as js
from joulesim import catalogue
from joulesim.errors import InputError
from joulesim.predict import attempts_per_answer, predict
from joulesim.scenario import load_scenario

LAPTOP = "qwen2.5-7b-q4_0-laptop-b8"
CONTRACT = (
    "scenario", "hardware", "model", "feasible", "reason", "batch", "max_batch", "memory", "ttft", "tpot", "e2e_latency",
    "output_throughput", "power", "boundary", "energy_per_output_token", "energy_per_answer", "energy_per_correct_answer",
    "idle_energy_per_answer", "accuracy", "cost_per_correct_answer", "carbon_per_correct_answer", "breakdown", "bound_by",
    "assumptions", "units", "joulesim_version",
)
"""Keys of DESIGN section 4."""


def changed(**changes):
    return predict(load_scenario(LAPTOP).replace({field.replace("__", "."): value for field, value in changes.items()}))


def test_a_name_or_a_path_will_do():
    by_name = js.predict("llama-3.1-8b-h100").to_dict()
    assert by_name == js.predict(load_scenario("llama-3.1-8b-h100")).to_dict()
    assert by_name == js.predict(catalogue.locate("scenario", "llama-3.1-8b-h100")).to_dict()
    with pytest.raises(InputError, match="Did you mean llama-3.1-8b-h100"):
        js.predict("llama-3.1-8b-h1oo")


@pytest.mark.parametrize("name", catalogue.names("scenario"))
def test_every_shipped_scenario_is_predicted(name):
    p = predict(load_scenario(name))
    data = p.to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert set(CONTRACT) <= set(data)
    assert {"weights", "kv_cache", "buffers", "usable"} <= set(data["memory"])
    assert {"value", "low", "high", "level"} == set(data["energy_per_correct_answer"])
    assert {"value", "low", "high"} == set(data["accuracy"])
    assert {"operational", "embodied"} == set(data["carbon_per_correct_answer"])
    assert {"prefill", "decode"} == set(data["bound_by"])
    for quantity in ("ttft", "tpot", "e2e_latency", "power", "energy_per_output_token", "energy_per_answer"):
        interval = data[f"{quantity}_interval"]
        if data[quantity] is None:
            assert interval is None and data["reasons"][quantity]
        else:
            assert interval["low"] <= data[quantity] <= interval["high"]


@pytest.mark.parametrize("name", catalogue.names("scenario"))
def test_what_is_unknown_is_none_with_a_reason_and_never_zero(name):
    p = predict(load_scenario(name))
    for quantity, estimate in p.estimates.items():
        if estimate.value is None:
            assert (estimate.low, estimate.high) == (None, None)
            assert estimate.reason, f"{name}: {quantity}"
        elif quantity not in ("idle_energy_per_answer", "energy_above_idle_per_answer") and "breakdown" not in quantity:
            assert estimate.value > 0, f"{name}: {quantity}"


@pytest.mark.parametrize("field, path", [
    ("memory_bandwidth", "memory_bandwidth"), ("compute_rate", "compute_rate.fp32"), ("memory_kind", "memory_kind"),
    ("power_limit", "power_limit"), ("memory_capacity", "memory_capacity"),
])
def test_a_missing_field_is_the_reason(field, path):
    profile = catalogue.read_yaml(catalogue.folder("hardware") / "h100-sxm.yaml")
    profile = {k: v for k, v in profile.items() if k not in (field, "measured_" + field, "power_modes")} | {"name": "blank"}
    profile["unknown"] = {k: v for k, v in profile.get("unknown", {}).items() if not k.startswith("power_modes")}
    s = load_scenario("llama-3.1-8b-h100").replace({"hardware": profile, "runtime": "transformers", "workload": {"prompt_tokens": 64, "output_tokens": 16}}, text=True)  # nothing fitted there
    p = predict(s)
    if field == "memory_capacity":
        assert p.feasible is None and p.max_batch is None and "hardware.memory_capacity is unknown" in p.reason
        assert p.energy_per_answer is not None
        return
    assert p.energy_per_answer is None
    assert f"hardware.{path} is unknown" in p.estimates["energy_per_answer"].reason
    if field in ("memory_kind", "power_limit"):
        assert p.tpot is not None


@pytest.mark.parametrize("name", catalogue.names("hardware"))
def test_every_profile_predicts_a_number_or_a_reason(name):
    """The same small model on every device."""
    for runtime in ("llama.cpp-cuda", "vllm"):
        s = load_scenario(LAPTOP).replace({"hardware": name, "power_mode": None, "runtime": runtime, "kv_cache": None,
                                           "model": "qwen2.5-0.5b-instruct", "serving.batch": 1})
        p = predict(s)
        for quantity in ("ttft", "energy_per_answer"):
            e = p.estimates[quantity]
            assert e.value is not None and 0 < e.value < math.inf or any(
                why in e.reason for why in ("unknown", "static power", "does not fit")), name


@pytest.mark.parametrize(("change", "reason"), [
    ({"hardware.memory_bandwidth": "1e-300 B/s"}, "a number is too large or too small to compute with"),
    ({"power_cap": "1 W"}, "the power limit is below static power"),
])
def test_a_number_that_cannot_be_worked_out_says_why(change, reason):
    p = predict(load_scenario("qwen2.5-7b-q4_0-laptop-b8").replace(change))
    assert {p.estimates[name].reason for name in ("tpot", "e2e_latency", "energy_per_answer")} == {reason}


def test_an_infeasible_deployment_is_the_arithmetic_and_no_number():
    p = predict(load_scenario("deepseek-v3-h200"))
    assert p.feasible is False and p.max_batch == 0 and p.headroom < 0
    assert "does not fit: needs" in p.reason and "MiB too much" in p.reason
    assert p.energy_per_answer is None and p.energy_per_correct_answer.value is None
    assert all(e.value is None for e in p.estimates.values())
    assert p.estimates["tpot"].reason == p.reason


def test_no_correct_answer_gives_a_bound_on_one_side():
    p = changed(task={"correct": 0, "attempted": 50})
    e = p.energy_per_correct_answer
    assert e.value is None and e.high is None and e.low > p.estimates["energy_per_answer"].low
    assert "none of 50 attempts was correct: only a lower bound" in e.reason
    assert (p.accuracy.value, p.accuracy.low) == (0.0, 0.0) and p.accuracy.high > 0
    assert p.to_dict()["reasons"]["energy_per_correct_answer"] == e.reason


def test_without_counts_there_is_no_energy_per_correct_answer():
    p = changed(task={})
    assert p.energy_per_correct_answer.value is None and p.accuracy.value is None
    assert p.energy_per_correct_answer.reason == "task.correct and task.attempted were not given"
    assert p.energy_per_answer > 0


def test_every_answer_correct():
    p = changed(task={"correct": 40, "attempted": 40})
    e = p.energy_per_correct_answer
    assert e.value == pytest.approx(p.energy_per_answer) and e.low < e.value < e.high
    assert p.accuracy.high == pytest.approx(1) and p.accuracy.low < 1.0


def test_pass_at_k_from_counts_of_single_attempts():
    """stats-06: three of ten correct, five tries: 0.916667, and five requests are paid."""
    p = changed(task={"correct": 3, "attempted": 10, "method": "pass@k", "samples": 5, "counts_of": "attempt"})
    assert p.accuracy.value == pytest.approx(0.916667, abs=5e-7)
    assert p.energy_per_answer == pytest.approx(5 * p.energy_per_request)
    assert p.energy_per_correct_answer.value == pytest.approx(p.energy_per_answer / 0.916667, rel=1e-5)
    assert p.energy_per_correct_answer.low < p.energy_per_correct_answer.value < p.energy_per_correct_answer.high


def test_pass_at_k_with_no_correct_attempt():
    p = changed(task={"correct": 0, "attempted": 10, "method": "pass@k", "samples": 5, "counts_of": "attempt"})
    assert p.energy_per_correct_answer.value is None and p.energy_per_correct_answer.low > 0


def test_a_majority_vote_pays_for_every_vote():
    p = changed(task={"correct": 90, "attempted": 100, "method": "majority", "samples": 7})
    assert attempts_per_answer(p.scenario.task) == 7
    assert p.energy_per_correct_answer.value == pytest.approx(7 * p.energy_per_request / 0.9)


def test_retries_multiply():
    assert changed(task={"attempts_per_answer": 1.3}).energy_per_answer == pytest.approx(1.3 * changed(task={}).energy_per_answer)


def test_thinking_and_its_budget():
    """stats-08, stats-09: tokens before the answer cost energy; a cut there is a wrong answer, not a cheap one."""
    plain = changed(workload={"prompt_tokens": 900, "output_tokens": 180})
    thinking = changed(workload={"prompt_tokens": 900, "output_tokens": 180, "thinking_tokens": 800})
    cut = changed(workload={"prompt_tokens": 900, "output_tokens": 180, "thinking_tokens": 800, "max_output_tokens": 256})
    assert float(thinking.outcome.output_tokens) == 980 and float(cut.outcome.output_tokens) == 256
    assert plain.energy_per_answer < cut.energy_per_answer < thinking.energy_per_answer
    correct = {"correct": 11, "attempted": 25, "truncated": 0.44}
    assert cut.scenario.replace({"task": correct}).task.truncated == 0.44
    assert predict(cut.scenario.replace({"task": correct})).energy_per_correct_answer.value == pytest.approx(
        cut.energy_per_answer * 25 / 11)


def test_one_output_token_has_no_tpot():
    p = changed(output=1)
    assert p.tpot is None and p.estimates["tpot"].reason == "one output token has no decode step"
    assert p.energy_per_answer > 0 and p.e2e_latency == pytest.approx(p.ttft)


def test_lengths_are_integrated_not_replaced_by_their_mean():
    spread = {"distribution": "lognormal", "mean": 900, "sd": 1800, "maximum": 20000}
    lognormal, plain = changed(prompt=spread), changed(prompt=900)
    mean = float(lognormal.outcome.prompt_tokens)
    at_mean = changed(prompt=mean)
    assert mean == pytest.approx(900, rel=0.05)
    assert lognormal.energy_per_answer != pytest.approx(at_mean.energy_per_answer, rel=1e-3)
    assert plain.energy_per_answer == pytest.approx(at_mean.energy_per_answer, rel=0.1)


def test_a_distribution_of_one_length_is_that_length():
    narrow = changed(prompt={"distribution": "histogram", "edges": [899.999, 900.001], "counts": [5]},
                     output={"distribution": "histogram", "edges": [179.999, 180.001], "counts": [5]})
    assert narrow.energy_per_answer == pytest.approx(changed(prompt=900, output=180).energy_per_answer, rel=1e-3)


@pytest.mark.parametrize("boundary, more_than", [("host", "board"), ("wall", "host")])
def test_wider_boundaries_cost_more(boundary, more_than):
    profile = {"base": "rtx-5070-ti-laptop", "system": {"host_power": "20 W", "psu_efficiency": "88 %"}}
    s = load_scenario(LAPTOP).replace({"hardware": profile}, text=True)
    outer, inner = (predict(s.replace({"boundary": b})) for b in (boundary, more_than))
    assert outer.energy_per_answer > inner.energy_per_answer
    assert outer.to_dict()["boundary"] == boundary


@pytest.mark.parametrize("boundary, field", [
    ("host", "system.host_power"), ("wall", "system.psu_efficiency"), ("chip", "chip_share_of_memory_energy"),
])
def test_an_unknown_boundary_says_what_is_missing(boundary, field):
    blank = {"base": "rtx-5070-ti-laptop", "system": {"host_power": None, "psu_efficiency": None},
             "chip_share_of_memory_energy": None, "unknown": {field: "nobody measured it"}}
    p = predict(load_scenario(LAPTOP).replace({"hardware": blank, "boundary": boundary}, text=True))
    assert p.energy_per_answer is None and p.ttft is not None
    assert f"hardware.{field} is unknown (nobody measured it)" in p.estimates["energy_per_answer"].reason


def test_idle_is_paid_by_the_answers_and_reported_apart():
    s = load_scenario("qwen3-8b-agent-half-idle-4090")
    p, busy = predict(s), predict(s.replace({"serving.utilisation": 1.0}))
    assert p.idle_energy_per_answer > 0 and busy.idle_energy_per_answer == 0
    assert p.energy_per_answer == pytest.approx(busy.energy_per_answer + p.idle_energy_per_answer)
    assert p.energy_above_idle_per_answer == pytest.approx(busy.energy_above_idle_per_answer)


def test_unknown_idle_power_is_asked_for_only_when_it_is_paid():
    name = next(n for n in catalogue.names("hardware") if js.load_hardware(n).idle_power.resident is None
                and predict(load_scenario(LAPTOP).replace({"hardware": n, "power_mode": None})).energy_per_answer)
    s = load_scenario(LAPTOP).replace({"hardware": name, "power_mode": None})
    assert predict(s).energy_per_answer > 0
    half = predict(s.replace({"serving.utilisation": 0.5}))
    assert half.energy_per_answer is None
    assert "hardware.idle_power.resident is unknown" in half.estimates["energy_per_answer"].reason


def test_assumed_numbers_are_listed():
    lines = "\n".join(predict(load_scenario(LAPTOP)).rests_on())
    for piece in ("workload.prompt_tokens: 900 (assumed:", "task.correct: 830 (assumed:", "prices.carbon: 300 gCO2e/kWh (assumed:",
                  "energy_per_byte: ", "spec-only"):
        assert piece in lines
    changed_by_hand = "\n".join(changed(hardware__memory_bandwidth=1e12).rests_on())
    assert "hardware.memory_bandwidth: 1000000000000.0 (declared, no source given)" in changed_by_hand


REFUSED = [
    ({"serving.parallelism.pipeline": 2}, "hardware.link_bandwidth: is unknown"),
    ({"serving.parallelism.pipeline": 29}, "serving.parallelism.pipeline: expected at most the 28 layers of qwen2.5-7b-instruct, got 29"),
    ({"serving.parallelism.expert": 2}, "serving.parallelism.expert"),
    ({"serving.parallelism.tensor": 2}, "hardware.link_bandwidth: is unknown"),
    ({"prompt": 140000}, "workload: expected a context of at most 131072 tokens for qwen2.5-7b-instruct, got 140180"),
    ({"serving.context": 500}, "serving.context: expected at least the longest request, 1080 tokens, got 500"),
    ({"serving.context": 200000}, "workload: expected a context of at most 131072 tokens"),
    ({"workload.shared_prefix_tokens": 901}, "workload.shared_prefix_tokens: expected at most the longest prompt, 900 tokens, "
     "got 901; workload.prompt_tokens counts the shared prefix too"),
    ({"prompt": 699}, "workload.shared_prefix_tokens: expected at most the longest prompt, 699 tokens, got 700"),
    ({"prompt": {"distribution": "lognormal", "mean": 400, "sd": 90, "maximum": 650}},
     "workload.shared_prefix_tokens: expected at most the longest prompt, 650 tokens, got 700"),
    ({"prompt": {"distribution": "histogram", "edges": [0, 300, 690], "counts": [1, 1]}},
     "workload.shared_prefix_tokens: expected at most the longest prompt, 690 tokens, got 700"),
    ({"kv_cache": "fp8_e4m3"}, "kv_cache: expected a cache format of llama.cpp-cuda (f16, bf16, q8_0, q4_0"),
    ({"kv_cache": "q4_k_m"}, "kv_cache: expected a cache format, got q4_k_m"),
    ({"kv_cache": "q8_0", "serving.flash_attention": False}, "serving.flash_attention: expected true: llama.cpp-cuda quantises"),
    ({"prices.country": "Atlantis"}, "prices.country: expected a country of the grid table, got 'Atlantis'"),
    ({"prices.hardware": (1800.0, "USD"), "prices.lifetime": 1e8}, "prices: expected one currency, got EUR and USD"),
]


@pytest.mark.parametrize("changes, message", REFUSED, ids=[str(c)[:60] for c, _ in REFUSED])
def test_what_cannot_run_is_refused_and_names_the_field(changes, message):
    with pytest.raises(InputError, match=".") as caught:
        predict(load_scenario(LAPTOP).replace(changes))
    assert message in str(caught.value)


@pytest.mark.parametrize("changes", [
    {"workload.shared_prefix_tokens": 900}, {"prompt": {"distribution": "lognormal", "mean": 400, "sd": 90, "maximum": 700}},
])
def test_a_prefix_may_be_a_whole_prompt(changes):
    assert predict(load_scenario(LAPTOP).replace(changes)).energy_per_answer > 0


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, 2.0, math.nan])
def test_a_level_is_a_probability(level):
    with pytest.raises(InputError, match="level: expected a probability between 0 and 1"):
        predict(load_scenario(LAPTOP), level)


def test_attributes_are_quantities():
    p = predict(load_scenario(LAPTOP))
    assert p.tpot == p.estimates["tpot"].value
    with pytest.raises(AttributeError, match="a prediction has no 'tpott'"):
        _ = p.tpott


def test_the_same_scenario_gives_the_same_prediction():
    a, b = (predict(load_scenario(LAPTOP)).to_dict() for _ in range(2))
    assert a == b
    assert isinstance(np.asarray(a["ttft"]).item(), float)


def test_heads_are_whole_on_every_device():
    scenario = load_scenario("llama-3.1-8b-h100").replace({"serving.parallelism.tensor": 3})
    with pytest.raises(InputError, match="serving.parallelism.tensor: expected a divisor of 32 query heads, got 3"):
        predict(scenario)


@pytest.mark.parametrize("name", ["llama-3.1-8b-h100", "qwen3-30b-a3b-h100"])
def test_an_empty_prompt_is_admitted_with_its_start_of_sequence(name):
    empty, one = (predict(load_scenario(name).replace({"workload.prompt_tokens": n})) for n in (0, 1))
    assert empty.tpot == one.tpot > 0
    assert empty.ttft == one.ttft > 0
    assert empty.energy_per_answer == one.energy_per_answer > 0
