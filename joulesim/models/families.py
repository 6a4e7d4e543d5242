"""
What a config leaves to the code of its family: norms, biases, names of modules.

Read off the modelling code of Hugging Face transformers 5.24 (``models/<model_type>/modeling_<model_type>.py``);
``tests/reference/model_parameters.csv`` holds the parameter counts that this code gives. A new family is a row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Family(NamedTuple):
    """Traits of the decoder layers of a family."""

    mixer: str = "full"
    """Kind of mixer where no field says otherwise."""
    has_ffn: bool = True
    norms: int = 2
    """Norms per layer over the hidden width."""
    norm_vectors: int = 1
    """Vectors per norm: 1 (scale), 2 (scale and shift), 0 (none)."""
    final_norm: bool = True
    embedding_norm: bool = False
    qkv_bias: bool = False
    """Whether q, k and v have biases where no field says so."""
    out_bias: bool | None = None
    """Whether the attention output has one; ``None``: as q, k and v."""
    bias_fields: tuple[str, ...] = ("attention_bias",)
    """Fields that say whether q, k and v have biases."""
    qk_norm: str = ""
    """Norm of queries and keys: ``head`` (one head's width), ``all`` (all heads), ``heads`` (own scale a head)."""
    qk_norm_field: str = ""
    """Field that switches it."""
    gated: bool = True
    """Whether the FFN multiplies two projections (three matrices) or has one (two matrices)."""
    ffn_bias: bool = False
    ffn_bias_fields: tuple[str, ...] = ("mlp_bias",)
    output_bias: bool = False
    attention_gate: bool = False
    """Whether the query projection also makes a gate of the attention output."""
    sinks: str = ""
    """Kinds of layer with one sink logit a head: ``all`` or ``sliding``."""
    tied: bool = False
    """Whether the output reuses the embedding table where no field says so."""
    positions: tuple[str, int] | None = None
    """Field with the number of learned positions, and rows added to them."""
    window_pattern: int = 0
    """Every n-th layer is global where only ``sliding_window`` is given; 0: none is."""
    window_switch: str = ""
    """Field that must be true for a sliding window to hold."""
    keep_window: bool = True
    """Whether the family's code uses ``sliding_window`` at all."""
    expert_bias: bool = False
    router_bias: bool = False
    router_correction: bool = False
    """Whether the router keeps a balancing term per expert."""
    shared_gate: bool = False
    """Whether the shared expert has a gate of its own."""
    dense_beside: bool = False
    """Whether a dense FFN runs beside the experts, with norms for each."""
    inner_norms: bool = False
    """Whether a Mamba layer norms its step, input and output projections (Jamba)."""
    state_norm: str = ""
    """Field that switches the norm of a Mamba-2 layer; empty: it always has one."""
    fused_qkv: str = ""
    """Name of the one matrix that holds q, k and v."""
    prefix: str = "model."
    """What stands before ``layers`` in tensor names."""
    attention: str = "self_attn"
    mamba: str = "mamba"
    ffn: str = "mlp"
    moe: str = "mlp"
    router: str = "gate"
    embedding: str = "model.embed_tokens"
    output: str = "lm_head"
    defaults: Mapping[str, Any] = {}
    """Values that the family's config class fills in, needed because published configs leave them out."""


_LAYER_NORM = Family(norm_vectors=2, qkv_bias=True, gated=False, ffn_bias=True, tied=True)
_GPT = _LAYER_NORM._replace(prefix="transformer.", attention="attn", embedding="transformer.wte")
_QWEN = Family(window_switch="use_sliding_window")
_QWEN3 = _QWEN._replace(qk_norm="head")
_QWEN35 = _QWEN3._replace(attention_gate=True, shared_gate=True, keep_window=False)
_GEMMA = Family(tied=True)
_GEMMA3 = _GEMMA._replace(norms=4, qk_norm="head", window_pattern=6)
_DEEPSEEK = Family(router_correction=True, out_bias=None)
_GLM = Family(qkv_bias=True, out_bias=False)
_V4 = Family(
    router_correction=True,
    prefix="",
    attention="attn",
    ffn="ffn",
    moe="ffn",
    embedding="embed",
    output="head",
)
_MINIMAX = Family(router_correction=True, moe="block_sparse_moe")

_MAMBA = Family(
    norms=1,
    tied=True,
    mixer="mamba",
    has_ffn=False,
    prefix="backbone.",
    mamba="mixer",
    embedding="backbone.embeddings",
)

FAMILIES: dict[str, Family] = {
    "": Family(),
    "llama": Family(),
    "mistral": Family(),
    "ministral": Family(),
    "ministral3": Family(),
    "mixtral": Family(moe="block_sparse_moe"),
    "qwen2": _QWEN._replace(qkv_bias=True, out_bias=False, bias_fields=()),
    "qwen2_moe": _QWEN._replace(qkv_bias=True, out_bias=False, bias_fields=("qkv_bias",), shared_gate=True),
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_next": _QWEN35,
    "qwen3_5": _QWEN35,
    "gemma": _GEMMA,
    "gemma2": _GEMMA._replace(norms=4, window_pattern=2),
    "gemma3": _GEMMA3._replace(
        defaults={
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "vocab_size": 262208,
            "sliding_window": 4096,
            "max_position_embeddings": 131072,
        }
    ),
    "gemma4": _GEMMA3._replace(dense_beside=True, moe="", router="router.proj"),
    "gpt_oss": Family(
        qkv_bias=True, sinks="all", expert_bias=True, router_bias=True, window_pattern=2, router="router"
    ),
    "llama4": Family(moe="feed_forward", ffn="feed_forward", router="router", shared_gate=False),
    "deepseek_v2": Family(),
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _DEEPSEEK,
    "glm_moe_dsa": _DEEPSEEK,
    "deepseek_v4": _V4,
    "minimax_m2": _MINIMAX._replace(qk_norm="all"),
    "minimax_m3": _MINIMAX._replace(qk_norm="head"),
    "minimax": Family(moe="block_sparse_moe"),
    "mimo": _QWEN._replace(qkv_bias=True, out_bias=False),
    "mimo_v2": Family(router_correction=True, sinks="sliding", out_bias=False),
    "nemotron_h": Family(
        norms=1,
        gated=False,
        router_correction=True,
        prefix="backbone.",
        attention="mixer",
        mamba="mixer",
        ffn="mixer",
        moe="mixer",
        embedding="backbone.embeddings",
        out_bias=None,
    ),
    "nemotron": Family(norm_vectors=2, gated=False),
    "arcee": Family(gated=False),
    "phi3": Family(fused_qkv="qkv_proj"),
    "phi": _LAYER_NORM._replace(norms=1, tied=False, output_bias=True, bias_fields=()),
    "cohere": Family(norms=1, tied=True, qk_norm_field="use_qk_norm", qk_norm="heads"),
    "cohere2": Family(norms=1, tied=True, window_pattern=4),
    "starcoder2": _LAYER_NORM._replace(bias_fields=("use_bias",), ffn_bias_fields=("use_bias",)),
    "stablelm": Family(norm_vectors=2, bias_fields=("use_qkv_bias",), out_bias=False),
    "glm": _GLM,
    "glm4": _GLM._replace(norms=4),
    "glm4_moe": Family(out_bias=False, qk_norm="head", qk_norm_field="use_qk_norm", router_correction=True),
    "olmo": Family(norm_vectors=0),
    "olmo2": Family(qk_norm="all"),
    "olmo3": Family(qk_norm="all", window_pattern=4),
    "olmoe": Family(qk_norm="all"),
    "granite": Family(),
    "smollm3": _QWEN._replace(tied=True),
    "seed_oss": Family(qkv_bias=True, bias_fields=("attention_bias",), out_bias=False),
    "exaone4": Family(qk_norm="head", window_pattern=4),
    "ernie4_5": Family(bias_fields=("use_bias",), ffn_bias_fields=("use_bias",), tied=True),
    "ernie4_5_moe": Family(bias_fields=("use_bias",), ffn_bias_fields=("use_bias",), tied=True, router_correction=True),
    "hunyuan_v1_dense": Family(qk_norm="head"),
    "dots1": Family(qk_norm="head", router_correction=True),
    "lfm2": Family(qk_norm="head", tied=True, ffn="feed_forward", moe="feed_forward"),
    "mamba": _MAMBA,
    "mamba2": _MAMBA._replace(tied=False),
    "jamba": Family(ffn="feed_forward", moe="feed_forward", router="router", inner_norms=True),
    "bamba": Family(mixer="mamba", ffn="feed_forward"),
    "falcon_h1": Family(mixer="both", ffn="feed_forward", state_norm="mamba_rms_norm"),
    "granitemoehybrid": Family(ffn="shared_mlp", moe="block_sparse_moe"),
    "kimi_linear": Family(router_correction=True, moe="block_sparse_moe"),
    "gemma3n": _GEMMA3._replace(window_pattern=5, defaults={"num_kv_shared_layers": 15, "sliding_window": 512}),
    "deepseek": Family(),
    "phimoe": Family(norm_vectors=2, moe="block_sparse_moe"),
    "apertus": Family(qk_norm="head", gated=False),
    "chatglm": Family(
        bias_fields=("add_qkv_bias",),
        out_bias=False,
        fused_qkv="query_key_value",
        prefix="transformer.encoder.",
        attention="self_attention",
    ),
    "baichuan": Family(fused_qkv="W_pack"),
    "internlm2": Family(fused_qkv="wqkv", bias_fields=("bias",), attention="attention", ffn="feed_forward"),
    "deci": Family(),
    "solar_open": Family(router_correction=True),
    "gpt2": _GPT._replace(fused_qkv="c_attn", positions=("n_positions", 0)),
    "gpt_bigcode": _GPT._replace(defaults={"multi_query": True}, fused_qkv="c_attn", positions=("n_positions", 0)),
    "gpt_neo": _GPT._replace(qkv_bias=False, out_bias=True, positions=("max_position_embeddings", 0)),
    "gptj": _GPT._replace(norms=1, qkv_bias=False, tied=False, output_bias=True),
    "gpt_neox": _LAYER_NORM._replace(
        tied=False,
        fused_qkv="query_key_value",
        prefix="gpt_neox.",
        attention="attention",
        embedding="gpt_neox.embed_in",
        output="embed_out",
    ),
    "bloom": _GPT._replace(
        fused_qkv="query_key_value",
        embedding_norm=True,
        attention="self_attention",
        embedding="transformer.word_embeddings",
    ),
    "falcon": _GPT._replace(
        defaults={"multi_query": True},
        norms=1,
        qkv_bias=False,
        ffn_bias=False,
        bias_fields=("bias",),
        ffn_bias_fields=("bias",),
        fused_qkv="query_key_value",
        attention="self_attention",
        embedding="transformer.word_embeddings",
    ),
    "opt": _LAYER_NORM._replace(
        bias_fields=("enable_bias",),
        ffn_bias_fields=("enable_bias",),
        prefix="model.decoder.",
        positions=("max_position_embeddings", 2),
        embedding="model.decoder.embed_tokens",
    ),
    "mpt": _GPT._replace(norm_vectors=1, qkv_bias=False, ffn_bias=False, fused_qkv="Wqkv", ffn="ffn"),
}

SAME_AS = {
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen3_5_text": "qwen3_5",
    "qwen3_5_moe": "qwen3_5",
    "qwen3_5_moe_text": "qwen3_5",
    "qwen3_6": "qwen3_5",
    "qwen3_6_text": "qwen3_5",
    "qwen3_6_moe": "qwen3_5",
    "qwen3_6_moe_text": "qwen3_5",
    "gemma3_text": "gemma3",
    "gemma4_text": "gemma4",
    "gemma4_unified": "gemma4",
    "gemma4_unified_text": "gemma4",
    "llama4_text": "llama4",
    "mistral3": "mistral",
    "code_llama": "llama",
    "yi": "llama",
    "deepseek_vl_v2": "deepseek_v2",
    "kimi_k2": "deepseek_v3",
    "kimi_k25": "deepseek_v3",
    "kimi_k25_text": "deepseek_v3",
    "axk1": "deepseek_v3",
    "glm4_moe_lite": "deepseek_v3",
    "deepseek_ref": "deepseek_v4",
    "minimax_m3_vl": "minimax_m3",
    "minimax_m3_vl_text": "minimax_m3",
    "minimax_text_01": "minimax",
    "mimo_v2_flash": "mimo_v2",
    "mimo_v2_pro": "mimo_v2",
    "solar": "llama",
    "internlm3": "llama",
    "hunyuan_v1_moe": "hunyuan_v1_dense",
    "granitemoe": "granite",
    "granitemoeshared": "granite",
    "falcon_mamba": "mamba",
    "lfm2_moe": "lfm2",
    "gemma3n_text": "gemma3n",
    "nemotron-nas": "deci",
    "nemotron_nas": "deci",
}
"""Model types that share another one's traits."""

REFUSED = {
    "bert": "an encoder: it has no decode and keeps no cache",
    "roberta": "an encoder: it has no decode and keeps no cache",
    "t5": "an encoder-decoder, and only decoders are read",
    "whisper": "an encoder-decoder, and only decoders are read",
    "bart": "an encoder-decoder, and only decoders are read",
    "clip": "not a language model",
    "vit": "not a language model",
}
"""Kinds of model that are not read, by a part of their ``model_type``."""
READ_FROM_GGUF = ("rwkv",)
"""Model types whose config is not read, but whose ``.gguf`` is."""


def family_of(model_type: str) -> Family | None:
    """Traits of a model type, or ``None`` when it is not in the table."""
    return FAMILIES.get(SAME_AS.get(model_type, model_type))


def refusal(model_type: str, encoder_decoder: bool) -> str:
    """Why a model is not read, or an empty string."""
    if encoder_decoder:
        return REFUSED["t5"]
    return next((why for part, why in REFUSED.items() if part in model_type.lower()), "")
