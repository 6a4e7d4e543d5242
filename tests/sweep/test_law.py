"""A sweep equals ``predict`` point by point."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import joulesim as js
from joulesim.errors import InputError

pytest.importorskip("xarray")

SCENARIOS = [
    "qwen2.5-7b-q4_0-laptop-b8", "llama-3.1-8b-h100", "gpt-oss-20b-h100", "gemma-3-270m-cpu", "deepseek-v3-h200",
    "llama-3.1-8b-mi300x", "qwen2.5-7b-speculative-code-m5-pro", "mistral-7b-orin", "qwen3-8b-agent-half-idle-4090",
]
NUMERIC = {
    "hardware.memory_bandwidth": st.floats(5e10, 1e13),
    "hardware.memory_capacity": st.floats(2e9, 4e11),
    "hardware.compute_rate.fp16": st.floats(1e12, 5e15),
    "hardware.compute_rate.fp8": st.floats(1e12, 5e15),
    "hardware.compute_rate.fp32": st.floats(1e12, 1e15),
    "hardware.power_limit": st.floats(20, 1500),
    "hardware.idle_power.empty": st.floats(1, 100),
    "hardware.idle_power.resident": st.floats(1, 150),
    "power_cap": st.floats(20, 1500),
    "serving.batch": st.integers(1, 600),
    "serving.utilisation": st.floats(0.01, 1.0),
    "workload.prompt_tokens": st.integers(0, 9000),
    "workload.output_tokens": st.integers(1, 2000),
    "workload.shared_prefix_tokens": st.integers(0, 5000),
    "workload.thinking_tokens": st.integers(0, 1000),
    "task.correct": st.integers(0, 1000),
    "task.attempts_per_answer": st.floats(1.0, 9.0),
    "prices.carbon": st.floats(0.0, 1e-3),
    "prices.pue": st.floats(1.0, 2.0),
    "runtime.overheads.host_per_step": st.floats(0.0, 1e-3),
}
DISCRETE = {
    "weights": st.sampled_from(["q4_0", "q8_0", "f16", None]),
    "kv_cache": st.sampled_from(["f16", "q8_0", "q4_0", "fp8"]),
    "boundary": st.sampled_from(["chip", "board", "host", "wall"]),
    "hardware": st.sampled_from(["h100-sxm", "rtx-4090", "m5-pro", "raspberry-pi-5"]),
    "prices.electricity": st.sampled_from(["0.25 EUR/kWh", "0.1 EUR/kWh"]),
    "serving.parallelism.tensor": st.sampled_from([1, 2]),
    "workload.output_tokens": st.sampled_from([{"distribution": "lognormal", "mean": 200.0, "sd": 90.0, "maximum": 900.0}]),
}
TASK = {"task": {"name": "law", "correct": 600, "attempted": 1000}}


def numbers(plain, path=""):
    """Numbers of a prediction's plain form, by their path."""
    if isinstance(plain, dict):
        for name, value in plain.items():
            if name not in ("units", "reasons", "assumptions", "bound_by", "level"):
                yield from numbers(value, path if name == "value" else f"{path}.{name}" if path else name)
    elif plain is None or isinstance(plain, (int, float)) and not isinstance(plain, bool):
        yield path, np.nan if plain is None else float(plain)


def same(dataset, at, expected, intervals):
    point = dataset.isel(at)
    for name, value in numbers(expected):
        if name in dataset.coords or not intervals and name.endswith((".low", ".high")) or name.endswith("_interval"):
            continue
        if value != value and name not in dataset:
            continue
        np.testing.assert_allclose(point[name].item(), value, rtol=1e-9, err_msg=name, equal_nan=True)


def check(scenario, over, intervals=False):
    """Every point of a sweep against its own prediction."""
    try:
        dataset = js.sweep(scenario, over, intervals=intervals)
    except InputError as error:  # then no point of it can be predicted, or a value is never accepted
        return str(error)
    sizes = [len(values) for values in over.values()]
    for index in np.ndindex(*sizes):
        at = dict(zip(over, index, strict=True))
        try:
            changes = {field: over[field][i] for field, i in at.items()}
            expected = js.predict(scenario.replace(dict(sorted(changes.items(), key=lambda c: c[0].count("."))))).to_dict()
        except InputError:
            point = dataset.isel(at)
            assert point["reason"].item() > 2
            assert np.isnan(point["energy_per_answer"].item())
            continue
        assert (dataset["reason"].isel(at).item() == 0) == (expected["feasible"] is True)
        same(dataset, at, expected, intervals)
    return None


@st.composite
def sweeps(draw):
    scenario = js.load_scenario(draw(st.sampled_from(SCENARIOS))).replace(TASK)
    table = NUMERIC | {f"{f}#": v for f, v in DISCRETE.items()}
    fields = draw(st.lists(st.sampled_from(sorted(table)), min_size=1, max_size=3, unique_by=lambda f: f.rstrip("#")))
    return scenario, {f.rstrip("#"): draw(st.lists(table[f], min_size=1, max_size=3)) for f in fields}


@given(sweeps())
@settings(max_examples=40, deadline=None)
def test_a_sweep_equals_predict_at_every_point(case):
    check(*case)


@given(sweeps())
@settings(max_examples=8, deadline=None)
def test_intervals_too(case):
    check(*case, intervals=True)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_number_of_a_prediction_is_a_variable(name):
    scenario = js.load_scenario(name)
    dataset = js.sweep(scenario, {"serving.utilisation": [1.0]}, intervals=True)
    expected = {path for path, value in numbers(js.predict(scenario).to_dict()) if value == value}
    assert expected - set(dataset) <= {"level"}
