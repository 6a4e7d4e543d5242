"""What a model is made of, as plain data."""

import pytest

import joulesim as js
from joulesim import catalogue
from joulesim.errors import InputError
from joulesim.inventory import inventory

CONTRACT = {"name", "architecture", "parameters", "active_parameters", "active_parameters_without_input_embedding", "layers",
            "kv_cache", "weights"}
"""Keys of DESIGN section 4."""


@pytest.mark.parametrize("name", catalogue.names("model"))
def test_the_contract(name):
    data = inventory(js.load_model(name))
    assert set(data) >= CONTRACT
    assert set(data["kv_cache"]) >= {"bytes_per_token_growing", "bytes_fixed", "elements_per_token"}
    assert set(data["weights"]) == {"format", "bytes"}
    assert 0 < data["active_parameters"] <= data["parameters"]
    assert data["active_parameters_without_input_embedding"] <= data["active_parameters"]


def test_qwen2_5_7b():
    """kv_config-14: 57344 B a token in f16; the window is ignored because use_sliding_window is false."""
    data = inventory(js.load_model("qwen2.5-7b-instruct"), context=1000)
    assert data["kv_cache"]["bytes_per_token_growing"] == 57344 and data["kv_cache"]["bytes_fixed"] == 0
    assert data["kv_cache"]["bytes_at_context"] == 57344 * 1000


def test_a_window_is_fixed_and_counted_up_to_the_context():
    """kv_config-26: gpt-oss-20b grows by 24576 B a token and keeps 3145728 B in windows of 128."""
    model = js.load_model("gpt-oss-20b")
    cache = inventory(model, context=1000)["kv_cache"]
    assert (cache["bytes_per_token_growing"], cache["bytes_fixed"]) == (24576, 3145728)
    assert cache["bytes_at_context"] == 24576 * 1000 + 3145728
    assert inventory(model, context=64)["kv_cache"]["bytes_at_context"] == 49152 * 64


@pytest.mark.parametrize("kv, size", [("f16", 57344), ("q8_0", 57344 * 34 / 64), ("q4_0", 57344 * 18 / 64), ("fp8_e4m3", 28672)])
def test_cache_formats(kv, size):
    data = inventory(js.load_model("qwen2.5-7b-instruct"), kv_format=kv)
    assert data["kv_cache"]["bytes_per_token_growing"] == size


def test_weights_in_another_format():
    model = js.load_model("llama-3.1-8b-instruct")
    assert inventory(model)["weights"]["bytes"] == 2 * 8030261248
    assert inventory(model, weight_format="f32")["weights"]["bytes"] == pytest.approx(4 * 8030261248, rel=1e-4)  # norms stay
    q4 = inventory(model, weight_format="q4_0")["weights"]["bytes"]
    assert 4.5 < 8 * q4 / 8030261248 < 5


@pytest.mark.parametrize("options, message", [
    ({"kv_format": "q4_k_m"}, "--kv-format: expected a cache format, got q4_k_m"),
    ({"kv_format": "zzz"}, "format 'zzz': no such format"),
    ({"weight_format": "q4_k_mm"}, "Did you mean q4_k_m?"),
    ({"context": 10**7}, "--context: expected at most 131072 tokens for qwen2.5-7b-instruct, got 10000000"),
])
def test_what_is_refused(options, message):
    with pytest.raises(InputError, match=".") as caught:
        inventory(js.load_model("qwen2.5-7b-instruct"), **options)
    assert message in str(caught.value)
