"""Device profiles as specs; their numbers are tested in ``tests/hardware``."""

import pytest

import joulesim as js
from joulesim import catalogue
from joulesim.constants import constants
from joulesim.errors import InputError


@pytest.mark.parametrize("changes, message", [
    ({"unknown": {"memory_bandwith": "x"}}, "unknown.memory_bandwith: no such field. Did you mean memory_bandwidth?"),
    ({"unknown": {"memory_bandwidth": "x"}}, "unknown.memory_bandwidth: expected no reason, the field has a value"),
    ({"unknown": {"power_modes.zz.power_limit": ""}}, "unknown.power_modes.zz.power_limit: no such field"),
    ({"power_modes": {"a": {"power_limit": "0 W"}}}, "power_modes.a.power_limit: expected more than 0 W, got '0 W'"),
    ({"power_modes": {"a": {"power_limt": "1 W"}}}, "power_modes.a.power_limt: no such field. Did you mean power_limit?"),
    ({"power_modes": {"a": {"clock": 1.5}}}, "power_modes.a.clock: expected at most 1, got 1.5"),
    ({"idle_power": {"empty": "-1 W"}}, "idle_power.empty: expected at least 0 W, got '-1 W'"),
    ({"power_limit_range": ["1 W"]}, "power_limit_range"),
    ({"system": {"psu_efficiency": 0}}, "system.psu_efficiency: expected more than 0, got 0"),
    ({"launch_year": "soon"}, "launch_year: expected"),
    ({"boundary": "rack"}, "boundary: expected 'chip', 'board', 'host' or 'wall', got 'rack'"),
])
def test_a_wrong_profile(changes, message):
    with pytest.raises(InputError, match=".") as caught:
        js.load_hardware({"base": "h100-sxm", **changes})
    assert message in str(caught.value)


@pytest.mark.parametrize("name", catalogue.names("hardware"))
def test_what_is_unknown_says_why(name):
    spec = js.load_hardware(name)
    for field in ("memory_bandwidth", "memory_capacity", "power_limit"):
        if getattr(spec, field) is None:
            assert spec.why_unknown(field) != "not stated in the profile", f"{name}: {field}"


def test_a_given_value_takes_the_reason_away():
    spec = js.load_hardware({"base": "m5-pro", "power_limit": "60 W"})
    assert "power_limit" not in spec.unknown and spec.power_limit == 60.0


def test_an_operation_costs_the_same_on_a_board_of_the_same_die_that_is_held_back():
    h20, starting = js.load_hardware("h20"), js.load_runtime("llama.cpp-cuda")

    def energy(hardware):
        return constants(hardware, starting)["energy_per_flop"].value

    assert energy(h20) == energy(js.load_hardware("h100-sxm"))
    assert energy(h20.model_copy(update={"same_die_as": None})) > 2.0 * energy(h20)  # a seventh of the rate, half the limit


def test_explain_names_the_die_that_a_fitted_factor_multiplies():
    found = constants(js.load_hardware("h20"), js.load_runtime("vllm"))["energy_per_flop"]
    assert found.ref.endswith("the sustained matrix rate; of h100-sxm, the same die")


def test_a_limit_alone_leaves_the_silicon_of_a_hypothetical_device_as_it_is():
    base, more = js.load_hardware("h20"), js.scale("h20", {"power_limit": 2})
    assert (more.power_limit, more.same_die_as) == (2 * base.power_limit, None)
    for runtime in ("vllm", "llama.cpp-cuda"):
        before, after = (constants(hardware, js.load_runtime(runtime)) for hardware in (base, more))
        assert all(after[name].value == pytest.approx(before[name].value, nan_ok=True) for name in before)
