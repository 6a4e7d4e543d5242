"""DeepSeek-V4 attention: a short window of single-head keys, and earlier tokens compressed into fewer entries."""

from __future__ import annotations

from joulesim.models.attention import HEADS
from joulesim.models.fields import short
from joulesim.models.parts import Parts
from joulesim.specs.model import Mixer

INDEXED_RATIO = 4
"""Compression at which the reference code overlaps windows and chooses entries with an index."""


def read_compressed(parts: Parts, layers: int) -> None:
    """
    Add attention with ``compress_ratios``: 0 is the window alone, 4 adds indexed entries, more adds all entries.

    Notes
    -----
    Keys are values here: one vector of ``head_dim`` a token. A layer with entries is two mixers, one ``sliding``
    and one ``compressed``, because it attends to both. Module names are those of the released checkpoint.
    """
    fields, hidden = parts.fields, parts.hidden
    heads, width = fields.whole(*HEADS), fields.whole("head_dim")
    window, query_rank = fields.whole("sliding_window"), fields.whole("q_lora_rank")
    groups, out_rank = fields.whole("o_groups"), fields.whole("o_lora_rank")
    index_heads, index_width, chosen = (fields.whole(f"index_{name}") for name in ("n_heads", "head_dim", "topk"))
    ratios = fields.each("compress_ratios", layers) or [0] * layers
    for ratio in dict.fromkeys(map(short, ratios)):
        if not ratio.isdigit() or not (int(ratio) in (0, INDEXED_RATIO) or int(ratio) > 2 * INDEXED_RATIO):
            fields.fault(
                "compress_ratios",
                f"expected 0, {INDEXED_RATIO} or a ratio above 8, got {ratio}",
                "this compression is not modelled",
            )
    if fields.value("num_key_value_heads") not in (None, 1):
        fields.fault(
            "num_key_value_heads",
            f"expected 1 with compress_ratios, got {fields.value('num_key_value_heads')!r}",
        )
    fields.ignore(("qk_rope_head_dim", "compress_rope_theta"))
    fields.check()

    everywhere = range(layers)
    at = parts.inside(parts.family.attention)
    parts.matrix(at("wq_a"), "attention", query_rank, hidden, everywhere)
    parts.vector(at("q_norm"), query_rank, everywhere)
    parts.matrix(at("wq_b"), "attention", heads * width, query_rank, everywhere)
    parts.matrix(at("wkv"), "attention", width, hidden, everywhere)
    parts.vector(at("kv_norm"), width, everywhere)
    parts.matrix(at("wo_a"), "attention", groups * out_rank, heads * width // groups, everywhere)
    parts.matrix(at("wo_b"), "attention", hidden, groups * out_rank, everywhere)
    parts.vector(at("attn_sink"), heads, everywhere)
    parts.mixer(Mixer("sliding", layers, heads, 1, width, width, float(width), window=window))
    for ratio in sorted({r for r in ratios if r}):
        having = [layer for layer in everywhere if ratios[layer] == ratio]
        _compressor(parts, "compressor", having, ratio, width)
        mixer = Mixer("compressed", len(having), heads, 1, width, width, width / ratio, compression=ratio)
        if ratio == INDEXED_RATIO:
            parts.matrix(at("indexer.wq_b"), "attention", index_heads * index_width, query_rank, having)
            parts.matrix(at("indexer.weights_proj"), "attention", index_heads, hidden, having)
            _compressor(parts, "indexer.compressor", having, ratio, index_width)
            mixer = mixer._replace(
                window=chosen,
                index_elements=index_width / ratio,
                index_flops=2.0 * index_heads * index_width / ratio,
            )
        parts.mixer(mixer)
    fields.note("a layer with compressed entries counts twice among the mixers: its window, and its entries")
    fields.note("tokens waiting to be compressed (fewer than one entry's worth a layer) are not counted in the cache")


def _compressor(parts: Parts, module: str, layers: list[int], ratio: int, width: int) -> None:
    made = width * (2 if ratio == INDEXED_RATIO else 1)
    at = parts.inside(f"{parts.family.attention}.{module}")
    parts.matrix(at("wkv"), "attention", made, parts.hidden, layers)
    parts.matrix(at("wgate"), "attention", made, parts.hidden, layers)
    parts.vector(at("ape"), ratio * made, layers)
    parts.vector(at("norm"), width, layers)


def read_streams(parts: Parts, layers: int) -> None:
    """Add hyper-connections: ``hc_mult`` residual streams mixed before and after each block."""
    fields, hidden = parts.fields, parts.hidden
    streams = fields.whole("hc_mult", default=0, low=0)
    if not streams:
        return
    mixed = (2 + streams) * streams
    for block in ("attn", "ffn"):
        parts.vector(parts.layer(f"hc_{block}_fn"), mixed * streams * hidden, range(layers))
        parts.vector(parts.layer(f"hc_{block}_base"), mixed, range(layers))
        parts.vector(parts.layer(f"hc_{block}_scale"), 3, range(layers))
    parts.vector("hc_head_fn", streams * streams * hidden)
    parts.vector("hc_head_base", streams)
    parts.vector("hc_head_scale", 1)
