"""What is split over devices, and what travels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim.formulas import parallelism


@given(devices=st.integers(1, 64), pieces=st.integers(1, 50))
def test_a_ring_all_reduce_sends_each_piece_twice_round(devices, pieces):
    """Reduce-scatter then all-gather: n - 1 steps each, one n-th of the tensor a step (Patarasuk and Yuan 2009)."""
    size = float(devices * pieces)
    sent = sum(size / devices for _ in range(devices - 1)) * 2
    assert parallelism.all_reduce_bytes(size, devices) == pytest.approx(sent)


@given(devices=st.integers(1, 64), heads=st.integers(1, 128))
def test_a_device_holds_at_least_one_head(devices, heads):
    share = parallelism.cache_share(devices, heads)
    assert share >= 1 / devices and share >= 1 / heads
    assert share in (1 / devices, 1 / heads)


def test_without_heads_the_state_is_split():
    assert parallelism.cache_share(8, 0) == 1 / 8


@given(rate=st.floats(1e11, 1e14), bandwidth=st.floats(1e10, 1e13))
def test_issue_factor_is_neutral_without_exponent(rate, bandwidth):
    assert parallelism.issue_factor(rate, bandwidth, 0.0) == 1.0
    assert parallelism.issue_factor(2 * rate, bandwidth, 1.0) == pytest.approx(2 * parallelism.issue_factor(rate, bandwidth, 1.0))


def test_collective_latency_grows_with_the_group():
    assert parallelism.collective_latency(4e-6, 2, 0.8) == pytest.approx(4e-6)
    assert parallelism.collective_latency(4e-6, 8, 1.0) == pytest.approx(28e-6)  # a ring of eight takes seven hops
    assert parallelism.collective_latency(4e-6, 8, 0.8) < parallelism.collective_latency(4e-6, 8, 1.0)


@given(hop=st.floats(1e-7, 1e-4), devices=st.integers(2, 64), exponent=st.floats(0, 1))
def test_an_empty_collective_takes_between_one_hop_and_a_ring(hop, devices, exponent):
    latency = parallelism.collective_latency(hop, devices, exponent)
    assert hop * (1 - 1e-12) <= latency <= hop * (devices - 1) * (1 + 1e-12)


@given(size=st.floats(0, 1e9), stages=st.integers(1, 64))
def test_a_call_is_handed_on_at_each_seam(size, stages):
    assert parallelism.handover_bytes(size, 1) == 0
    assert parallelism.handover_bytes(size, stages + 1) - parallelism.handover_bytes(size, stages) == pytest.approx(size)
