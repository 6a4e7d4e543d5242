"""From requests to correct answers."""

from itertools import combinations
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim.formulas import answer

from .reading import rows


@pytest.mark.parametrize("row", rows("wilson.csv"), ids=lambda r: f"{r['correct']}-of-{r['attempted']}")
def test_wilson_reproduces_published_intervals(row):
    z = NormalDist().inv_cdf(0.5 + float(row["level"]) / 2)
    low, high = answer.wilson(int(row["correct"]), int(row["attempted"]), z)
    assert (round(float(low), 4), round(float(high), 4)) == (float(row["low"]), float(row["high"]))


def test_case_stats_05_gpqa_diamond():
    """stats-05: 99 of 198 is known to 7 points either way, which is 14 % of the joules."""
    low, high = answer.wilson(99, 198, 1.959964)
    assert (round(float(low), 3), round(float(high), 3)) == (0.431, 0.569)
    assert float(answer.energy_per_correct(1.0, low) / answer.energy_per_correct(1.0, 0.5)) == pytest.approx(1.16, abs=0.01)


@given(n=st.integers(1, 10_000), share=st.floats(0, 1), z=st.floats(0.1, 5))
def test_wilson_holds_the_share_and_widens_with_the_level(n, share, z):
    correct = round(n * share)
    low, high = answer.wilson(correct, n, z)
    wider = answer.wilson(correct, n, z * 1.5)
    assert 0 <= low <= correct / n + 1e-12 and correct / n - 1e-12 <= high <= 1
    assert wider[0] <= low + 1e-12 and wider[1] >= high - 1e-12


@given(n=st.integers(1, 12), data=st.data())
def test_pass_at_k_is_the_count_over_all_draws(n, data):
    correct, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    draws = list(combinations(range(n), k))
    hit = sum(any(i < correct for i in draw) for draw in draws)
    assert float(answer.pass_at_k(n, correct, k)) == pytest.approx(hit / len(draws))


def test_case_stats_06_pass_at_k():
    """stats-06: 1 - C(7,5)/C(10,5) = 0.916667."""
    assert round(float(answer.pass_at_k(10, 3, 5)), 6) == 0.916667


def test_case_stats_01_wrong_answers_stay_in_the_numerator():
    """stats-01: 10 J right and 100 J wrong are 110 J per correct answer."""
    energies, correct = np.array([10.0, 100.0]), np.array([1, 0])
    assert float(answer.energy_per_correct(energies.mean(), correct.mean())) == 110.0


@given(energy=st.floats(1e-6, 1e9), share=st.floats(0.01, 1), more=st.floats(1.001, 2))
def test_a_better_model_costs_less_per_correct_answer(energy, share, more):
    better = min(1.0, share * more)
    assert answer.energy_per_correct(energy, better) <= answer.energy_per_correct(energy, share)
