"""A measurement read backwards: what goes into the chain comes out again."""

import json

import pytest

from joulesim import load_scenario
from joulesim.cli import main
from joulesim.errors import InputError
from joulesim.invert import invert
from joulesim.predict import predict

SCENARIO = "llama-3.1-8b-h100"


def readings(throughput, power=None, **changes):
    scenario = load_scenario(SCENARIO).replace({k.replace("__", "."): v for k, v in changes.items()})
    return {r.name: r for r in invert(scenario, throughput, power)}


def test_the_predicted_throughput_is_explained_by_the_batch_that_was_predicted():
    scenario = load_scenario(SCENARIO).replace({"serving.batch": 24})
    throughput = predict(scenario).to_dict()["output_throughput"]
    found = readings(throughput, serving__batch=24)
    assert found["batch"].value == pytest.approx(24, rel=0.02)
    assert found["bandwidth_efficiency"].value == pytest.approx(
        predict(scenario).constants["bandwidth_efficiency"].value, rel=0.03)


def test_the_predicted_power_is_no_surprise():
    p = predict(load_scenario(SCENARIO)).to_dict()
    found = readings(p["output_throughput"], p["power"])
    assert found["power_over_predicted"].value == pytest.approx(1.0, rel=1e-6)
    assert found["energy_per_token"].value == pytest.approx(p["energy_per_output_token"], rel=1e-6)


def test_a_larger_throughput_needs_a_larger_batch():
    slow, fast = readings(500.0), readings(2000.0)
    assert fast["least_batch_weights"].value == pytest.approx(4 * slow["least_batch_weights"].value)
    assert fast["least_batch_weights_and_cache"].value > fast["least_batch_weights"].value


def test_what_nothing_explains_has_a_reason_and_no_number():
    found = readings(1e9)
    assert found["batch"].value is None
    assert "the chain reaches at most" in found["batch"].reason
    assert found["least_batch_weights_and_cache"].value is None
    assert found["least_batch_weights_and_cache"].reason == "the caches alone need more than the bandwidth"
    low = readings(100.0, power=1.0)
    assert "the power is below the static" in low["energy_per_byte_at_most"].reason


@pytest.mark.parametrize("throughput", [0.0, -5.0, float("inf"), float("nan")])
def test_no_throughput_to_invert(throughput):
    with pytest.raises(InputError, match="--throughput: expected more than 0"):
        readings(throughput)


def test_command(capsys):
    assert main(["invert", "llama-2-70b-chat", "--on", "b200-sxm", "--weights", "nvfp4", "--batch", "512",
                 "--throughput", "12863.6 token/s", "--power", "700 W", "-o", "json"]) == 0
    found = {r["name"]: r["value"] for r in json.loads(capsys.readouterr().out)["readings"]}
    assert found["least_batch_weights"] == pytest.approx(64.6, rel=0.03)  # exact NVFP4
    assert main(["invert", SCENARIO, "--throughput", "100 token/s"]) == 0
    assert "least_batch_weights" in capsys.readouterr().out


def test_a_throughput_without_a_unit_is_refused(capsys):
    assert main(["invert", SCENARIO, "--throughput", "100"]) == 2
    assert "--throughput" in capsys.readouterr().err


def test_a_pipeline_is_not_read_backwards():
    with pytest.raises(InputError, match="serving.parallelism.pipeline: expected 1 to read a throughput backwards, got 2"):
        readings(1000.0, serving__parallelism__pipeline=2)
