"""The format of each matrix by the quantisation block of a checkpoint."""

import json

import pytest

from joulesim.errors import InputError
from joulesim.models import from_config, read_model

BLOCK = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}


def by_role(model):
    """Formats by role."""
    return {role: {t.format for t in model.tensors if t.role == role} for role in {t.role for t in model.tensors}}


def test_plain_checkpoint_has_its_dtype(llama):
    model = from_config(llama, "config")
    assert (model.weight_format, model.kv_format) == ("bf16", None)
    assert {t.format for t in model.tensors} == {"bf16"}


@pytest.mark.parametrize("place", ["root", "text"])
def test_fp8_blocks_leave_embeddings_output_and_norms(llama, place):
    config = (
        llama | {"quantization_config": BLOCK}
        if place == "root"
        else {"text_config": llama, "quantization_config": BLOCK}
    )
    model = from_config(config, "config")
    assert by_role(model)["attention"] == by_role(model)["dense_ffn"] == {"fp8_block128"}
    assert by_role(model)["input_embedding"] == by_role(model)["output"] == by_role(model)["vector"] == {"bf16"}
    assert model.weight_format == "fp8_block128"


def test_router_stays_when_a_list_names_gates(moe):
    block = BLOCK | {"modules_to_not_convert": ["gate", "lm_head", *(f"model.layers.{i}.mlp.gate" for i in range(8))]}
    found = by_role(from_config(moe | {"quantization_config": block}, "config"))
    assert found["router"] == {"bf16"}
    assert found["routed_expert"] == found["dense_ffn"] == {"fp8_block128"}


def test_mxfp4_covers_experts_only(moe):
    names = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    block = {"quant_method": "mxfp4", "modules_to_not_convert": names}
    found = by_role(from_config(moe | {"model_type": "gpt_oss", "quantization_config": block}, "config"))
    assert found["attention"] == {"bf16"}
    assert found["routed_expert"] == {"mxfp4", "bf16"}, "the experts' biases are not matrices"


def test_modelopt_file_beside_the_config(tmp_path, llama):
    (tmp_path / "X_config.json").write_text(json.dumps(llama))
    quant = {
        "producer": {},
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]},
    }
    (tmp_path / "X_hf_quant_config.json").write_text(json.dumps(quant))
    model = read_model(tmp_path / "X_config.json")
    assert (model.weight_format, model.kv_format) == ("fp8_e4m3", "fp8_e4m3")
    assert by_role(model)["output"] == {"bf16"}


def test_modelopt_file_in_a_folder(tmp_path, llama):
    (tmp_path / "config.json").write_text(json.dumps(llama))
    quant = {
        "quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["model.layers.1.*", "*.v_proj"]}
    }
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(quant))
    model = read_model(tmp_path)
    down = {t.format: t.layers for t in model.tensors if t.name.endswith("down_proj")}
    assert down == {"nvfp4": (0, 2, 3, 4, 5, 6, 7), "bf16": (1,)}
    assert {t.format for t in model.tensors if t.name.endswith("v_proj")} == {"bf16"}


def test_prefix_of_a_multimodal_checkpoint_does_not_matter(llama):
    block = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["model.language_model.layers.0.self_attn*"]}
    model = from_config({"text_config": llama, "quantization_config": block}, "config")
    query = {t.format: t.layers for t in model.tensors if t.name.endswith("q_proj")}
    assert query == {"bf16": (0,), "nvfp4": (1, 2, 3, 4, 5, 6, 7)}


def test_mixed_precision_takes_listed_modules(llama):
    listed = {f"model.layers.{i}.self_attn.q_proj": {"quant_algo": "FP8"} for i in range(8)}
    listed["lm_head"] = {"quant_algo": "W4A16_NVFP4", "group_size": 16}
    quant = {
        "quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": listed, "kv_cache_quant_algo": "FP8"}
    }
    model = from_config(llama, "config", quant)
    assert {t.format for t in model.tensors if t.name.endswith("q_proj")} == {"fp8_e4m3"}
    assert {t.format for t in model.tensors if t.name.endswith("k_proj")} == {"bf16"}
    assert by_role(model)["output"] == {"nvfp4"}


def test_four_bit_experts_of_an_fp8_checkpoint(moe):
    model = from_config(moe | {"quantization_config": BLOCK, "expert_dtype": "fp4"}, "config")
    assert by_role(model)["routed_expert"] == {"mxfp4"}
    assert by_role(model)["attention"] == {"fp8_block128"}


@pytest.mark.parametrize(
    "block, expected",
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "int4_g128"),
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, "int4_g64"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}, "nf4_double"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "fp8"}, "fp8_e4m3"),
    ],
)
def test_schemes(llama, block, expected, formats):
    model = from_config(llama | {"quantization_config": block}, "config")
    assert {t.format for t in model.tensors if t.role == "attention"} == {expected}
    assert expected in formats


def test_compressed_tensors(llama):
    weights = {"num_bits": 4, "type": "float", "group_size": 16}
    block = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": weights, "targets": ["Linear"]}},
        "ignore": ["re:.*lm_head", "re:.*self_attn.*"],
        "kv_cache_scheme": {"num_bits": 8, "type": "float"},
    }
    model = from_config(llama | {"quantization_config": block}, "config")
    assert by_role(model)["dense_ffn"] == {"nvfp4"}
    assert by_role(model)["attention"] == {"bf16"}
    assert model.kv_format == "fp8_e4m3"


def test_compression_config_of_older_checkpoints(llama):
    block = {"config_groups": {"0": {"weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}}}
    assert from_config(llama | {"compression_config": block}, "config").weight_format == "int8"


@pytest.mark.parametrize(
    "block, message",
    [
        ({"quant_method": "aqlm"}, "quant_method: expected fp8, .*got 'aqlm'; this scheme is not modelled"),
        (
            {"quant_method": "fp8", "weight_block_size": [64, 64]},
            r"weight_block_size: expected \[128, 128\], got \[64, 64\]",
        ),
        ({"quant_method": "gptq", "bits": 3}, "expected 4 bits in groups of 32, 64 or 128, or 8 bits, got 3 bits"),
        ({"quant_method": "modelopt", "quant_algo": "W2"}, "quant_algo: expected .*got 'W2'"),
        ({"quant_method": "fp8", "ignore": ["re:(a+)+$"]}, "expected a pattern of names"),
        ({"quant_method": "fp8", "ignore": "lm_head"}, "ignore: expected a list of module names, got 'lm_head'"),
        ("fp8", "quantization_config: expected a mapping of fields, got 'fp8'"),
        ({"quant_method": "fp8", "kv_cache_scheme": "INT3"}, "kv_cache_scheme: expected FP8, NVFP4, INT8, got 'INT3'"),
    ],
)
def test_scheme_that_is_not_known_is_refused(llama, block, message):
    with pytest.raises(InputError, match=message):
        from_config(llama | {"quantization_config": block}, "config")
