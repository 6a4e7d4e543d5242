"""Money and emissions: what was given, and nothing else. The figures themselves are tested in ``tests/hardware``."""

import pytest

from joulesim import grid, units
from joulesim.errors import InputError
from joulesim.predict import predict
from joulesim.scenario import load_scenario

LAPTOP = "qwen2.5-7b-q4_0-laptop-b8"


def bill(**prices):
    return predict(load_scenario(LAPTOP).replace({"prices": prices}, text=True))


def test_without_prices_there_is_no_bill():
    p = bill()
    assert p.money.cost_per_answer is None and p.money.operational_per_answer is None and p.money.embodied_per_answer is None
    assert p.money.reason == "no price was given" and p.money.carbon_reason == "no grid intensity was given"
    assert p.to_dict()["reasons"]["cost_per_correct_answer"] == "no price was given"


def test_the_sci_form():
    """ISO/IEC 21031: (E x I) + M, here per answer and per correct answer."""
    p = bill(carbon="300 gCO2e/kWh", embodied="150 kgCO2e", lifetime="4 year", pue=1.2)
    m = p.money
    assert m.operational_per_answer == pytest.approx(p.energy_per_answer * 300 / 3.6e6 * 1.2)
    assert m.embodied_per_answer == pytest.approx(150e3 * p.device_time_per_answer / (4 * 31557600))
    assert m.operational_per_correct_answer == pytest.approx(m.operational_per_answer / 0.83)
    assert m.embodied_per_correct_answer == pytest.approx(m.embodied_per_answer / 0.83)
    assert m.notes[0] == "covers the board boundary, PUE 1.2"


def test_electricity_and_hardware_add_up():
    p = bill(electricity="0.25 EUR/kWh", hardware="1800 EUR", lifetime="4 year")
    power = p.energy_per_answer * 0.25 / 3.6e6
    device = 1800 * p.device_time_per_answer / (4 * 31557600)
    assert p.money.cost_per_answer == pytest.approx(power + device) and p.money.currency == "EUR"
    assert "no PUE given" in p.money.notes[0]


@pytest.mark.parametrize("prices", [{"hardware": "1800 EUR"}, {"embodied": "150 kgCO2e"}, {"lifetime": "4 year"}, {"pue": 1.5}])
def test_half_of_a_price_is_not_used(prices):
    p = bill(**prices)
    assert p.money.cost_per_answer is None and p.money.embodied_per_answer is None


@pytest.mark.parametrize("name", ["DEU", "deu", "Germany", "germany"])
def test_a_country_by_code_or_name(name):
    found = grid.find(name)
    assert found.name == "Germany" and 50 < found.carbon * 3.6e6 < 600


def test_a_given_price_wins_over_the_countrys():
    p = bill(country="Germany", carbon="1 gCO2e/kWh")
    assert p.money.operational_per_answer == pytest.approx(p.energy_per_answer / 3.6e6)
    q = bill(country="Germany")
    assert q.money.operational_per_answer > p.money.operational_per_answer
    assert any("Germany" in note for note in q.money.notes)


@pytest.mark.parametrize("prices, message", [
    ({"country": "Germny"}, "prices.country: expected a country of the grid table, got 'Germny'. Did you mean germany?"),
    ({"country": "Mars"}, "give prices.electricity and prices.carbon instead"),
    ({"electricity": "0.2 EUR/kWh", "hardware": "5 USD", "lifetime": "1 year"}, "prices: expected one currency, got EUR and USD"),
])
def test_what_is_refused(prices, message):
    with pytest.raises(InputError, match=".") as caught:
        bill(**prices)
    assert message in str(caught.value)


def test_energy_at_an_unknown_boundary_has_no_price():
    s = load_scenario(LAPTOP).replace({"hardware": {"base": "rtx-5070-ti-laptop", "system": {"host_power": None},
                                                    "unknown": {"system.host_power": "not found"}}, "boundary": "host"}, text=True)
    p = predict(s)
    assert p.money.cost_per_answer is None and "hardware.system.host_power is unknown" in p.money.reason


def test_a_price_is_a_price_of_energy():
    assert units.parse("90 EUR/MWh", "EUR/joule") == pytest.approx(units.parse("0.09 EUR/kWh", "EUR/joule"))
