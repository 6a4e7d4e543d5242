"""Every public name has its row in the nomenclature."""

import re

import pytest

import joulesim as js
from joulesim.attending import Looked
from joulesim.constants import UNITS
from joulesim.cost import Energy, Phase
from joulesim.inputs import Inputs, Matrices
from joulesim.prediction import QUANTITIES, Money
from joulesim.specs.format import FormatSpec
from joulesim.specs.model import Experts, Mixer, ModelSpec, Tensor
from joulesim.specs.runtime import ExpertKernel, MemoryRules, Overheads, RuntimeSpec
from joulesim.specs.scenario import ScenarioSpec
from joulesim.specs.speculation import AcceptanceSpec, ConfidenceBin, SpeculationSpec
from joulesim.specs.workload import (
    Histogram,
    LogNormal,
    ParallelismSpec,
    PricesSpec,
    ServingSpec,
    TaskSpec,
    Trace,
    WorkloadSpec,
)
from joulesim.units import symbol
from joulesim.validate.points import Point
from joulesim.validate.published import COLUMNS
from joulesim.work import Work
from tests.docs.pages import page, section

PAGE = page("docs/nomenclature.md")
SPECS = {
    "Scenario": [ScenarioSpec, WorkloadSpec, LogNormal, Histogram, Trace, ServingSpec, ParallelismSpec, SpeculationSpec,
                 AcceptanceSpec, ConfidenceBin, TaskSpec, PricesSpec],
    "Runtime": [RuntimeSpec, MemoryRules, Overheads, ExpertKernel],
    "Format": [FormatSpec],
}
TUPLES = {
    "Model": [ModelSpec, Mixer, Experts, Tensor],
    "Inputs of the chain": [Inputs, Matrices],
    "Work, time and energy in the chain": [Work, Energy, Looked, Phase],
    "Points of published tables": [Point],
}


def named(title: str) -> set[str]:
    """Names in code in a section, and the parts of dotted ones."""
    return {part for name in re.findall(r"`([^`]+)`", section(PAGE, title)) for part in name.split(".")}


def test_quantities_have_their_unit():
    rows = section(PAGE, "Prediction and its JSON")
    for name, unit in QUANTITIES.items():
        assert re.search(rf"^\| `{name}` \| {re.escape(symbol(unit))} \|", rows, re.M), name


def test_constants_have_their_unit():
    rows = [line for line in section(PAGE, "Constants").splitlines() if line.startswith("| `")]
    for name, unit in UNITS.items():
        row = next((row for row in rows if f"`{name}`" in row), "")
        _, names, units, _ = row.split("|", 3) if row else ("", "", "", "")
        shown, position = units.split(","), re.findall(r"`(\w+)`", names).index(name) if row else 0
        assert row and (shown[position] if len(shown) > 1 else shown[0]).strip() == (symbol(unit) if unit else "1"), name


@pytest.mark.parametrize("scenario", ["qwen2.5-7b-q4_0-laptop-b8", "qwen3-30b-a3b-h100"])
def test_every_json_key_of_a_prediction(scenario):
    known = named("Prediction and its JSON")
    data = js.predict(js.load_scenario(scenario)).to_dict()
    for key, value in data.items():
        assert key.removesuffix("_interval") in known, key
        if isinstance(value, dict) and key not in ("reasons", "units"):
            assert set(value) <= known, key
    assert set(Money._fields) <= known


@pytest.mark.parametrize(("title", "spec"), [(title, spec) for title, specs in SPECS.items() for spec in specs])
def test_every_field_of_a_spec(title, spec):
    assert set(spec.model_fields) - {"sources"} <= named(title)


@pytest.mark.parametrize(("title", "kind"), [(title, kind) for title, kinds in TUPLES.items() for kind in kinds])
def test_every_field_of_a_tuple(title, kind):
    assert set(kind._fields) - {"work", "energy"} <= named(title)


def test_every_key_of_a_model():
    from joulesim.inventory import inventory

    data = inventory(js.load_model("qwen3-30b-a3b"), context=1000)
    keys = set(data) | {key for value in data.values() if isinstance(value, dict) for key in value}
    assert keys <= named("Model")


def test_every_column_of_a_predicted_table():
    assert set(COLUMNS) <= named("Points of published tables")
