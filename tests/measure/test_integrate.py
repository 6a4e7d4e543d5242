"""Energy from samples: the laws of an integral, and counters that wrap, fall and stick."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from joulesim.measure.integrate import counted, interval_energy, trapezoid

from .reference import published

watts = st.floats(0, 1e4)
gaps = st.lists(st.floats(0.01, 5), min_size=3, max_size=40)


@st.composite
def traces(draw):
    """Times, powers, and two times within them."""
    times = np.cumsum(draw(gaps))
    powers = draw(st.lists(watts, min_size=len(times), max_size=len(times)))
    span = times[-1] - times[0]
    a, b = sorted(draw(st.tuples(st.floats(0, 1), st.floats(0, 1))))
    start, stop = (min(times[0] + share * span, times[-1]) for share in (a, b))
    return times, np.array(powers), start, stop


def test_edges_of_the_window_are_interpolated():
    """Case nvidia_smi-18: two GPUs sampled at -1 ... 11 s, window 0 to 10 s: 2200 J + 3200 J."""
    times = [-1, 1, 3.5, 6, 8.5, 11]
    first = trapezoid(times, [100 + 20 * (t + 1) for t in times], 0, 10)
    second = trapezoid(times, [200 + 20 * (t + 1) for t in times], 0, 10)
    assert first.energy == pytest.approx(published("nvidia_smi-18", "energy of GPU 0"))
    assert second.energy == pytest.approx(published("nvidia_smi-18", "energy of GPU 1"))
    assert (first.energy + second.energy) / 10 == pytest.approx(published("nvidia_smi-18", "mean power"))
    assert (first.bracketed, first.longest_gap, first.samples) == (True, 2.5, 4)


@given(traces(), watts)
def test_constant_power_gives_power_times_time(trace, power):
    times, powers, start, stop = trace
    energy = trapezoid(times, np.full_like(powers, power), start, stop).energy
    assert energy == pytest.approx(power * (stop - start))


@given(traces(), st.floats(0, 10), st.floats(0, 10))
def test_linear_in_power(trace, a, b):
    times, powers, start, stop = trace
    mixed = trapezoid(times, a * powers + b * powers[::-1], start, stop).energy
    forward, reverse = (trapezoid(times, p, start, stop).energy for p in (powers, powers[::-1]))
    apart = a * forward + b * reverse
    assert mixed == pytest.approx(apart, rel=1e-9, abs=1e-6)


@given(traces(), st.floats(0, 1))
def test_split_windows_add_up(trace, where):
    times, powers, start, stop = trace
    middle = min(start + where * (stop - start), stop)
    parts = trapezoid(times, powers, start, middle).energy + trapezoid(times, powers, middle, stop).energy
    assert parts == pytest.approx(trapezoid(times, powers, start, stop).energy, rel=1e-9, abs=1e-6)


@given(traces())
def test_within_the_extremes(trace):
    times, powers, start, stop = trace
    energy = trapezoid(times, powers, start, stop).energy
    assert powers.min() * (stop - start) - 1e-6 <= energy <= powers.max() * (stop - start) + 1e-6


@given(traces())
def test_order_of_samples_does_not_matter(trace):
    times, powers, start, stop = trace
    assert trapezoid(times[::-1], powers[::-1], start, stop) == trapezoid(times, powers, start, stop)


def test_samples_of_one_time_all_stand():
    """Case mlperf_power-01: duplicate time stamps are real samples."""
    assert trapezoid([0, 1, 1, 2], [10, 10, 30, 30], 0, 2).energy == 40.0


@pytest.mark.parametrize(
    ("times", "start", "stop"),
    [([1, 2, 3], 0.5, 2), ([1, 2, 3], 1, 3.5), ([], 0, 1), ([5], 0, 10), ([1, 2, 3], 2.5, 1.5)],
)
def test_nothing_is_extrapolated(times, start, stop):
    integral = trapezoid(times, [100.0] * len(times), start, stop)
    assert (integral.energy, integral.bracketed) == (None, False)


@given(gaps, st.data())
def test_interval_averages_add_up(lengths, data):
    powers = data.draw(st.lists(watts, min_size=len(lengths), max_size=len(lengths)))
    ends = np.cumsum(lengths)
    whole = interval_energy(ends, lengths, powers, 0, ends[-1])
    assert whole.energy == pytest.approx(np.dot(lengths, powers), rel=1e-9, abs=1e-6)
    middle = data.draw(st.floats(0, float(ends[-1])))
    parts = [interval_energy(ends, lengths, powers, *w).energy for w in ((0, middle), (middle, ends[-1]))]
    assert sum(parts) == pytest.approx(whole.energy, rel=1e-9, abs=1e-6)


def test_interval_averages_are_not_extrapolated():
    assert interval_energy([1, 2], [1, 1], [5, 5], 0, 3).energy is None
    assert interval_energy([], [], [], 0, 3).energy is None
    assert interval_energy([1, 5], [1, 1], [5, 5], 0, 5).longest_gap == 3.0


@given(st.lists(st.integers(0, 999), min_size=1, max_size=50), st.integers(0, 999))
def test_wraps_are_recovered(steps, first):
    """A counter of any size that is read at least once a turn loses nothing."""
    true = first + np.concatenate(([0], np.cumsum(steps)))
    result = counted((int(v) for v in true % 1000), size=1000)
    assert result.amount == sum(steps)
    assert result.wraps == true[-1] // 1000
    assert result.whole


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=30), st.integers(0, 29))
def test_readings_in_between_change_nothing(steps, cut):
    values = np.cumsum(steps).tolist()
    assume(cut < len(values) - 1)
    whole = counted([values[0], values[-1]]).amount
    assert counted(values[: cut + 1]).amount + counted(values[cut:]).amount == whole


def test_a_package_counter_that_turns_once_in_27_minutes():
    """Case rapl-01: 30811.1 J after 1795.02 s is 292955 J or 163.2 W; the first run drew 161.0 W."""
    second = counted([0.0, 248923.0, 30811.1], size=262144.0)
    assert second.wraps == 1
    assert second.amount == pytest.approx(published("rapl-01", "energy of the second run"), abs=0.5)
    power = second.amount / 1795.02
    assert power == pytest.approx(published("rapl-01", "power of the second run"), abs=0.05)
    first = 248923.0 / 1546.03
    assert first == pytest.approx(published("rapl-01", "power of the first run"), abs=0.05)


def test_a_negative_difference_without_its_sign_is_left_out():
    """Case rapl-03: 18446744073447456768 is -262094848."""
    counter = published("rapl-03", "counter")
    assert counter - 2**64 == published("rapl-03", "difference")
    result = counted([100, counter, 300])
    assert (result.amount, result.unreadable) == (200, 1)


def test_a_counter_that_falls_never_gives_terawatts():
    """Case amd_intel-06: 22 MJ falls to 200 J within 5 s; unsigned arithmetic made 3.69 TW of it."""
    fallen = 22_000_000_000_000, 200_000_000
    unsigned = (2**64 + fallen[1] - fallen[0]) / 5 / 1e6
    assert unsigned == pytest.approx(published("amd_intel-06", "power of an unsigned difference"), rel=1e-3)
    result = counted([21_999_000_000_000, *fallen, 201_000_000])
    assert (result.amount, result.backward, result.whole) == (1_000_000_000 + 1_000_000, 1, False)


def test_a_wrap_faster_than_possible_is_a_reset():
    result = counted([900, 10], size=1000, times=[0.0, 1.0], fastest=50.0)
    assert (result.amount, result.wraps, result.backward, result.whole) == (0, 0, 1, False)
    assert counted([0, 900], times=[0.0, 1.0], fastest=50.0).implausible == 1


def test_a_stuck_counter_is_seen():
    """Case amd_intel-04: an MI210 counter reads 5198685762204 through a whole run."""
    assert not counted([5198685762204] * 10).moved
    assert counted([5198685762204, 5198685762205]).moved
