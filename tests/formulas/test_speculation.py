"""Drafted tokens: how many are proposed, verified and accepted in a round."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim.formulas import speculation

PROBABILITY = st.floats(0, 1)
POSITIONS = st.lists(PROBABILITY, min_size=1, max_size=12)


def test_leviathan_et_al_equation_1():
    """E = (1 - a^(k+1)) / (1 - a), ICML 2023; at a = 0.8 and k = 4 that is 3.36 tokens and a rate of 0.59."""
    for alpha in (0.2, 0.5, 0.8, 0.95):
        for k in (1, 3, 5, 8):
            published = (1 - alpha ** (k + 1)) / (1 - alpha)
            assert float(speculation.tokens_per_round([alpha] * k)) == pytest.approx(published)
    assert round(float(speculation.tokens_per_round([0.8] * 4)), 2) == 3.36
    assert round(float(speculation.draft_acceptance_rate([0.8] * 4)), 2) == 0.59


@given(acceptance=POSITIONS)
def test_a_round_yields_at_least_one_token_and_at_most_all(acceptance):
    tokens = float(speculation.tokens_per_round(acceptance))
    assert 1 <= tokens <= len(acceptance) + 1
    assert tokens == pytest.approx(1 + len(acceptance) * float(speculation.draft_acceptance_rate(acceptance)))


def test_without_acceptance_a_round_is_a_step():
    assert speculation.tokens_per_round([0.0] * 5) == 1
    assert speculation.tokens_per_round([1.0] * 5) == 6


@given(alpha=st.floats(0.01, 0.99), k=st.integers(1, 16))
def test_a_rate_goes_back_to_its_probability(alpha, k):
    rate = speculation.draft_acceptance_rate([alpha] * k)
    assert float(speculation.probability_of_rate(rate, k)) == pytest.approx(alpha, abs=1e-6)


@given(counts=st.lists(st.tuples(st.integers(1, 1000), PROBABILITY), min_size=1, max_size=10), threshold=PROBABILITY, more=PROBABILITY)
def test_a_higher_threshold_lets_less_through(counts, threshold, more):
    edges = np.linspace(0, 1, len(counts) + 1)[:-1]
    drafted = [n for n, _ in counts]
    accepted = [n * share for n, share in counts]
    share, probability = speculation.passing(edges, drafted, accepted, threshold)
    stricter, _ = speculation.passing(edges, drafted, accepted, threshold + (1 - threshold) * more)
    assert 0 <= stricter <= share + 1e-12 <= 1 + 2e-12
    assert 0 <= probability <= 1 + 1e-12


def test_without_a_threshold_everything_passes():
    share, probability = speculation.passing([0.0, 0.5], [50, 50], [10, 40], 0.0)
    assert (share, probability) == (1.0, 0.5)


@given(k=st.integers(1, 16), q=PROBABILITY)
def test_draft_lengths_and_calls(k, q):
    lengths = speculation.lengths_drafted(k, q)
    assert lengths.sum() == pytest.approx(1) and (lengths >= 0).all() and len(lengths) == k + 1
    offered = float(lengths @ np.arange(k + 1))
    calls = float(speculation.draft_calls(k, q))
    assert offered <= calls + 1e-9 <= k + 2e-9  # the token that ends a draft was computed as well
    assert offered == pytest.approx(q * calls)


@given(plain=st.floats(0.1, 10), draft=st.floats(0, 10), k=st.integers(1, 16))
def test_where_a_call_costs_its_tokens_no_acceptance_pays(plain, draft, k):
    assert speculation.best_case_ratio(plain, (k + 1) * plain, draft, k) >= 1 - 1e-12
    assert speculation.best_case_ratio(plain, plain, 0.0, k) == pytest.approx(1 / (k + 1))
