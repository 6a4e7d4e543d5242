"""The page on adding a device: its example loads, and it names every field."""

import re
from pathlib import Path

import pytest
import yaml

from joulesim.specs.base import read_spec
from joulesim.specs.hardware import ComputeRates, HardwareSpec, IdlePower, PowerMode, System

PAGE = (Path(__file__).parents[2] / "docs" / "adding-a-device.md").read_text("utf-8")
EXAMPLE = re.search(r"## A complete small example\n\n```yaml\n(.*?)```", PAGE, re.S).group(1)


def test_the_example_is_a_valid_profile():
    profile = read_spec(HardwareSpec, yaml.safe_load(EXAMPLE), "my-card.yaml")
    assert profile.power_modes["quiet"].power_limit == 65
    assert profile.source("compute_rate.int8").kind == "derived"
    assert profile.source("compute_rate.fp32").kind == "datasheet"


@pytest.mark.parametrize("field", HardwareSpec.model_fields)
def test_the_table_names_the_field(field):
    table = PAGE.partition("## Fields")[2].partition("## Sources")[0]
    assert f"`{field}" in table


@pytest.mark.parametrize("spec", [ComputeRates, IdlePower, PowerMode, System])
def test_the_table_names_inner_fields(spec):
    table = PAGE.partition("## Fields")[2].partition("## Sources")[0]
    for field in set(spec.model_fields) - {"sources"}:
        assert re.search(rf"[.,{{]{field}\b", table), field
