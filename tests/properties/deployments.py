"""Deployments for the laws: shipped scenarios with random sizes, and their outcome at the constants' values."""

from functools import cache

from hypothesis import strategies as st

from joulesim import catalogue, chain, constants, inputs
from joulesim.predict import predict, quantities
from joulesim.scenario import Scenario, load_scenario


@cache
def shipped(name: str) -> Scenario:
    """A shipped scenario, read once."""
    return load_scenario(name)


@cache
def priced() -> tuple[str, ...]:
    """Shipped scenarios whose energy is known."""
    return tuple(n for n in catalogue.names("scenario") if predict(shipped(n)).energy_per_answer is not None)


def values(scenario: Scenario) -> dict[str, float]:
    """Constants of a scenario without their spread."""
    found = constants.constants(scenario.hardware, scenario.runtime, inputs.expert_class(scenario))
    return {name: c.value for name, c in found.items()}


def outcome(scenario: Scenario, x=None) -> chain.Outcome:
    """What the chain finds at the constants' values."""
    return chain.run(inputs.gather(scenario)[0] if x is None else x, values(scenario))


def found(scenario: Scenario) -> dict[str, float]:
    """Every quantity of a scenario at the constants' values."""
    x = inputs.gather(scenario)[0]
    return {name: float(value) for name, value in quantities(x, outcome(scenario, x), scenario).items()}


@st.composite
def deployments(draw, batch=(1, 96), prompt=(1, 3000), output=(1, 800), among=priced):
    """A shipped scenario with another batch and other lengths, all of them plain numbers."""
    name = draw(st.sampled_from(among()))
    return shipped(name).replace({
        "serving.batch": draw(st.integers(*batch)),
        "workload": {"prompt_tokens": draw(st.integers(*prompt)), "output_tokens": draw(st.integers(*output))},
    })
