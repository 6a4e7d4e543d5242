"""Calls a request is made of, and engine steps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim.formulas import batching


@given(tokens=st.integers(0, 100_000), chunk=st.integers(1, 10_000))
def test_chunks_hold_every_token_once(tokens, chunk):
    full, rest = batching.chunks(tokens, chunk)
    assert full * chunk + rest == tokens and 0 <= rest < chunk


@given(device=st.floats(1e-6, 1), host=st.floats(0, 1), exponent=st.floats(1, 50))
def test_a_step_lies_between_the_longer_part_and_the_sum(device, host, exponent):
    time = batching.step_time(device, host, exponent)
    assert max(device, host) * (1 - 1e-12) <= time <= (device + host) * (1 + 1e-12)


@given(admissions=st.floats(0, 10), rows=st.floats(1, 1e4), spread=st.floats(0, 5), chunk=st.integers(1, 16384))
def test_carrying_steps_hold_the_rows(admissions, rows, spread, chunk):
    share = batching.carrying_steps(admissions, rows, rows**2 * (1 + spread), chunk)
    assert share > 0
    assert share * chunk >= admissions * rows * (1 - 1e-12)


def test_few_admissions_carry_one_step_each():
    assert batching.carrying_steps(1e-4, 500.0, 500.0**2, 8192) == pytest.approx(1e-4, rel=1e-3)


def test_running_context_is_length_biased():
    """Of answers of 10 and 90 tokens after 100, nine in ten caught running are long."""
    prompt, output, weight = np.array([100.0, 100.0]), np.array([10.0, 90.0]), np.array([0.5, 0.5])
    assert batching.running_context(prompt, output, weight) == pytest.approx(0.1 * 105 + 0.9 * 145)
    assert batching.running_context(100.0, 50.0, None) == 125.0
