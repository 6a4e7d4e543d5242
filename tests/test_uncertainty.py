"""Intervals from one linearised pass, against draws of the constants."""

import math

import numpy as np
import pytest

from joulesim import catalogue, chain, constants, inputs, uncertainty
from joulesim.constants import Constant
from joulesim.predict import predict, quantities
from joulesim.scenario import load_scenario

DRAWS = 2000
PRICED = [n for n in catalogue.names("scenario") if predict(load_scenario(n)).energy_per_answer is not None]


def drawn(scenario, draws=DRAWS):
    """Quantities over draws of independent log-normal constants."""
    known = constants.constants(scenario.hardware, scenario.runtime, inputs.expert_class(scenario))
    rng = np.random.default_rng(20261130)
    table = {name: k.value * np.exp(k.spread * rng.standard_normal(draws)) if k.spread else k.value for name, k in known.items()}
    x = inputs.gather(scenario)[0]
    with np.errstate(invalid="ignore"):
        return quantities(x, chain.run(x, table), scenario)


@pytest.mark.parametrize("name", PRICED)
@pytest.mark.parametrize("quantity", ["energy_per_answer", "e2e_latency"])
def test_the_linearised_interval_covers_what_it_claims(name, quantity):
    scenario = load_scenario(name)
    p, many = predict(scenario), np.asarray(drawn(scenario)[quantity])
    many = many[np.isfinite(many)]
    low, high = p.estimates[quantity].low, p.estimates[quantity].high
    covered = np.mean((many >= low) & (many <= high))
    assert len(many) > 0.95 * DRAWS
    assert 0.65 <= covered <= 0.93, f"claims 80 %, covers {covered:.0%}"


@pytest.mark.parametrize("name", PRICED)
def test_the_linearised_spread_is_that_of_draws(name):
    scenario = load_scenario(name)
    p = predict(scenario)
    many = np.log(np.asarray(drawn(scenario)["energy_per_answer"]))
    linear = uncertainty.log_spread(p.energy_array)
    low, high = np.nanquantile(many, [0.1587, 0.8413])  # one standard deviation to each side
    assert linear == pytest.approx((high - low) / 2, rel=0.25)


def test_spread_out_puts_the_value_first_and_moves_one_constant_at_a_time():
    known = {"a": Constant(2.0, 0.5, "assumed", ""), "b": Constant(3.0, 0.0, "assumed", ""), "c": Constant(5.0, 0.1, "assumed", "")}
    table = uncertainty.spread_out(known)
    assert table["b"] == 3.0
    assert table["a"] == pytest.approx([2, 2 * math.exp(0.5), 2 * math.exp(-0.5), 2, 2])
    assert table["c"] == pytest.approx([5, 5, 5, 5 * math.exp(0.1), 5 * math.exp(-0.1)])


def test_a_product_of_powers_is_propagated_exactly():
    known = {"a": Constant(2.0, 0.3, "assumed", ""), "b": Constant(3.0, 0.4, "assumed", "")}
    t = uncertainty.spread_out(known)
    assert uncertainty.log_spread(t["a"] * t["b"] ** 2) == pytest.approx(math.hypot(0.3, 0.8))
    assert uncertainty.log_spread(7.0) == 0.0


@pytest.mark.parametrize("level, z", [(0.6826895, 1.0), (0.9544997, 2.0), (0.8, 1.2815516)])
def test_quantiles(level, z):
    assert uncertainty.quantile(level) == pytest.approx(z, abs=1e-6)


def test_what_does_not_move_the_answer_does_not_matter():
    p = predict(load_scenario("qwen2.5-7b-q4_0-laptop-b1"))
    assert "energy_per_byte" in p.matters
    assert not {"collective_latency", "link_efficiency", "expert_skew", "time_residual"} & p.matters


def test_a_side_on_which_nothing_runs_counts_as_the_other():
    both = np.array([3.0, 3.0 * math.exp(0.4), 3.0 * math.exp(-0.4)])
    for impossible in (1, 2):
        one_sided = both.copy()
        one_sided[impossible] = np.nan
        assert uncertainty.log_spread(one_sided) == pytest.approx(float(uncertainty.log_spread(both)))
    assert math.isnan(uncertainty.log_spread(np.array([3.0, np.nan, np.nan])))
