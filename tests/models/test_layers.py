"""Which mixer and which FFN each layer has, in each way that configs say it."""

import pytest

from joulesim.errors import InputError
from joulesim.models import from_config


def kinds(config):
    return [(m.kind, m.layers, m.window) for m in from_config(config, "config").mixers]


def test_layer_types_decide(llama):
    found = kinds(llama | {"layer_types": ["sliding_attention", "full_attention"] * 4, "sliding_window": 128})
    assert found == [("sliding", 4, 128), ("full", 4, None)]


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({"sliding_window": 512, "use_sliding_window": False, "max_window_layers": 8}, [("full", 8, None)]),
        (
            {"sliding_window": 512, "use_sliding_window": True, "max_window_layers": 6},
            [("full", 6, None), ("sliding", 2, 512)],
        ),
        ({"sliding_window": None}, [("full", 8, None)]),
    ],
)
def test_qwen_window_needs_its_switch(llama, fields, expected):
    assert kinds(llama | {"model_type": "qwen2"} | fields) == expected


def test_window_of_a_family_without_a_switch(llama):
    assert kinds(llama | {"model_type": "mistral", "sliding_window": 512}) == [("sliding", 8, 512)]


@pytest.mark.parametrize("pattern", [4, "LLLG"])
def test_window_pattern(llama, pattern):
    found = kinds(llama | {"model_type": "exaone4", "sliding_window": 512, "sliding_window_pattern": pattern})
    assert found == [("sliding", 6, 512), ("full", 2, None)]


def test_empty_no_rope_list_means_every_fourth_layer_is_global(llama):
    fields = {"attention_chunk_size": 256, "no_rope_layers": [], "interleave_moe_layer_step": 1}
    model = from_config(llama | {"model_type": "llama4"} | fields, "config")
    assert [(m.kind, m.layers, m.window) for m in model.mixers] == [("chunked", 6, 256), ("full", 2, None)]
    assert any("one layer in 4 is global" in note for note in model.notes)


def test_layers_that_share_a_cache_keep_none(llama):
    model = from_config(llama | {"num_kv_shared_layers": 3}, "config")
    assert [(m.layers, m.cache_elements) for m in model.mixers] == [(5, 128.0), (3, 0.0)]
    assert sum(len(t.layers) for t in model.tensors if t.name.endswith("k_proj")) == 5


def test_block_configs_with_layers_without_attention(llama):
    block = {"attention": {"n_heads_in_group": 4, "no_op": False}, "ffn": {"ffn_mult": 1.0, "no_op": False}}
    without = {"attention": {"no_op": True}, "ffn": {"ffn_mult": 2.0, "no_op": False}}
    config = llama | {"num_key_value_heads": None, "intermediate_size": None, "block_configs": [block, without] * 4}
    model = from_config(config | {"model_type": "nemotron-nas"}, "config")
    assert [(m.kind, m.layers, m.kv_heads) for m in model.mixers] == [("full", 4, 2)]
    assert {t.rows for t in model.tensors if t.name.endswith("up_proj")} == {256, 512}


def test_index_shared_between_layers_is_kept_once(llama):
    latent = {
        "kv_lora_rank": 32,
        "q_lora_rank": 48,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 16,
        "v_head_dim": 16,
        "index_topk": 64,
        "index_n_heads": 4,
        "index_head_dim": 16,
        "indexer_types": ["full", "shared"] * 4,
    }
    first, second = from_config(llama | {"model_type": "glm_moe_dsa"} | latent, "config").mixers
    assert (first.kind, first.window, first.cache_elements) == ("sparse", 64, 40)
    assert (first.layers, first.index_elements, first.index_flops) == (4, 16, 2 * 4 * 16)
    assert (second.layers, second.index_elements, second.index_flops) == (4, 0, 0)


def test_block_sparse_attention_keeps_keys_values_and_index(llama):
    sparse = {
        "use_sparse_attention": True,
        "sparse_attention_freq": [0, 0, 1, 1, 1, 1, 1, 1],
        "sparse_index_dim": 16,
        "sparse_num_index_heads": 2,
        "sparse_topk_blocks": 4,
        "sparse_block_size": 32,
    }
    full, chosen = from_config(llama | {"model_type": "minimax_m3", "sparse_attention_config": sparse}, "config").mixers
    assert (full.kind, full.layers) == ("full", 2)
    assert (chosen.kind, chosen.layers, chosen.window, chosen.index_elements) == ("sparse", 6, 128, 16)
    assert chosen.cache_elements == full.cache_elements


def test_compressed_attention_is_a_window_and_entries(llama):
    fields = {
        "head_dim": 32,
        "num_key_value_heads": 1,
        "q_lora_rank": 48,
        "o_groups": 2,
        "o_lora_rank": 16,
        "index_n_heads": 4,
        "index_head_dim": 16,
        "index_topk": 8,
        "sliding_window": 64,
        "compress_ratios": [0, 4, 128, 4, 128, 4, 128, 4, 0],
    }
    window, chosen, heavy = from_config(llama | {"model_type": "deepseek_v4"} | fields, "config").mixers
    assert (window.kind, window.layers, window.window, window.cache_elements) == ("sliding", 8, 64, 32)
    assert (chosen.kind, chosen.layers, chosen.compression, chosen.window) == ("compressed", 4, 4, 8)
    assert (chosen.cache_elements, chosen.index_elements) == (8, 4)
    assert (heavy.layers, heavy.compression, heavy.window, heavy.cache_elements) == (3, 128, None, 0.25)


def test_experts_follow_the_pattern(moe):
    model = from_config(moe, "config")
    assert (model.experts.routed, model.experts.per_token, model.experts.layers) == (8, 2, 7)
    dense = [t for t in model.tensors if t.role == "dense_ffn"]
    assert {t.layers for t in dense} == {(0,)}


@pytest.mark.parametrize(
    "fields, layers",
    [
        ({"first_k_dense_replace": 3}, 5),
        ({"moe_layer_freq": [0, 1] * 4}, 4),
        ({"moe_layer_freq": 2}, 4),
        ({"decoder_sparse_step": 4}, 2),
        ({"interleave_moe_layer_step": 2}, 4),
        ({"mlp_layer_types": ["dense"] * 6 + ["sparse"] * 2}, 2),
        ({"moe_layer_start_index": 2}, 6),
    ],
)
def test_ways_to_place_experts(llama, fields, layers):
    config = llama | {"num_experts": 4, "num_experts_per_tok": 1, "moe_intermediate_size": 64}
    assert from_config(config | fields, "config").experts.layers == layers


def test_unknown_mixer_is_refused_by_name(llama):
    with pytest.raises(InputError, match="layer_types: expected .*got 'hyena'; this mixer is not modelled"):
        from_config(llama | {"layer_types": ["hyena"] * 8}, "config")


def test_unknown_shape_field_is_refused_by_name(llama):
    with pytest.raises(InputError, match="config: mamba_d_state: expected a field that joulesim knows, got 16"):
        from_config(llama | {"mamba_d_state": 16}, "config")


def test_unknown_model_type_is_noted(llama):
    model = from_config(llama | {"model_type": "lama"}, "config")
    assert any("'lama' is not known: read as a Llama-like decoder. Did you mean llama?" in n for n in model.notes)


@pytest.mark.parametrize("model_type", ["bert", "xlm-roberta", "modernbert", "t5"])
def test_encoders_are_refused(llama, model_type):
    with pytest.raises(InputError, match=f"model_type: '{model_type}' is an encoder"):
        from_config(llama | {"model_type": model_type}, "config")


def test_tied_embeddings_at_the_root_or_in_the_text_part(llama):
    text = {k: v for k, v in llama.items() if k != "tie_word_embeddings"}
    assert from_config({"text_config": text, "tie_word_embeddings": True}, "config").tied_embeddings
    assert from_config({"text_config": text | {"tie_word_embeddings": True}}, "config").tied_embeddings
    silent = from_config({"text_config": text}, "config")
    assert not silent.tied_embeddings
    assert any("tie_word_embeddings is not in the config" in note for note in silent.notes)


def test_other_parts_are_named(llama):
    config = {"text_config": llama | {"num_nextn_predict_layers": 1}, "vision_config": {"depth": 3}}
    assert from_config(config, "config").left_out == {"vision tower": 0, "multi-token prediction": 0}
