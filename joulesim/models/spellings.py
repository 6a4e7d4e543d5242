"""Rarer spellings of a layer layout, rewritten as the usual ``layer_types`` and lists with one item a layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from joulesim.models.fields import Fields, short

Rewrite = Callable[[Fields, int], dict[str, Any]]


def usual(fields: Fields, layers: int) -> Mapping[str, Any]:
    """The config with every rarer spelling in it added in its usual form; what is there already stays."""
    added: dict[str, Any] = {}
    for field, rewrite in REWRITES.items():
        if fields.has(field):
            added |= rewrite(fields, layers)
    return {**added, **{name: value for name, value in fields.data.items() if value is not None}}


def _listed(field: str, inside: str, outside: str) -> Rewrite:
    """Numbers of the layers of one kind; the others are of the other kind."""

    def rewrite(fields: Fields, layers: int) -> dict[str, Any]:
        given = fields.value(field)
        if not isinstance(given, list):
            fields.fault(field, f"expected a list of layer numbers, got {short(given)}")
            return {}
        return {"layer_types": [inside if i in given else outside for i in range(layers)]}

    return rewrite


def _period(field: str, offset: str, target: str, inside: str, outside: str) -> Rewrite:
    """Every n-th layer, counted from an offset (Jamba)."""

    def rewrite(fields: Fields, layers: int) -> dict[str, Any]:
        every, first = fields.whole(field), fields.whole(offset, default=0, low=0)
        return {target: [inside if i % every == first else outside for i in range(layers)]}

    return rewrite


def _blocks(fields: Fields, layers: int) -> dict[str, Any]:
    """``block_configs`` of DeciLM and Nemotron-NAS: each layer its own attention and FFN, or none."""
    blocks = [block if isinstance(block, Mapping) else {} for block in fields.each("block_configs", layers) or []]
    heads, hidden = fields.whole("num_attention_heads"), fields.whole("hidden_size")
    kv_heads, widths = [], []
    for number, block in enumerate(blocks):
        attention, ffn = (
            part if isinstance(part, Mapping) else {} for part in (block.get("attention"), block.get("ffn"))
        )
        inner = Fields({**attention, **ffn}, f"{fields.where}: block_configs[{number}]")
        if attention.get("replace_with_linear") or ffn.get("replace_with_linear"):
            inner.fault(
                "replace_with_linear",
                "expected attention, an FFN or none, got a single matrix",
                "it is not modelled",
            )
        shared = inner.whole("n_heads_in_group", default=0, low=0)
        given = heads // shared if shared else inner.whole("num_key_value_heads", default=0, low=0)
        kv_heads.append(0 if attention.get("no_op") else given)
        scale = inner.value("ffn_mult")
        scaled = isinstance(scale, (int, float)) and not isinstance(scale, bool) and 0 < scale < 1000
        width = (
            256 * ceil(int(2 * scale * hidden / 3) / 256)
            if scaled
            else inner.whole("intermediate_size", default=0, low=0)
        )
        widths.append(0 if ffn.get("no_op") else width)
        fields.faults += inner.faults
    fields.note("block_configs: each layer has its own number of KV heads and FFN width, none where it is a no-op")
    return {"num_key_value_heads": kv_heads, "intermediate_size": widths}


def _kimi(fields: Fields, layers: int) -> dict[str, Any]:
    """``linear_attn_config`` of Kimi-Linear, which counts layers from 1."""
    part = Fields(fields.part("linear_attn_config"), f"{fields.where}: linear_attn_config")
    full = part.value("full_attn_layers")
    if not isinstance(full, list):
        part.fault("full_attn_layers", f"expected a list of layer numbers, got {short(full)}")
        full = []
    added = {
        "layer_types": ["full_attention" if i + 1 in full else "linear_attention" for i in range(layers)],
        "kda_num_heads": part.whole("num_heads"),
        "kda_head_dim": part.whole("head_dim"),
        "kda_conv_kernel": part.whole("short_conv_kernel_size", default=4, high=1024),
    }
    fields.faults += part.faults
    return added


def _short_convolution(fields: Fields, layers: int) -> dict[str, Any]:
    """FFN width of LFM2: two thirds of the written one, rounded up."""
    if not fields.flag("block_auto_adjust_ff_dim"):
        return {}
    width = int(2 * fields.whole("block_ff_dim", "intermediate_size") / 3)
    scale = fields.value("block_ffn_dim_multiplier")
    if isinstance(scale, (int, float)) and not isinstance(scale, bool) and 0 < scale < 1000:
        width = int(scale * width)
    step = fields.whole("block_multiple_of", default=256)
    fields.note("the FFN width is two thirds of the written one, rounded up (block_auto_adjust_ff_dim)")
    return {"adjusted_intermediate_size": step * ceil(width / step)}


def _compressed(fields: Fields, layers: int) -> dict[str, Any]:
    """DeepSeek-V4 by names instead of ratios."""
    rates = {
        "sliding_attention": 0,
        "compressed_sparse_attention": 4,
        "heavily_compressed_attention": 128,
        **fields.part("compress_rates"),
    }
    names = fields.each("layer_types", layers) or []
    unknown = sorted({str(name) for name in names if not isinstance(name, str) or name not in rates})
    if unknown:
        fields.fault(
            "layer_types",
            f"expected {', '.join(rates)}, got {', '.join(unknown)}",
            "this mixer is not modelled",
        )
        return {}
    return {"compress_ratios": [rates[name] for name in names]}


REWRITES: dict[str, Rewrite] = {
    "full_attn_idxs": _listed("full_attn_idxs", "full_attention", "conv"),
    "attn_layer_indices": _listed("attn_layer_indices", "attention", "mamba"),
    "attn_layer_period": _period("attn_layer_period", "attn_layer_offset", "layer_types", "attention", "mamba"),
    "expert_layer_period": _period("expert_layer_period", "expert_layer_offset", "mlp_layer_types", "sparse", "dense"),
    "block_configs": _blocks,
    "linear_attn_config": _kimi,
    "block_auto_adjust_ff_dim": _short_convolution,
    "compress_rates": _compressed,
}
"""What each rarer field adds."""
