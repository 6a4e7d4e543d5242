"""A ``.gguf`` file as a model: mixers from its keys, matrices and their formats from its tensor table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from joulesim.errors import Fault, InputError
from joulesim.models.attention import ATTENTION_KINDS, read_attention
from joulesim.models.compressed import read_compressed
from joulesim.models.families import Family, refusal
from joulesim.models.fields import MOST_LAYERS, Fields
from joulesim.models.gguf_header import Header, Length, read_header
from joulesim.models.gguf_tensors import read_tensors
from joulesim.models.parts import Parts
from joulesim.models.recurrent import read_linear, read_mamba, read_short_convolution, read_wkv
from joulesim.specs.model import Experts, ModelSpec, Tensor

NAMES = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.value_length": "v_head_dim",
    "attention.key_length_swa": "swa_head_dim",
    "attention.value_length_swa": "swa_v_head_dim",
    "attention.sliding_window": "sliding_window",
    "attention.shared_kv_layers": "num_kv_shared_layers",
    "attention.indexer.head_count": "index_n_heads",
    "attention.indexer.key_length": "index_head_dim",
    "attention.indexer.top_k": "index_topk",
    "attention.compress_ratios": "compress_ratios",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "attention.output_group_count": "o_groups",
    "attention.output_lora_rank": "o_lora_rank",
    "full_attention_interval": "full_attention_interval",
    "shortconv.l_cache": "conv_L_cache",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_shared_count": "n_shared_experts",
    "kda.head_dim": "kda_head_dim",
    "wkv.head_size": "wkv_head_size",
    "token_shift_count": "token_shift_count",
}
"""Field of a Hugging Face config that says what a GGUF key says; keys stand after the name of the architecture."""

WINDOW_PATTERN = {
    "gemma2": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "gpt-oss": 2,
    "cohere2": 4,
    "exaone4": 4,
    "olmo2": 4,
    "llama4": 4,
}
"""Every n-th layer is global where the file has no pattern: what llama.cpp assumes of each architecture."""
CHUNK = {"llama4": 8192}
"""Chunk length that llama.cpp assumes where the file has none."""
DELTA_NET = ("qwen3next", "qwen35", "qwen35moe")
FIRST_MAMBA = ("mamba", "jamba")
PARALLEL = ("falcon-h1",)
"""Architectures with attention and a Mamba block in every layer."""


def read_gguf(path: Path) -> ModelSpec:
    """
    Model in a ``.gguf`` file.

    Raises
    ------
    InputError
        When the file is damaged (see :func:`joulesim.models.gguf_header.read_header`), lacks a key that the
        cache depends on, or holds no decoder.
    """
    where, header = str(path), read_header(path)
    architecture = header.keys.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise InputError(
            Fault(
                f"{where}: general.architecture",
                f"expected a name, got {architecture!r}",
                "convert the model again",
            )
        )
    why = refusal(architecture, False) or (
        "an encoder: attention is not causal" if header.keys.get(f"{architecture}.attention.causal") is False else ""
    )
    if why:
        raise InputError(
            Fault(f"{where}: general.architecture", f"{architecture!r} is {why}", "give a decoder-only model")
        )
    fields = Fields(_translated(header, architecture), where)
    hidden = fields.whole("hidden_size")
    stacked = fields.whole("num_hidden_layers", high=MOST_LAYERS)
    predictors = Fields(header.keys, where).whole(f"{architecture}.nextn_predict_layers", default=0, low=0)
    context = fields.whole("max_position_embeddings", default=None, high=1 << 40)
    if not predictors < stacked:
        fields.fault("nextn_predict_layers", f"expected fewer than the {stacked} blocks, got {predictors}")
    fields.check()

    layers = stacked - predictors
    tensors, left_out = read_tensors(header.tensors, layers)
    parts = Parts(fields, Family(), hidden)
    _mixers(parts, header, architecture, layers)
    experts = _experts(fields, tensors, layers)
    fields.check()
    if predictors:
        fields.note(f"{predictors} of the {stacked} blocks predict further tokens and are not counted")
    stored = {format: sum(t.weights for t in tensors if t.format == format) for format in {t.format for t in tensors}}
    return ModelSpec(
        name=path.stem,
        architecture=architecture,
        layers=layers,
        hidden_size=hidden,
        vocabulary=_vocabulary(header, architecture, fields),
        max_context=context,
        tied_embeddings=not any(tensor.name == "output.weight" for tensor in header.tensors),
        mixers=parts.mixers,
        tensors=tensors,
        experts=experts,
        weight_format=max(stored, key=stored.get, default=None),
        left_out=left_out,
        notes=tuple(fields.notes),
        source=where,
    )


def _translated(header: Header, architecture: str) -> dict[str, Any]:
    """Keys under the names that Hugging Face configs have, so that one reader serves both."""
    key = lambda name: header.keys.get(f"{architecture}.{name}")  # noqa: E731
    found = {field: key(name) for name, field in NAMES.items() if key(name) is not None}
    if "kv_lora_rank" in found and key("attention.key_length_mla") is not None:
        rope = key("rope.dimension_count")
        whole, value = key("attention.key_length_mla"), key("attention.value_length_mla")
        found |= {"qk_rope_head_dim": rope, "v_head_dim": value}
        if isinstance(rope, int) and isinstance(whole, int):
            found["qk_nope_head_dim"] = whole - rope
    if "kda_head_dim" in found:
        found |= {
            "kda_num_heads": found.get("num_attention_heads"),
            "kda_conv_kernel": key("ssm.conv_kernel"),
        }
    if key("attention.indexer.block_size") is not None:
        found["sparse_attention_config"] = {
            "sparse_index_dim": found.pop("index_head_dim", None),
            "sparse_num_index_heads": found.pop("index_n_heads", None),
            "sparse_topk_blocks": found.pop("index_topk", None),
            "sparse_block_size": key("attention.indexer.block_size"),
        }
    kinds = key("attention.indexer.types")
    if isinstance(kinds, list):
        found["indexer_types"] = ["full" if kind else "shared" for kind in kinds]
    found |= _state_sizes(key, architecture)
    return found


def _state_sizes(key: Any, architecture: str) -> dict[str, Any]:
    """Sizes of recurrent layers: one set of ``ssm`` keys means three things."""
    sizes = {
        name: key(f"ssm.{name}")
        for name in ("conv_kernel", "inner_size", "state_size", "time_step_rank", "group_count")
    }
    inner, rank = sizes["inner_size"], sizes["time_step_rank"]
    if not all(isinstance(size, int) for size in (inner, rank)) or rank < 1:
        return {}
    if architecture in DELTA_NET:
        return {
            "linear_num_value_heads": rank,
            "linear_value_head_dim": inner // rank,
            "linear_num_key_heads": sizes["group_count"],
            "linear_key_head_dim": sizes["state_size"],
            "linear_conv_kernel_dim": sizes["conv_kernel"],
        }
    shared = {
        "conv_kernel": sizes["conv_kernel"],
        "ssm_state_size": sizes["state_size"],
        "state_size": sizes["state_size"],
    }
    if architecture in FIRST_MAMBA:
        return {**shared, "mamba_inner_size": inner, "time_step_rank": rank}
    return {
        **shared,
        "mamba_num_heads": rank,
        "mamba_head_dim": inner // rank,
        "n_groups": sizes["group_count"] or 1,
    }


def _mixers(parts: Parts, header: Header, architecture: str, layers: int) -> None:
    """Add the mixers; the matrices that the readers would add are those of the file instead."""
    fields = parts.fields
    if fields.value("compress_ratios") is not None:
        read_compressed(parts, layers)
        return
    if architecture.startswith("rwkv"):
        read_wkv(parts, layers)
        return
    kinds = _kinds(fields, header, architecture, layers)
    attention = ["full" if kind == "both" else kind for kind in kinds]
    attends = any(kind in ATTENTION_KINDS for kind in attention)
    if attends and fields.value("num_attention_heads") is None:
        fields.fault(
            f"{architecture}.attention.head_count",
            "expected a whole number, got nothing",
            "convert the model again: the number of heads cannot be told from the rest",
        )
    if attends and fields.value("kv_lora_rank") is not None and fields.value("qk_nope_head_dim") is None:
        fields.note("the file was converted before latent attention: llama.cpp keeps full keys and values for it")
        parts.fields = fields = Fields({k: v for k, v in fields.data.items() if k != "kv_lora_rank"}, fields.where)
    fields.check()
    if attends:
        read_attention(parts, attention)
    read_linear(parts, [i for i, kind in enumerate(kinds) if kind == "linear"])
    read_mamba(parts, [i for i, kind in enumerate(kinds) if kind in ("mamba", "both")])
    read_short_convolution(parts, [i for i, kind in enumerate(kinds) if kind == "conv"])


def _kinds(fields: Fields, header: Header, architecture: str, layers: int) -> list[str]:
    """Mixer of each layer: what the file's keys say, else what its tensors show."""
    if architecture in PARALLEL:
        return ["both"] * layers
    if fields.has("sparse_attention_config"):
        dense = Fields(header.keys, fields.where).whole(f"{architecture}.leading_dense_block_count", default=0, low=0)
        fields.note(f"the first {dense} layers attend fully, the others to chosen blocks")
        return ["sparse" if i >= dense else "full" for i in range(layers)]
    recurrent = _recurrent(fields, header, layers)
    pattern = header.keys.get(f"{architecture}.attention.sliding_window_pattern")
    local = "chunked" if architecture in CHUNK else "sliding"
    if architecture in CHUNK:
        fields.data = {
            "attention_chunk_size": fields.value("sliding_window") or CHUNK[architecture],
            **fields.data,
        }
    windowed = [False] * layers
    if isinstance(pattern, list):
        windowed = [bool(item) for item in (pattern + [False] * layers)[:layers]]
        if len(pattern) < layers:
            fields.fault("sliding_window_pattern", f"expected {layers} items, one a layer, got {len(pattern)}")
    elif local == "chunked" or fields.value("sliding_window"):
        every = (
            pattern if isinstance(pattern, int) and not isinstance(pattern, bool) else WINDOW_PATTERN.get(architecture)
        )
        if every is None or every < 1:
            fields.note(
                "the file has a sliding window and does not say which layers use it: attention is full, as in llama.cpp"
            )
        else:
            windowed = [(i + 1) % every != 0 for i in range(layers)]
    return [found or (local if windowed[i] else "full") for i, found in enumerate(recurrent)]


def _recurrent(fields: Fields, header: Header, layers: int) -> list[str]:
    """Recurrent kind of each layer, empty where it attends."""
    state = (
        "linear"
        if fields.has("linear_num_value_heads") or fields.has("kda_head_dim")
        else "conv"
        if fields.has("conv_L_cache")
        else "mamba"
    )
    if fields.has("full_attention_interval"):
        every = fields.whole("full_attention_interval")
        return ["" if (i + 1) % every == 0 else state for i in range(layers)]
    kv_heads = fields.value("num_key_value_heads")
    names = {tensor.name for tensor in header.tensors}
    shown = [
        any(f"blk.{i}.{name}" in names for name in ("ssm_out.weight", "shortconv.in_proj.weight"))
        for i in range(layers)
    ]
    if isinstance(kv_heads, list) and 0 in kv_heads:
        stateful = any(map(fields.has, ("linear_num_value_heads", "kda_head_dim", "conv_L_cache", "ssm_state_size")))
        none = lambda i: state if stateful and (shown[i] or not any(shown)) else "none"  # noqa: E731
        return [none(i) if i < len(kv_heads) and kv_heads[i] == 0 else "" for i in range(layers)]
    if fields.has("ssm_state_size") and not fields.has("num_attention_heads"):
        return [state] * layers
    return [state if found else "" for found in shown]


def _experts(fields: Fields, tensors: tuple[Tensor, ...], layers: int) -> Experts | None:
    routed = fields.whole("num_experts", default=0, low=0)
    if not routed:
        return None
    having = {layer for tensor in tensors if tensor.role == "routed_expert" for layer in tensor.layers}
    return Experts(
        routed,
        fields.whole("num_experts_per_tok", high=routed),
        fields.whole("n_shared_experts", default=0, low=0),
        len(having) or layers,
    )


def _vocabulary(header: Header, architecture: str, fields: Fields) -> int:
    rows = next((tensor.shape[-1] for tensor in header.tensors if tensor.name == "token_embd.weight"), None)
    tokens = header.keys.get("tokenizer.ggml.tokens")
    given = (
        rows or header.keys.get(f"{architecture}.vocab_size") or (int(tokens) if isinstance(tokens, Length) else None)
    )
    return Fields({"vocab_size": given}, fields.where).whole("vocab_size", default=0)
