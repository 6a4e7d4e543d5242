"""What a power limit does to a call."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim.formulas import power

POSITIVE = st.floats(1e-3, 1e4)
SHARE = st.floats(0, 1)


def draw(factor, static, moved, chip, time, share):
    """Average power at a clock, from the formula's own energies. [W]"""
    return static + (moved + power.chip_energy_at(factor, chip, share)) * factor / time


@given(limit=POSITIVE, static=st.floats(0, 100), moved=POSITIVE, chip=POSITIVE, time=POSITIVE, share=SHARE)
def test_power_stays_within_the_limit_and_uses_it(limit, static, moved, chip, time, share):
    factor = float(power.clock_factor(limit, static, moved, chip, time, share))
    if limit <= static:
        assert np.isnan(factor)
        return
    assert 0 < factor <= 1
    drawn = draw(factor, static, moved, chip, time, share)
    assert drawn <= limit * (1 + 1e-9)
    if factor < 1:
        assert drawn == pytest.approx(limit, rel=1e-6)


@given(limit=POSITIVE, more=st.floats(1, 10), moved=POSITIVE, chip=POSITIVE, time=POSITIVE, share=SHARE)
def test_a_higher_limit_is_never_slower(limit, more, moved, chip, time, share):
    low, high = (power.clock_factor(w, 0.0, moved, chip, time, share) for w in (limit, limit * more))
    assert high >= low * (1 - 1e-12)


def test_without_a_limit_the_clock_is_full():
    assert power.clock_factor(np.inf, 20.0, 5.0, 5.0, 1.0, 0.5) == 1.0


@given(factor=st.floats(0.05, 1), chip=POSITIVE, share=SHARE)
def test_a_lower_clock_never_costs_more_per_operation(factor, chip, share):
    assert power.chip_energy_at(factor, chip, share) <= chip * (1 + 1e-12)
    assert power.chip_energy_at(1.0, chip, share) == chip
