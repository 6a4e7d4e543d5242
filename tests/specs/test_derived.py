"""Hypothetical devices: factors, measured rates that follow, marks, and what must be said about power."""

import pytest

import joulesim as js
from joulesim.constants import constants

SAID = {"static_power": "x1.1", "energy_per_byte": "kept", "energy_per_operation": "kept"}


@pytest.fixture(scope="module")
def scenario():
    return js.load_scenario("llama-3.1-8b-h100")


def test_a_factor_multiplies_and_is_marked():
    base, made = js.load_hardware("h100-sxm"), js.scale("h100-sxm", {"memory_bandwidth": 2, "compute_rate.fp16": 1.5}, **SAID)
    assert made.memory_bandwidth == 2 * base.memory_bandwidth
    assert made.measured_memory_bandwidth == 2 * base.measured_memory_bandwidth
    assert made.compute_rate.fp16 == pytest.approx(1.5 * base.compute_rate.fp16)
    assert made.compute_rate.fp8 == base.compute_rate.fp8
    assert made.idle_power.resident == pytest.approx(1.1 * base.idle_power.resident)
    for field in ("memory_bandwidth", "compute_rate.fp16", "measured_memory_bandwidth", "idle_power.resident"):
        assert made.source(field).kind == "hypothetical"
    assert made.source("memory_bandwidth").ref == "x2 of h100-sxm"
    assert made.source("power_limit").kind == "datasheet"
    assert made.name == "h100-sxm (memory_bandwidth x2, compute_rate.fp16 x1.5)"


def test_constants_carry_over_as_said(scenario):
    base, made = js.load_hardware("h100-sxm"), js.scale("h100-sxm", {"memory_bandwidth": 2}, static_power="x1.1",
                                                        energy_per_byte="40 pJ/B")
    old, new = (constants(h, scenario.runtime) for h in (base, made))
    assert new["static_power"].value == pytest.approx(1.1 * old["static_power"].value)
    assert new["energy_per_byte"].value == pytest.approx(40e-12)
    assert new["energy_per_flop"].value == old["energy_per_flop"].value
    assert new["bandwidth_efficiency"] == old["bandwidth_efficiency"]
    assert {new[name].kind for name in ("static_power", "energy_per_byte", "energy_per_flop")} == {"hypothetical"}


def test_a_prediction_says_that_it_rests_on_hypothetical_numbers(scenario):
    made = js.scale("h100-sxm", {"memory_bandwidth": 2}, **SAID)
    lines = js.predict(scenario.replace({"hardware": made})).rests_on()
    assert "hardware.memory_bandwidth: hypothetical (x2 of h100-sxm)" in lines
    assert any(line.startswith("static_power:") and "hypothetical: x1.1" in line for line in lines)


def test_a_profile_file_may_start_from_another(tmp_path):
    path = tmp_path / "h100-next.yaml"
    path.write_text("base: h100-sxm\nname: h100-next\nprocess_node: TSMC N2\nmemory_bandwidth: x2\nmemory_kind: HBM4\n"
                    "compute_rate: {fp16: x1.3, fp8: x1.3}\n"
                    "carry_over: {static_power: x0.8, energy_per_byte: 35 pJ/B, energy_per_operation: x0.7}\n")
    made = js.load_hardware(path)
    assert made.name == "h100-next"
    assert made.compute_rate.fp8 == pytest.approx(1.3 * 1978.9e12)
    assert made.carry_over.energy_per_operation == ("x", 0.7)


def test_a_plain_number_is_a_variant_and_asks_for_nothing(scenario):
    faster = scenario.replace({"hardware.memory_bandwidth": 6.7e12}).hardware
    assert faster.measured_memory_bandwidth == pytest.approx(2 * 2.693e12)
    assert faster.carry_over is None


@pytest.mark.parametrize(("factors", "said", "message"), [
    ({"memory_bandwidth": 2}, {}, "carry_over.static_power: expected what happens to static power when memory_bandwidth "
                                  r"changes \(kept, or a factor such as x1.2\), got nothing; say it"),
    ({"memory_bandwidth": 2}, {"static_power": "kept"}, "carry_over.energy_per_byte: expected what happens to the energy per byte"),
    ({"compute_rate.fp16": 2}, {"static_power": "kept"}, "carry_over.energy_per_operation: expected what happens to the energy per op"),
    ({"memory_bandwidth": 2}, SAID | {"static_power": "fast"}, "static_power: expected kept or a factor such as x1.2, got 'fast'"),
    ({"memory_bandwidth": 2}, SAID | {"energy_per_byte": "3 W"}, "energy_per_byte: expected joule/byte, got '3 W'"),
    ({"compute_rate.fp4": 2}, SAID, "compute_rate.fp4: expected a number in the base to take x2 of, got None; give the number"),
    ({"memory_bandwith": 2}, SAID, "memory_bandwith: expected a number in the base to take x2 of, got None"),
    ({"memory_bandwidth": 2}, SAID | {"static_pwr": "kept"}, "carry_over.static_pwr: no such field. Did you mean static_power"),
])
def test_what_is_left_unsaid_is_refused(factors, said, message):
    with pytest.raises(js.InputError, match=message):
        js.scale("h100-sxm", factors, **said)


def test_a_factor_on_the_command_line_is_refused_too(scenario):
    with pytest.raises(js.InputError, match="carry_over.static_power: expected what happens to static power"):
        scenario.replace({"hardware.memory_bandwidth": "x2"}, text=True)
