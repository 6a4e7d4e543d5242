"""Softmax attention: full, sliding, chunked, latent (MLA) and sparse (top-k), as matrices and as a cache."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from joulesim.models.fields import Fields
from joulesim.models.parts import Parts
from joulesim.specs.model import Mixer

ATTENTION_KINDS = ("full", "sliding", "chunked", "sparse")

_FIELDS_OF_KIND = {
    "heads": {"sliding": ("swa_num_attention_heads",)},
    "kv_heads": {"sliding": ("swa_num_key_value_heads",), "full": ("num_global_key_value_heads",)},
    "key": {"sliding": ("swa_head_dim",), "full": ("global_head_dim",)},
    "value": {"sliding": ("swa_v_head_dim",), "full": ("global_head_dim",)},
}
"""Fields that hold for one kind of layer only and come before the general ones."""
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "num_query_groups")
HEAD_WIDTH = ("head_dim", "attention_head_dim", "kv_channels", "d_kv", "qk_head_dim")
_WINDOW = {
    "sliding": ("sliding_window", "sliding_window_size", "window_size"),
    "chunked": ("attention_chunk_size",),
}


class Shape(NamedTuple):
    """Heads of one layer."""

    kind: str
    heads: int
    kv_heads: int
    key: int
    value: int
    shares: bool
    """Whether it reads an earlier layer's cache and has none of its own."""


def read_attention(parts: Parts, kinds: list[str]) -> None:
    """Add the attention layers among ``kinds`` (one a layer)."""
    fields = parts.fields
    if fields.value("kv_lora_rank") is not None:
        _latent(parts, [i for i, kind in enumerate(kinds) if kind in ATTENTION_KINDS])
        return
    groups: dict[Shape, list[int]] = defaultdict(list)
    for layer, shape in enumerate(_shapes(fields, kinds, parts.hidden)):
        if shape is not None:
            groups[shape].append(layer)
    fields.check()
    for shape, layers in groups.items():
        _projections(parts, shape, layers)
        parts.mixer(_mixer(parts, shape, len(layers)))


def _shapes(fields: Fields, kinds: list[str], hidden: int) -> list[Shape | None]:
    """Heads of each attention layer; ``None`` for the others."""
    layers = len(kinds)
    shared_from = layers - fields.whole("num_kv_shared_layers", default=0, low=0, high=layers)
    by_kind = {kind: _of_kind(fields, kind, layers, hidden) for kind in dict.fromkeys(kinds) if kind in ATTENTION_KINDS}
    shapes: list[Shape | None] = []
    for layer, kind in enumerate(kinds):
        if kind not in by_kind:
            shapes.append(None)
            continue
        heads, kv_heads, key, value = (column[layer] for column in by_kind[kind])
        shapes.append(Shape(kind, heads, kv_heads, key, value, layer >= shared_from) if kv_heads else None)
    return shapes


def _of_kind(fields: Fields, kind: str, layers: int, hidden: int) -> tuple[list[int], ...]:
    """Heads, KV heads, key width and value width of each layer, were all layers of this kind."""

    def read(what: str, general: tuple[str, ...], default: list[int]) -> list[int]:
        special = _FIELDS_OF_KIND[what].get(kind, ())
        found = fields.per_layer(*special, *general, layers=layers, default=0)
        return [number or fallback for number, fallback in zip(found, default, strict=True)]

    heads = read("heads", HEADS, [0] * layers)
    if not any(heads):
        fields.whole(*HEADS)
    one = fields.flag("multi_query") and not fields.flag("new_decoder_architecture")
    fields.ignore(KV_HEADS)
    default_kv = [1] * layers if one else heads
    names = () if one else (*_FIELDS_OF_KIND["kv_heads"].get(kind, ()), *KV_HEADS)
    kv_heads = fields.per_layer(*names, layers=layers, default=-1, low=-1)
    kv_heads = [fallback if number < 0 else number for number, fallback in zip(kv_heads, default_kv, strict=True)]
    for layer, (query, stored) in enumerate(zip(heads, kv_heads, strict=True)):
        if query and stored and query % stored:
            fields.fault(KV_HEADS[0], f"expected a divisor of the {query} query heads, got {stored} (layer {layer})")
            break
    key = read("key", HEAD_WIDTH, [hidden // max(query, 1) for query in heads])
    value = read("value", ("v_head_dim",), key)
    return heads, kv_heads, key, value


def _mixer(parts: Parts, shape: Shape, layers: int) -> Mixer:
    fields = parts.fields
    window = fields.whole(*_WINDOW[shape.kind]) if shape.kind in _WINDOW else None
    kept = 0 if shape.shares else shape.kv_heads * (shape.key + shape.value)
    mixer = Mixer(shape.kind, layers, shape.heads, shape.kv_heads, shape.key, shape.value, float(kept), window=window)
    if shape.shares:
        fields.note(
            f"the last {fields.value('num_kv_shared_layers')} layers read an earlier layer's cache and keep none"
        )
    return _block_sparse(parts, mixer) if shape.kind == "sparse" else mixer


def _block_sparse(parts: Parts, mixer: Mixer) -> Mixer:
    """MiniMax-M3: an index over keys picks blocks of them; keys and values are kept of every token."""
    part = Fields(parts.fields.part("sparse_attention_config"), f"{parts.fields.where}: sparse_attention_config")
    width, heads = part.whole("sparse_index_dim"), part.whole("sparse_num_index_heads")
    chosen = part.whole("sparse_topk_blocks") * part.whole("sparse_block_size")
    no_value = part.value("sparse_disable_index_value")
    if no_value is not None and (not isinstance(no_value, list) or 0 in no_value[-mixer.layers :]):
        part.fault(
            "sparse_disable_index_value",
            f"expected 1 for every sparse layer, got {no_value!r:.60}",
            "an index that keeps values too is not modelled",
        )
    parts.fields.faults += part.faults
    parts.fields.check()
    parts.fields.note(
        f"sparse attention reads {chosen} tokens in blocks; its index keys ({width} a token) are part of the cache"
    )
    return mixer._replace(window=chosen, index_elements=float(width), index_flops=2.0 * heads * width)


def _projections(parts: Parts, shape: Shape, layers: list[int]) -> None:
    fields, family, hidden = parts.fields, parts.family, parts.hidden
    at = parts.inside(family.attention)
    query, keys, values = shape.heads * shape.key, shape.kv_heads * shape.key, shape.kv_heads * shape.value
    gate = 2 if fields.flag("attn_output_gate", default=family.attention_gate) else 1
    bias = fields.flag(*family.bias_fields, default=family.qkv_bias) if family.bias_fields else family.qkv_bias
    out_bias = bias if family.out_bias is None else family.out_bias
    if shape.shares:
        keys = values = 0
    one_for_both = fields.flag("attention_k_eq_v") and shape.kind == "full"
    if one_for_both:
        fields.note("global layers make keys and values with one projection; the cache still keeps both")
    if family.fused_qkv:
        parts.linear(at(family.fused_qkv), "attention", query * gate + keys + values, hidden, layers, bias)
    else:
        parts.linear(at("q_proj"), "attention", query * gate, hidden, layers, bias)
        parts.linear(at("k_proj"), "attention", keys, hidden, layers, bias and keys > 0)
        parts.linear(
            at("v_proj"),
            "attention",
            0 if one_for_both else values,
            hidden,
            layers,
            bias and values > 0 and not one_for_both,
        )
    parts.linear(at("o_proj"), "attention", hidden, shape.heads * shape.value, layers, out_bias)
    _small(parts, shape, layers, keys)
    if shape.kind == "sparse":
        _block_index(parts, layers)


def _small(parts: Parts, shape: Shape, layers: list[int], keys: int) -> None:
    """Norms of queries and keys, and sinks."""
    fields, family = parts.fields, parts.family
    if family.qk_norm and fields.flag(*filter(None, (family.qk_norm_field,)), default=not family.qk_norm_field):
        query_size = shape.key if family.qk_norm == "head" else shape.heads * shape.key
        key_size = shape.key if family.qk_norm == "head" else shape.kv_heads * shape.key
        parts.vector(parts.layer(family.attention, "q_norm"), query_size, layers)
        parts.vector(parts.layer(family.attention, "k_norm"), key_size if keys else 0, layers)
    sinks = {"sliding": ("add_swa_attention_sink_bias",), "full": ("add_full_attention_sink_bias",)}.get(shape.kind, ())
    if fields.flag(*sinks, default=family.sinks in ("all", shape.kind)):
        parts.vector(parts.layer(family.attention, "sinks"), shape.heads, layers)


def _block_index(parts: Parts, layers: list[int]) -> None:
    part = parts.fields.part("sparse_attention_config")
    width, heads = int(part["sparse_index_dim"]), int(part["sparse_num_index_heads"])
    module = f"{parts.family.attention}.indexer"
    parts.matrix(parts.layer(module, "q_proj"), "attention", heads * width, parts.hidden, layers)
    parts.matrix(parts.layer(module, "k_proj"), "attention", width, parts.hidden, layers)
    parts.vector(parts.layer(module, "q_norm"), width, layers)
    parts.vector(parts.layer(module, "k_norm"), width, layers)


def _latent(parts: Parts, layers: list[int]) -> None:
    """Multi-head latent attention: one latent and one rotated key per token, shared by all heads."""
    fields, hidden = parts.fields, parts.hidden
    heads, latent, rope = (
        fields.whole(*HEADS),
        fields.whole("kv_lora_rank"),
        fields.whole("qk_rope_head_dim", low=0),
    )
    nope, value = fields.whole("qk_nope_head_dim"), fields.whole("v_head_dim")
    query_rank = fields.whole("q_lora_rank", default=0, low=0)
    fields.ignore((*KV_HEADS, *HEAD_WIDTH))
    fields.check()
    at = parts.inside(parts.family.attention)
    bias = fields.flag("attention_bias")
    if query_rank:
        parts.linear(at("q_a_proj"), "attention", query_rank, hidden, layers, bias)
        parts.vector(at("q_a_layernorm"), query_rank, layers)
        parts.matrix(at("q_b_proj"), "attention", heads * (nope + rope), query_rank, layers)
    else:
        parts.matrix(at("q_proj"), "attention", heads * (nope + rope), hidden, layers)
    parts.linear(at("kv_a_proj_with_mqa"), "attention", latent + rope, hidden, layers, bias)
    parts.vector(at("kv_a_layernorm"), latent, layers)
    parts.matrix(at("kv_b_proj"), "attention", heads * (nope + value), latent, layers)
    parts.linear(at("o_proj"), "attention", hidden, heads * value, layers, bias)
    fields.note(
        f"latent attention keeps {latent} + {rope} elements a token and layer; decode multiplies in the latent space"
    )
    plain = Mixer("mla", len(layers), heads, 1, latent + rope, latent, float(latent + rope))
    if fields.value("index_topk") is None:
        parts.mixer(plain)
    else:
        _token_index(parts, layers, plain._replace(kind="sparse"), query_rank)


def _token_index(parts: Parts, layers: list[int], mixer: Mixer, query_rank: int) -> None:
    """DeepSeek sparse attention: an index picks the top-k tokens; some layers reuse the choice of an earlier one."""
    fields, hidden = parts.fields, parts.hidden
    chosen, heads, width = (
        fields.whole("index_topk"),
        fields.whole("index_n_heads"),
        fields.whole("index_head_dim"),
    )
    if not query_rank:
        fields.fault("q_lora_rank", "expected a whole number beside index_topk, got nothing", "add it")
    kinds = fields.each("indexer_types", max(layers, default=0) + 1)
    if kinds and (unknown := sorted({str(kind) for kind in kinds} - {"full", "shared"})):
        fields.fault("indexer_types", f"expected full or shared, got {', '.join(unknown)}")
    fields.ignore(("index_topk_freq", "index_skip_topk_offset", "index_topk_pattern", "index_share_for_mtp_iteration"))
    fields.check()
    own = [layer for layer in layers if not kinds or kinds[layer] == "full"]
    at = parts.inside(f"{parts.family.attention}.indexer")
    parts.matrix(at("wq_b"), "attention", heads * width, query_rank, own)
    parts.matrix(at("wk"), "attention", width, hidden, own)
    parts.vector(at("k_norm"), 2 * width, own)
    parts.matrix(at("weights_proj"), "attention", heads, hidden, own)
    fields.note(
        f"sparse attention reads {chosen} tokens; index keys ({width} a token, {len(own)} layers) are part of the cache"
    )
    mixer = mixer._replace(window=chosen)
    parts.mixer(mixer._replace(layers=len(own), index_elements=float(width), index_flops=2.0 * heads * width))
    if len(own) < len(layers):
        parts.mixer(mixer._replace(layers=len(layers) - len(own)))
