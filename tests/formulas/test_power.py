"""What a power limit does to a call."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from joulesim.formulas import power

POSITIVE = st.floats(1e-2, 1e3)
SHARE = st.floats(0, 1)
CALL = st.fixed_dictionaries({
    "fixed": st.floats(0, 10), "launched": st.floats(0, 10), "overlapped": POSITIVE, "chip_share": st.floats(1e-3, 1),
    "exponent": st.floats(1, 8)})


@given(limit=POSITIVE, static=st.floats(0, 100), moved=POSITIVE, chip=POSITIVE, on=POSITIVE, share=SHARE, call=CALL)
def test_power_stays_within_the_limit_and_uses_it(limit, static, moved, chip, on, share, call):
    assume(power.power_at(1.0, static, moved, chip, on, power.time_at(1.0, **call), share) < 20 * limit)
    factor = float(power.clock_factor(limit, static, moved, chip, on, share, **call))
    if limit <= static:
        assert np.isnan(factor)
        return
    assert 0 < factor <= 1
    drawn = power.power_at(factor, static, moved, chip, on, power.time_at(factor, **call), share)
    if factor < 1:
        assert drawn == pytest.approx(limit, rel=1e-3)
    else:
        assert drawn <= limit


@given(limit=POSITIVE, more=st.floats(1, 10), moved=POSITIVE, chip=POSITIVE, on=POSITIVE, share=SHARE, call=CALL)
def test_a_higher_limit_is_never_slower(limit, more, moved, chip, on, share, call):
    assume(power.power_at(1.0, 0.0, moved, chip, on, power.time_at(1.0, **call), share) < 20 * limit)
    low, high = (power.clock_factor(w, 0.0, moved, chip, on, share, **call) for w in (limit, limit * more))
    assert high >= low * (1 - 1e-3)


def test_without_a_limit_the_clock_is_full():
    assert power.clock_factor(np.inf, 20.0, 5.0, 5.0, 1.0, 0.5, 0.0, 0.0, 1.0, 0.5, 2.0) == 1.0


def test_memory_bound_work_keeps_its_speed_under_a_mild_limit():
    call = {"fixed": 0.0, "launched": 0.0, "overlapped": 1.0, "chip_share": 0.01, "exponent": 4.0}
    clock = power.clock_factor(90.0, 10.0, 40.0, 5.0, 50.0, 0.8, **call)
    assert 0.8 < clock < 0.95
    assert power.time_at(clock, **call) < 1.01


@given(factor=st.floats(0.05, 1), chip=POSITIVE, share=SHARE)
def test_a_lower_clock_never_costs_more_per_operation(factor, chip, share):
    assert power.energy_at(factor, chip, share) <= chip * (1 + 1e-12)
    assert power.energy_at(1.0, chip, share) == chip
