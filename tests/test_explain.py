"""Every intermediate in flow order, and the waterfall of an answer."""

import importlib
import math

import pytest

from joulesim import catalogue, explain
from joulesim.predict import predict
from joulesim.scenario import load_scenario


@pytest.mark.parametrize("name", catalogue.names("scenario"))
def test_every_intermediate_is_there(name):
    p = predict(load_scenario(name))
    steps = explain.steps(p)
    stages = [s.stage.partition(" ")[0] for s in steps]
    order = list(dict.fromkeys(stages))
    assert order == ["counts", "memory", "constants", "prefill", "decode", "answer"]
    assert all(s.value is None or math.isfinite(s.value) for s in steps)
    assert all(s.formula for s in steps)
    assert len({(s.stage, s.name) for s in steps}) == len(steps)


def test_a_named_formula_exists():
    for step in explain.steps(predict(load_scenario("qwen3-30b-a3b-h100"))):
        for name in step.formula.replace(",", " ").split():
            module, _, attribute = name.partition("[")[0].rpartition(".")
            if module.startswith(("formulas", "chain")):
                assert hasattr(importlib.import_module(f"joulesim.{module}"), attribute) or importlib.util.find_spec(
                    f"joulesim.{module}.{attribute}"), step


@pytest.mark.parametrize("boundary", ["board", "host", "wall"])
def test_the_waterfall_sums_to_the_answer(boundary):
    s = load_scenario("qwen3-8b-agent-half-idle-4090").replace(
        {"boundary": boundary, "hardware": {"base": "rtx-4090", "system": {"host_power": "90 W", "psu_efficiency": 0.9}}}, text=True)
    p = predict(s)
    bars = explain.waterfall(p)
    assert sum(value for *_, value in bars) == pytest.approx(p.energy_per_answer)
    assert ("around", "idle") in {bar[:2] for bar in bars}


def test_an_unknown_energy_has_no_waterfall():
    assert explain.waterfall(predict(load_scenario("gemma-3-270m-cpu"))) == []
