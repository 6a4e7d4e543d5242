"""Pictures: drawn for every shipped scenario, written in the kind that the suffix names."""

import pytest

from joulesim import plots
from joulesim.errors import InputError
from joulesim.predict import predict
from joulesim.scenario import load_scenario

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("name", ["qwen2.5-7b-q4_0-laptop-b8", "deepseek-v3-h200", "gemma-3-270m-cpu", "llama-3.1-8b-h100"])
def test_a_picture_of_known_unknown_and_infeasible(name, tmp_path):
    path = tmp_path / "x.png"
    plots.save(plots.prediction(predict(load_scenario(name))), str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_waterfall_ends_at_the_answer():
    p = predict(load_scenario("qwen2.5-7b-q4_0-laptop-b8"))
    left = plots.prediction(p).axes[0]
    bars = [bar for container in left.containers for bar in container if hasattr(bar, "get_width")]
    assert bars[-1].get_width() == pytest.approx(p.energy_per_answer)
    assert max(bar.get_x() + bar.get_width() for bar in bars[:-1]) == pytest.approx(p.energy_per_answer)


@pytest.mark.parametrize("name, message", [
    ("x.doc", r"--plot: expected a file name ending in .png, .svg or .pdf, got '.*x.doc'"),
    ("x", "--plot: expected a file name ending in"),
    ("no/such/x.png", "cannot be written"),
])
def test_a_file_that_cannot_be_written(name, message, tmp_path):
    figure = plots.prediction(predict(load_scenario("qwen2.5-7b-q4_0-laptop-b8")))
    with pytest.raises(InputError, match=message):
        plots.save(figure, str(tmp_path / name))
