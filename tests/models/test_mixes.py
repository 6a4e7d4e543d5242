"""Sizes of llama.cpp's file mixes against published files, and the choice of layouts."""

import csv
from pathlib import Path

import pytest

from joulesim.errors import InputError
from joulesim.models import from_config
from joulesim.models.mixes import weight_table
from joulesim.models.recipes import BLOCKS, RECIPES

REFERENCE = Path(__file__).parents[1] / "reference" / "model_file_sizes.csv"
LLAMA_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}


def size(model, name, formats):
    return sum(row.bytes for row in weight_table(model, formats[name], formats))


with REFERENCE.open(encoding="utf-8", newline="") as file:
    FILES = list(csv.DictReader(file))


@pytest.mark.parametrize("case", FILES, ids=lambda case: f"{case['mix']}-{case['model']}")
def test_published_file_size(case, formats):
    """Llama 3 and 3.1 have the same tensors; sizes printed without a bit count are rounded to 0.01 GiB upwards."""
    model = from_config(LLAMA_8B, "Llama-3.1-8B")
    found = size(model, case["mix"], formats)
    assert found / 2**30 == pytest.approx(float(case["file_size_gib"]), abs=float(case["tolerance_gib"]))
    if case["bits_per_weight"]:
        assert 8 * found / model.parameters == pytest.approx(float(case["bits_per_weight"]), abs=6e-5)


def test_every_recipe_has_a_format_and_known_blocks(formats):
    assert {spec.recipe for spec in formats.values() if spec.recipe} == set(RECIPES)
    for name, block in BLOCKS.items():
        assert formats[name].block_weights == block
    for recipe in RECIPES.values():
        layouts = {recipe.base, recipe.output, recipe.embedding or recipe.base, *(rule.format for rule in recipe.rules)}
        assert layouts <= set(BLOCKS)


def test_rows_that_do_not_divide_fall_back(formats):
    """Qwen2.5-0.5B: rows of 896 hold no block of 256, rows of 4864 do."""
    config = {
        "model_type": "qwen2",
        "hidden_size": 896,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "intermediate_size": 4864,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    }
    rows = weight_table(from_config(config, "Qwen2.5-0.5B"), formats["q4_k_m"], formats)
    found = {(row.role, row.format) for row in rows}
    assert ("output", "q8_0") in found
    assert {format for role, format in found if role == "attention"} == {"q5_0", "q8_0"}
    assert {format for role, format in found if role == "dense_ffn"} == {"q5_0", "q4_k", "q6_k"}


def test_eight_experts_keep_keys_and_values_in_eight_bits(moe, formats):
    model = from_config(moe | {"hidden_size": 256, "head_dim": 32}, "config")
    layouts = {}
    for row in weight_table(model, formats["q4_k_m"], formats):
        layouts.setdefault(row.role, set()).add(row.format)
    assert layouts["attention"] == {"q4_k", "q8_0", "q5_k"}
    assert layouts["router"] == layouts["vector"] == {"f32"}


def test_plain_format_covers_matrices_and_keeps_vectors(llama, formats):
    rows = {row.role: row for row in weight_table(from_config(llama, "config"), formats["fp8_e4m3"], formats)}
    assert rows["attention"].format == rows["output"].format == "fp8_e4m3"
    assert rows["vector"].format == "bf16"
    assert rows["attention"].bytes == rows["attention"].weights


def test_checkpoint_keeps_what_it_stores(llama, formats):
    block = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    model = from_config(llama | {"quantization_config": block}, "config")
    rows = {(row.role, row.format): row for row in weight_table(model, None, formats)}
    ffn = rows["dense_ffn", "fp8_block128"]
    assert ffn.bytes == ffn.weights * (1 + 4 / 128**2)
    assert rows["output", "bf16"].bytes == 2 * rows["output", "bf16"].weights


def test_roles_of_a_format_leave_the_others(moe, formats):
    spec = formats["mxfp4"].model_copy(update={"roles": ("routed_expert",)})
    found = {row.role: row.format for row in weight_table(from_config(moe, "config"), spec, formats)}
    assert found["routed_expert"] == "mxfp4"
    assert found["attention"] == "bf16"


@pytest.mark.parametrize("mix", sorted(RECIPES))
def test_weights_add_up_to_the_parameters(moe, mix, formats):
    model = from_config(moe, "config")
    name = next(spec.name for spec in formats.values() if spec.recipe == mix)
    assert sum(row.weights for row in weight_table(model, formats[name], formats)) == model.parameters


def test_falcon_mixes_are_refused(llama, formats):
    model = from_config(llama | {"model_type": "falcon"}, "config")
    with pytest.raises(InputError, match="rules of its own for Falcon in q4_k_m"):
        weight_table(model, formats["q4_k_m"], formats)


def test_every_number_of_a_format_has_a_source(formats):
    for spec in formats.values():
        for field in ("block_bytes", "recipe", "unpack_instructions"):
            if getattr(spec, field) is not None:
                assert spec.source(field) is not None, (spec.name, field)


def test_aliases_are_unambiguous(formats):
    names = [name for spec in formats.values() for name in (spec.name, *spec.aliases)]
    assert len(set(names)) == len(names)


def test_cache_formats(formats):
    expected = {"f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "fp8_e4m3", "fp8_e5m2"}
    assert {name for name, spec in formats.items() if spec.cache} == expected


def test_block_sizes_of_ggml(formats):
    """The gguf package holds the same sizes; its NVFP4 block is four of ours."""
    sizes = pytest.importorskip("gguf").GGML_QUANT_SIZES
    for kind, (weights, size) in sizes.items():
        spec = formats.get(kind.name.lower())
        if spec is not None and kind.name != "Q8_1":
            assert spec.bytes_per_weight == size / weights, kind.name
