"""Tokens that attention looks at."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim.formulas import attention


@given(first=st.integers(0, 300), more=st.integers(0, 300), window=st.one_of(st.integers(1, 400), st.just(np.inf)))
def test_pairs_are_the_sum_over_tokens(first, more, window):
    last = first + more
    counted = sum(min(i, window) for i in range(first + 1, last + 1))
    assert float(attention.pairs(first, last, window)) == counted


@given(first=st.integers(0, 300), more=st.integers(0, 300), chunk=st.integers(1, 200))
def test_chunk_pairs_are_the_sum_over_tokens(first, more, chunk):
    last = first + more
    counted = sum((i - 1) % chunk + 1 for i in range(first + 1, last + 1))
    assert float(attention.chunk_pairs(first, last, chunk)) == counted


@given(first=st.integers(0, 1000), a=st.integers(0, 1000), b=st.integers(0, 1000), window=st.integers(1, 2000))
def test_pairs_add_up_over_stretches(first, a, b, window):
    whole = attention.pairs(first, first + a + b, window)
    assert whole == attention.pairs(first, first + a, window) + attention.pairs(first + a, first + a + b, window)


def test_a_window_as_long_as_the_context_is_full_attention():
    assert attention.pairs(10, 500, 500) == attention.pairs(10, 500, np.inf)
    assert attention.chunk_pairs(0, 500, 500) == attention.pairs(0, 500, np.inf)


def test_flops_are_palms_attention_term():
    """A. Chowdhery et al., PaLM, 2022, appendix B: 12 L H Q T a token forward and backward, a third of it forward."""
    layers, heads, width, context = 118, 48, 256, 2048
    ours = layers * attention.flops(context, heads, width, width)
    assert ours == pytest.approx(12 * layers * heads * width * context / 3)


def test_arrays_go_through():
    pairs = attention.pairs(np.array([0, 2]), np.array([4, 6]), np.array([np.inf, 3]))
    assert pairs.tolist() == [10.0, 12.0]


def test_mean_within_a_window():
    """A censored exponential: no more than the window, no more than the mean, and the mean when nothing is cut."""
    contexts = np.random.default_rng(1).exponential(1200.0, 400_000)
    assert attention.mean_within(1200.0, 1024.0) == pytest.approx(np.minimum(contexts, 1024.0).mean(), rel=5e-3)
    assert attention.mean_within(1200.0, np.inf) == 1200.0


@given(context=st.floats(1, 1e6), window=st.floats(1, 1e6))
def test_the_mean_through_a_window_is_below_both(context, window):
    seen = attention.mean_within(context, window)
    assert 0 < seen <= min(context, window) * (1 + 1e-12)
    assert attention.mean_within(context, np.inf) == context
