"""What a sweep returns: dimensions, units, reasons, designs, draws."""

import json

import numpy as np
import pytest

import joulesim as js
from joulesim import chain, constants, inputs
from joulesim.predict import quantities

xarray = pytest.importorskip("xarray")


@pytest.fixture(scope="module")
def laptop():
    return js.load_scenario("qwen2.5-7b-q4_0-laptop-b8")


def test_a_dimension_per_field_with_units_and_provenance(laptop):
    found = js.sweep(laptop, {"hardware.memory_bandwidth": [5e11, 1e12], "weights": ["q4_0", "q8_0"], "batch": [1, 8]})
    assert dict(found.sizes) == {"hardware.memory_bandwidth": 2, "weights": 2, "batch": 2}
    assert found["hardware.memory_bandwidth"].attrs == {"field": "hardware.memory_bandwidth", "units": "B/s"}
    assert list(found["weights"].values) == ["q4_0", "q8_0"]
    assert found["energy_per_correct_answer"].attrs["units"] == "J/answer"
    assert found["memory.weights"].attrs["units"] == "B"
    assert found["cost_per_answer"].attrs["units"] == "EUR/answer"
    assert found.attrs["joulesim_version"] == js.__version__
    assert json.loads(found.attrs["scenario"])["hardware"] == "rtx-5070-ti-laptop"
    assert found.sel(batch=8, weights="q4_0").tpot.isel({"hardware.memory_bandwidth": 0}).item() > 0


def test_what_does_not_fit_is_nan_with_a_reason(laptop):
    found = js.sweep(laptop, {"serving.batch": [8, 5000], "workload.prompt_tokens": [900, 200_000]})
    legend = json.loads(found.reason.attrs["legend"])
    assert [legend[str(code)].split(":")[0] for code in found.reason.values.ravel()] == [
        "fits", "the context is longer than the model's", "does not fit", "the context is longer than the model's"]
    assert np.isfinite(found.tpot.values.ravel()).tolist() == [True, False, False, False]
    assert np.isfinite(found["memory.weights"].values.ravel()).tolist() == [True, False, True, False]


def test_a_prefix_longer_than_its_prompt_is_nan_with_a_reason(laptop):
    found = js.sweep(laptop, {"workload.prompt_tokens": [500, 2000], "workload.shared_prefix_tokens": [400, 1500]})
    legend = json.loads(found.reason.attrs["legend"])
    assert [legend[str(code)] for code in found.reason.values.ravel()] == [
        "fits", "the shared prefix is longer than the prompt", "fits", "fits"]
    assert np.isfinite(found.tpot.values.ravel()).tolist() == [True, False, True, True]


def test_a_combination_that_cannot_run_keeps_its_place(laptop):
    found = js.sweep(laptop, {"kv_cache": ["f16", "fp8"], "serving.batch": [1, 2]})
    assert np.isnan(found.tpot.sel(kv_cache="fp8")).all()
    code = found.reason.sel(kv_cache="fp8").values
    assert "expected a cache format of llama.cpp-cuda" in json.loads(found.reason.attrs["legend"])[str(code[0])]


def test_zipped_fields_share_a_dimension(laptop):
    over = {"step": {"hardware.memory_bandwidth": ["400 GB/s", "800 GB/s"], "hardware.power_limit": ["80 W", "120 W"],
                     "weights": ["q4_0", "q8_0"]}}
    found = js.sweep(laptop, over)
    assert dict(found.sizes) == {"step": 2}
    second = js.predict(laptop.replace({"hardware.memory_bandwidth": 8e11, "hardware.power_limit": 120.0, "weights": "q8_0"}))
    assert found.tpot[1].item() == pytest.approx(second.tpot, rel=1e-12)
    assert found["hardware.power_limit"].dims == ("step",)


def test_a_swept_constant_replaces_it(laptop):
    values = np.array([0.5, 0.9])
    found = js.sweep(laptop, {"constants.bandwidth_efficiency": values})
    x = inputs.gather(laptop)[0]
    c = {n: k.value for n, k in constants.constants(laptop.hardware, laptop.runtime).items()}
    for i, value in enumerate(values):
        expected = quantities(x, chain.run(x, c | {"bandwidth_efficiency": value}), laptop)["tpot"]
        assert found.tpot[i].item() == pytest.approx(float(expected), rel=1e-12)


def test_draws_spread_about_the_prediction(laptop):
    found = js.sweep(laptop, {"serving.batch": [1, 8]}, draws=400, uncertain={"workload.output_tokens": (180.0, 0.1)})
    assert found.energy_per_answer.dims == ("serving.batch", "draw")
    p = js.predict(laptop)
    low, high = np.quantile(found.energy_per_answer.sel({"serving.batch": 8}), [0.1, 0.9])
    assert low < p.energy_per_answer < high
    again = js.sweep(laptop, {"serving.batch": [1, 8]}, draws=400, uncertain={"workload.output_tokens": (180.0, 0.1)})
    xarray.testing.assert_identical(found, again)


def test_designs_stay_in_their_ranges_and_agree_with_predict(laptop):
    fields = {"hardware.memory_bandwidth": ("300 GB/s", "1 TB/s"), "serving.batch": (1, 16), "weights": ["q4_0", "q8_0"]}
    for design in (js.sobol(32, fields), js.random_design(32, fields)):
        found = js.sweep(laptop, {"point": design})
        bandwidth = found["hardware.memory_bandwidth"].values
        assert bandwidth.min() >= 3e11
        assert bandwidth.max() <= 1e12
        at = 17
        changes = {name: found[name].values[at].item() if found[name].dtype != object else found[name].values[at] for name in fields}
        assert found.tpot[at].item() == pytest.approx(js.predict(laptop.replace(changes)).tpot, rel=1e-12)


def test_only_some_variables(laptop):
    found = js.sweep(laptop, {"serving.batch": [1, 2]}, variables=["tpot", "energy_per_answer"])
    assert set(found) == {"tpot", "energy_per_answer", "reason"}


@pytest.mark.parametrize(("over", "message"), [
    ({}, "over: expected a mapping of fields to values, got nothing to sweep"),
    ({"hardware.memory_bandwith": [1e12]}, r"hardware.memory_bandwith: no such field. Did you mean memory_bandwidth\?"),
    ({"servin.batch": [1]}, r"servin.batch: no such field"),
    ({"serving.batch": []}, "serving.batch: expected at least one value, got an empty range"),
    ({"serving.batch": range(0)}, "serving.batch: expected at least one value, got an empty range"),
    ({"serving.batch": 8}, "serving.batch: expected a list of values, got 8"),
    ({"weights": "q4_0"}, "weights: expected a list of values, got 'q4_0'"),
    ({"serving.batch": [1.5, 2]}, "serving.batch: expected a whole number, got 1.5"),
    ({"serving.batch": [0, 2]}, "serving.batch: expected a whole number of at least 1, got 0"),
    ({"serving.utilisation": [0.5, 1.5]}, "serving.utilisation: expected at most 1, got 1.5"),
    ({"hardware.memory_bandwidth": [1e12, np.nan]}, "hardware.memory_bandwidth: expected a finite byte/second, got nan"),
    ({"hardware.memory_bandwidth": ["1 TB/s", "500 W"]}, r"hardware.memory_bandwidth: expected byte/second, got '500 W'"),
    ({"weights": ["q4_0", "q9_9"]}, "format 'q9_9': no such format"),
    ({"constants.static_pwr": [1.0]}, r"constants.static_pwr: no such constant. Did you mean static_power\?"),
    ({"batch": [1], "serving.batch": [2]}, "serving.batch: expected each field once, got it along two dimensions"),
    ({"z": {"serving.batch": [1, 2], "weights": ["q4_0"]}},
     "z: expected as many values of each field along one dimension, got 2 of serving.batch, 1 of weights"),
    ({"power_mode": ["ac", "battry"]}, r"expected a power mode of rtx-5070-ti-laptop"),
])
def test_bad_input_is_one_line_that_names_the_field(laptop, over, message):
    with pytest.raises(js.InputError, match=message):
        js.sweep(laptop, over)


def test_every_fault_is_reported_together(laptop):
    with pytest.raises(js.InputError) as error:
        js.sweep(laptop, {"serving.batch": [], "hardware.memory_bandwith": [1.0]})
    assert len(error.value.faults) == 2


def test_bad_options(laptop):
    with pytest.raises(js.InputError, match=r"variables: no predicted quantity 'tpott'. Did you mean tpot\?"):
        js.sweep(laptop, {"serving.batch": [1]}, variables=["tpott"])
    with pytest.raises(js.InputError, match="uncertain: expected a number of draws"):
        js.sweep(laptop, {"serving.batch": [1]}, uncertain={"power_cap": [1.0]})
    with pytest.raises(js.InputError, match="serving.batch: expected a field that is either swept or uncertain, got both"):
        js.sweep(laptop, {"serving.batch": [1]}, draws=2, uncertain={"serving.batch": [1, 2]})
    with pytest.raises(js.InputError, match="serving.batch: expected low <= high"):
        js.sobol(8, {"serving.batch": (8, 1)})
    with pytest.raises(js.InputError, match="weights: expected a range"):
        js.sobol(8, {"weights": ("q4_0", "q8_0")})
    with pytest.raises(js.InputError, match="design: expected at least one point, got 0"):
        js.sobol(0, {"serving.batch": (1, 8)})
