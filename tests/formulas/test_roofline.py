"""Shortest time of a call."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim.formulas import roofline

TIMES = st.lists(st.floats(0, 1e3), min_size=1, max_size=4)


@given(times=TIMES, exponent=st.floats(1, 60))
def test_overlap_lies_between_the_longest_and_the_sum(times, exponent):
    together = float(roofline.overlapped(*times, exponent=exponent))
    assert max(times) * (1 - 1e-9) <= together <= sum(times) * (1 + 1e-9)


@given(times=TIMES)
def test_limits_of_the_exponent(times):
    assert float(roofline.overlapped(*times, exponent=1.0)) == pytest.approx(sum(times))
    assert float(roofline.overlapped(*times, exponent=np.inf)) == pytest.approx(max(times))


@given(times=TIMES, exponent=st.floats(1, 20), factor=st.floats(1, 10))
def test_no_activity_gets_shorter_by_taking_longer(times, exponent, factor):
    before = float(roofline.overlapped(*times, exponent=exponent))
    after = float(roofline.overlapped(times[0] * factor, *times[1:], exponent=exponent))
    assert after >= before * (1 - 1e-12)


def test_ridge_point_of_an_h100():
    """989 TFLOP/s over 3.35 TB/s (NVIDIA H100 SXM datasheet): 295 FLOP a byte."""
    assert roofline.arithmetic_intensity(989e12, 3.35e12) == pytest.approx(295.2, abs=0.05)


def test_share_of_is_the_elasticity_of_the_time_together():
    """d ln t / d ln t1 by a small step, over the whole range; nothing to do is nobody's share."""
    first, other = np.array([0.0, 1e-9, 0.5, 1.0, 3.0]), np.array([2.0, 2.0, 2.0, 1.0, 0.0])
    for exponent in (1.0, 2.5, 6.0):
        step = 1.0 + 1e-7
        together, longer = (roofline.overlapped(t, other, exponent=exponent) for t in (first, first * step))
        expected = np.log(longer / together) / np.log(step)
        np.testing.assert_allclose(roofline.share_of(first, other, exponent=exponent), expected, atol=2e-7)
    assert roofline.share_of(0.0, 0.0, exponent=2.0) == 1.0
