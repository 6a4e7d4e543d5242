"""Published parameter counts and cache sizes, and the counts of the families' own code."""

import csv
import json
import re
from pathlib import Path

import pytest

from joulesim.models import from_config, read_model

REFERENCE = Path(__file__).parents[1] / "reference"
SHARED = Path(__file__).parents[3] / "shared" / "configs"
WINDOWED = ("sliding", "chunked")


def rows(name):
    with (REFERENCE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def elements(model, kinds=None, windowed=False):
    chosen = [m for m in model.mixers if (m.kind in WINDOWED) == windowed or kinds == "all"]
    return sum(m.layers * m.cache_elements for m in chosen)


QUANTITIES = {
    "growing_bytes": lambda m: 2 * elements(m),
    "all_layers_bytes": lambda m: 2 * elements(m, "all"),
    "window_bytes": lambda m: 2 * elements(m, windowed=True),
    "fixed_bytes": lambda m: sum(2 * x.layers * x.cache_elements * x.window for x in m.mixers if x.kind in WINDOWED),
    "state_bytes": lambda m: sum(x.layers * x.state_bytes for x in m.mixers),
    "cache_elements": lambda m: elements(m, "all"),
    "key_width": lambda m: m.mixers[0].key_width,
    "query_rows": lambda m: next(t.rows for t in m.tensors if t.name.endswith("q_proj")),
    "parameters": lambda m: m.parameters,
    "active": lambda m: m.active_parameters,
    "active_without_input_embedding": lambda m: m.active_parameters_without_input_embedding,
}


@pytest.mark.parametrize("case", rows("model_cases.csv"), ids=lambda case: case["case"])
def test_published_figure(case):
    model = from_config(json.loads(case["config"]), case["case"])
    at = re.fullmatch(r"bytes_at_(\d+)", case["quantity"])
    found = 2 * elements(model) * int(at.group(1)) if at else QUANTITIES[case["quantity"]](model)
    assert found == int(case["expected"])


@pytest.mark.parametrize("case", rows("model_families.csv"), ids=lambda case: case["family"])
def test_family_has_the_parameters_of_its_own_code(case):
    assert from_config(json.loads(case["config"]), case["family"]).parameters == int(case["parameters"])


shared_only = pytest.mark.skipif(not SHARED.is_dir(), reason="the collection of published configs is not here")


@shared_only
@pytest.mark.parametrize("case", rows("model_parameters.csv"), ids=lambda case: case["config"])
def test_published_config_has_the_parameters_of_its_own_code(case):
    path = SHARED / f"{case['config']}_config.json"
    if not path.is_file():
        pytest.skip("not in this collection")
    assert read_model(path).parameters == int(case["parameters"])


@shared_only
def test_every_published_config_is_read_and_agrees_with_its_name():
    paths = [path for path in sorted(SHARED.glob("*_config.json")) if "hf_quant" not in path.name]
    assert paths
    for path in paths:
        model = read_model(path)
        assert {t.format for t in model.tensors} <= {
            "bf16",
            "fp8_e4m3",
            "fp8_block128",
            "nvfp4",
            "mxfp4",
        } or not model.kv_format
        named = re.search(r"[-.](\d+)B-A(\d+)B", path.name)
        if named:
            total, active = (float(number) * 1e9 for number in named.groups())
            assert model.parameters == pytest.approx(total, rel=0.06), path.name
            assert model.active_parameters == pytest.approx(active, rel=0.25), path.name
