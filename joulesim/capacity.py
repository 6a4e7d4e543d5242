"""What fits on a device: weights, cache, buffers, and the largest batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from joulesim.formulas import kv_cache, memory, parallelism
from joulesim.inputs import Inputs, mean
from joulesim.specs.model import GROWING, LATENT

_BOTH_MODELS = ("weights", "kv_cache", "kv_cache_per_sequence", "kv_cache_shared", "buffers")
"""Parts that a draft model adds to."""


def memory_parts(x: Inputs) -> dict[str, Any]:
    """Arithmetic of one device's memory, part by part. [B]"""
    batch = x.batch / x.data
    sequence = sequence_bytes(x, x.context)
    shared = growing_bytes(x, mean(x.cached, x)) if x.shares_prefix else 0.0
    held = 1.0 / x.expert if x.expert > 1 else 1.0 / x.tensor
    parts = {
        "capacity": x.memory_capacity,
        "usable": x.memory_capacity * x.memory_share - x.context_reserve,
        "context_reserve": x.context_reserve,
        "weights": (x.routed.bytes * held + (x.dense.bytes + x.output.bytes
                                             + (0.0 if x.embedding_on_host else x.looked_up_bytes)) / x.tensor) / x.pipeline,
        "kv_cache": shared + (sequence - shared) * batch,
        "kv_cache_per_sequence": sequence - shared,
        "kv_cache_shared": shared,
        "buffers": memory.logits_bytes(x.prefill_chunk if x.logits_for_chunk else batch, x.vocabulary)
        + x.prefill_chunk * (4.0 * x.activation_copies * x.hidden_size + x.mask_bytes * x.context) + x.workspace,
    }
    if x.speculation is None or x.speculation.draft is None:
        return parts
    beside = memory_parts(x.speculation.draft._replace(batch=x.batch))
    return parts | {name: parts[name] + beside[name] for name in _BOTH_MODELS}


def largest_batch(x: Inputs, parts: dict[str, Any]):
    """Most sequences that fit beside the other ``parts`` of :func:`memory_parts`."""
    each = _logits_per_sequence(x)
    return x.data * memory.largest_batch(parts["usable"], parts["weights"], parts["buffers"] - each * x.batch / x.data,
                                         parts["kv_cache_shared"], parts["kv_cache_per_sequence"] + each)


def _logits_per_sequence(x: Inputs):
    """Buffer that a sequence adds in an engine that keeps one row of logits for each. [B]"""
    alone = 0.0 if x.logits_for_chunk else memory.logits_bytes(1.0, x.vocabulary)
    return alone if x.speculation is None or x.speculation.draft is None else alone + _logits_per_sequence(x.speculation.draft)


def sequence_bytes(x: Inputs, context):
    """Cache and recurrent state of one sequence with ``context`` tokens on one device. [B]"""
    windowed = sum(
        m.layers * parallelism.cache_share(x.tensor, m.kv_heads) * kv_cache.resident_bytes(
            kv_cache.cells(context, m.window + x.window_extra, x.kv_block), m.cache_elements, x.cache_bytes)
        for m in x.mixers if m.kind in ("sliding", "chunked")
    )
    kept = windowed + sum(m.layers * m.state_bytes for m in x.mixers) / x.tensor
    return growing_bytes(x, context) + kept / x.pipeline


def growing_bytes(x: Inputs, context):
    """The part of a sequence's cache that grows with each token: what a shared prefix saves. [B]"""
    total = 0.0
    for m in x.mixers:
        if m.kind in GROWING:
            share = parallelism.cache_share(x.tensor, m.kv_heads) if m.kind not in LATENT else 1.0
            count = kv_cache.cells(context, np.inf, x.kv_block)
            kept = m.cache_elements + m.index_elements
            total = total + m.layers * share * kv_cache.resident_bytes(count, kept, x.cache_bytes)
    return total / x.pipeline
