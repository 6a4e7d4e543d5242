"""Money and emissions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim import units
from joulesim.formulas import carbon


def test_case_carbon_01_a_mix_is_in_grams_per_kilowatt_hour():
    """carbon-01: 0.25 coal, 0.35 oil, 0.26 gas, 0.14 nuclear are 731.59 g/kWh; the page prints kgCO2/kWh."""
    mix = 0.25 * 995 + 0.35 * 816 + 0.26 * 743 + 0.14 * 29
    assert mix == pytest.approx(731.59, abs=0.005)
    intensity = units.parse(f"{mix} gCO2e/kWh", "gCO2e/joule")
    assert float(carbon.operational(3.6e6, intensity, 1.0)) == pytest.approx(731.59, abs=0.005)
    assert units.parse(f"{mix} kgCO2e/MWh", "gCO2e/joule") == pytest.approx(intensity)


@pytest.mark.parametrize("tokens_per_second, joules, dollars", [(230, 8.70, 0.362), (53, 37.7, 1.572)])
def test_case_energy_16_price_of_a_million_tokens(tokens_per_second, joules, dollars):
    """energy-16: 2 kW at 0.15 USD/kWh."""
    each = 2000 / tokens_per_second
    assert each == pytest.approx(joules, rel=2e-3)
    price = units.parse("0.15 USD/kWh", "USD/joule")
    assert float(carbon.operational(each * 1e6, price, 1.0)) == pytest.approx(dollars, rel=2e-3)


def test_case_energy_17_an_answer_of_512_tokens():
    """energy-17: 400 W at 1900 tokens a second is 0.0585 mWh a token and 0.030 Wh an answer."""
    watt_hour = units.parse("1 Wh", "joule")
    each = 400 / 1900 / watt_hour
    assert each * 1e3 == pytest.approx(0.0585, abs=5e-5)
    assert each * 512 == pytest.approx(0.030, abs=5e-4)


@given(energy=st.floats(0, 1e9), rate=st.floats(0, 1), pue=st.floats(1, 3))
def test_operational_grows_with_the_facility(energy, rate, pue):
    assert carbon.operational(energy, rate, pue) >= carbon.operational(energy, rate, 1.0)


@given(amount=st.floats(0, 1e7), time=st.floats(0, 1e6), lifetime=st.floats(1e6, 1e9), parts=st.integers(1, 100))
def test_embodied_is_shared_by_time(amount, time, lifetime, parts):
    whole = carbon.embodied(amount, time, lifetime)
    assert parts * carbon.embodied(amount, time / parts, lifetime) == pytest.approx(whole, rel=1e-9, abs=1e-300)
    assert carbon.embodied(amount, lifetime, lifetime) == pytest.approx(amount)
