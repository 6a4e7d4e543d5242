"""Accuracy by format: counts with a source, nothing between cells."""

import pytest

from joulesim import quality
from joulesim.errors import InputError

CELLS = [(task, key, counts) for task in quality.tasks() for key, counts in quality.table(task).items()]


@pytest.mark.parametrize(("task", "key", "counts"), CELLS)
def test_counts_are_whole_and_have_a_source(task, key, counts):
    assert 0 <= counts.correct <= counts.attempted and counts.attempted > 500
    assert counts.source.startswith("https://")


def test_calibration_lifts_two_bit_more_than_four_bit():
    def correct(weights, quantiser):
        return quality.cell("gsm8k", "qwen2.5-7b-instruct", weights, quantiser).correct

    assert correct("q2_k_s", "calibrated") > 1.8 * correct("q2_k_s", "rounded")
    assert correct("q4_k_s", "calibrated") < 1.1 * correct("q4_k_s", "rounded")


def test_a_cell_that_nobody_measured_is_unknown():
    assert quality.cell("gsm8k", "qwen2.5-7b-instruct", "q5_k_m", "rounded") is None
    assert quality.cell("gsm8k", "qwen2.5-1.5b-instruct", "q4_k_s", "rounded") is None


def test_an_unknown_task_is_one_line():
    with pytest.raises(InputError, match="task: expected one of gsm8k, if_eval, mmlu, mmlu_pro, got 'gsm'"):
        quality.table("gsm")
