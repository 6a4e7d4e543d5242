"""Traffic over the weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim.formulas import weights


@given(rows=st.integers(1, 10_000), served=st.integers(1, 600))
def test_passes_serve_every_row(rows, served):
    passes = weights.weight_passes(rows, served)
    assert passes * served >= rows > (passes - 1) * served
    assert weights.weight_passes(rows, np.inf) == 1


@given(routed=st.integers(1, 12), rows=st.integers(1, 6), data=st.data())
def test_uniform_routing_is_exact_for_independent_tokens(routed, rows, data):
    """Each expert is missed by a token with probability 1 - k/E."""
    per_token = data.draw(st.integers(1, routed))
    exact = routed * (1 - (1 - per_token / routed) ** rows)
    found = float(weights.distinct_experts(rows, routed, per_token, np.inf))
    assert found == pytest.approx(exact, rel=1e-9)


@given(routed=st.integers(1, 512), share=st.floats(0.01, 1), rows=st.integers(1, 4096), skew=st.floats(0.2, 1e3))
def test_experts_touched_are_at_least_those_of_one_token_and_at_most_all(routed, share, rows, skew):
    per_token = max(1, round(routed * share))
    touched = float(weights.distinct_experts(rows, routed, per_token, skew))
    assert per_token * (1 - 1e-9) <= touched <= routed * (1 + 1e-9)
    assert touched <= float(weights.distinct_experts(rows + 1, routed, per_token, skew)) * (1 + 1e-12)


def test_eight_of_128_at_batch_64_touch_nearly_all():
    """Qwen3-30B-A3B: 128 (1 - (15/16)^64) = 125.9."""
    assert float(weights.distinct_experts(64, 128, 8, np.inf)) == pytest.approx(125.94, abs=0.01)


@given(pairs=st.integers(0, 10**6), outer=st.integers(0, 10**5), inner=st.integers(0, 10**5), devices=st.integers(1, 8))
def test_copies_of_routed_tokens_are_shared_out_over_the_devices_of_the_experts(pairs, outer, inner, devices):
    whole = weights.routed_activation_bytes(pairs, outer, inner)
    assert weights.routed_activation_bytes(pairs / devices, outer, inner) * devices == pytest.approx(whole)
    assert whole >= 2.0 * pairs * outer


def test_copies_of_a_token_of_qwen3_30b_a3b():
    """8 experts, 3 times 2048 and 3 times 768 (twice) in 16 bits, 48 layers: 8.3 MB a token."""
    assert weights.routed_activation_bytes(8, 48 * 3 * 2048, 48 * 3 * 768) == 8 * 48 * (3 * 2048 + 6 * 768) * 2
