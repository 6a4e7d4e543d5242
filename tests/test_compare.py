"""Scenarios side by side."""

import math

import pytest

from joulesim.compare import compare
from joulesim.predict import predict
from joulesim.scenario import load_scenario


def side_by_side(*names, **changes):
    return compare([predict(load_scenario(name).replace(changes)) for name in names])


def test_the_first_is_the_reference():
    one, two = side_by_side("qwen2.5-7b-q4_0-laptop-b1", "qwen2.5-7b-q4_0-laptop-b8")
    assert (one.ratio.value, one.ratio.low, one.ratio.high) == (1, 1, 1)
    assert two.ratio.value == pytest.approx(
        two.prediction.energy_per_correct_answer.value / one.prediction.energy_per_correct_answer.value)
    assert two.ratio.low < two.ratio.value < two.ratio.high
    assert two.per == "correct answer"


def test_the_factors_multiply_to_the_ratio():
    _, two = side_by_side("qwen2.5-1.5b-q4_0-laptop-b1", "qwen2.5-7b-q4_0-laptop-b1")
    assert math.prod(two.factors.values()) == pytest.approx(two.ratio.value)
    assert set(two.factors) == {"energy per output token", "output tokens", "attempts", "accuracy"}


def test_shared_constants_cancel():
    """The same device and runtime: the ratio is surer than either energy."""
    one, two = side_by_side("qwen2.5-7b-q4_0-laptop-b1", "qwen2.5-7b-q4_0-laptop-b8", task={})
    e = two.prediction.estimates["energy_per_answer"]
    assert two.ratio.high / two.ratio.low < e.high / e.low


def test_different_boundaries_are_not_comparable():
    first = predict(load_scenario("qwen2.5-7b-q4_0-laptop-b1"))
    other = predict(load_scenario("qwen2.5-7b-q4_0-laptop-b1").replace({"boundary": "wall"}))
    found = compare([first, other])[1]
    assert found.ratio.value is None and found.ratio.reason == "boundaries differ (board, wall): not comparable"


def test_an_unknown_energy_is_named():
    found = side_by_side("qwen2.5-7b-q4_0-laptop-b1", "deepseek-v3-h200")[1]
    assert found.ratio.value is None and found.ratio.reason.startswith("deepseek-v3-h200: does not fit")


def test_without_accuracy_answers_are_compared():
    found = side_by_side("qwen2.5-7b-q4_0-laptop-b1", "qwen2.5-7b-q4_0-laptop-b8", task={})[1]
    assert found.per == "answer" and "accuracy" not in found.factors


def test_no_correct_answer_leaves_the_ratio_per_answer():
    first = predict(load_scenario("qwen2.5-7b-q4_0-laptop-b1").replace({"task": {"correct": 0, "attempted": 9}}))
    found = compare([first, predict(load_scenario("qwen2.5-7b-q4_0-laptop-b8"))])[1]
    assert found.per == "answer" and found.ratio.value > 0
