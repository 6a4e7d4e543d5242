"""The pages on adding something: their examples load and predict."""

from pathlib import Path

import pytest
import yaml

import joulesim as js
from joulesim import catalogue
from tests.docs.pages import blocks, page, section


def example(kind: str, folder: Path) -> Path:
    """The complete small example of a page, as a file."""
    path = folder / f"{kind}.yaml"
    path.write_text(blocks(section(page(f"docs/adding-a-{kind}.md"), "A complete small example"), "yaml")[0], "utf-8")
    return path


def test_format(tmp_path):
    layout = catalogue.load_format(str(example("format", tmp_path)))
    assert layout.bytes_per_weight == 52 / 64
    prediction = js.predict(js.load_scenario("qwen3-8b-agent-half-idle-4090").replace({"weights": layout}))
    assert prediction.energy_per_answer > 0


def test_model(tmp_path):
    model = catalogue.load_model(str(example("model", tmp_path)))
    assert model.layers == 16 and 1.0e9 < model.parameters < 1.4e9
    assert js.predict(js.load_scenario("llama-3.1-8b-h100").replace({"model": model})).energy_per_answer > 0


def test_runtime(tmp_path):
    runtime = catalogue.load_runtime(str(example("runtime", tmp_path)))
    assert runtime.memory.utilisation == 0.85 and runtime.source("memory.workspace").kind == "datasheet"
    assert js.predict(js.load_scenario("llama-3.1-8b-h100").replace({"runtime": runtime})).energy_per_answer > 0


def test_scenario(tmp_path):
    scenario = js.load_scenario(example("scenario", tmp_path))
    prediction = js.predict(scenario)
    assert prediction.energy_per_correct_answer.value > prediction.energy_per_answer
    assert prediction.money.currency == "EUR" and prediction.money.embodied_per_answer > 0
    assert not any("no source given" in line for line in prediction.rests_on())


def test_scenario_with_a_trace(tmp_path):
    (tmp_path / "requests.csv").write_text("prompt,output\n100,20\n3000,400\n", "utf-8")
    declared = yaml.safe_load(example("scenario", tmp_path).read_text("utf-8"))
    declared["workload"] = {f"{name}_tokens": {"distribution": "trace", "file": "requests.csv", "column": name}
                            for name in ("prompt", "output")}
    (tmp_path / "traced.yaml").write_text(yaml.safe_dump(declared), "utf-8")
    assert js.predict(js.load_scenario(tmp_path / "traced.yaml")).outcome.output_tokens == 210


@pytest.mark.parametrize("kind", ["format", "model", "runtime", "scenario", "device"])
def test_every_number_of_an_example_has_a_source(kind, tmp_path):
    declared = yaml.safe_load(example(kind, tmp_path).read_text("utf-8"))
    assert declared["sources"]


def test_a_changed_format_counts():
    scenario = js.load_scenario("qwen2.5-7b-q4_0-laptop-b8")
    dearer = scenario.replace({"weights.unpack_instructions": 5})
    assert js.predict(dearer).energy_per_answer > 1.1 * js.predict(scenario).energy_per_answer
