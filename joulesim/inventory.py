"""What a model is made of: parameters, cache per token, stored size."""

from __future__ import annotations

from typing import Any

from joulesim import catalogue
from joulesim.errors import Fault, InputError
from joulesim.models.mixes import weight_table
from joulesim.specs.model import GROWING, Mixer, ModelSpec

_WINDOWED = ("sliding", "chunked")


def inventory(model: ModelSpec, kv_format: str | None = None, weight_format: str | None = None,
              context: int | None = None) -> dict[str, Any]:
    """
    Parameters, cache and weights of a model as plain data.

    Parameters
    ----------
    model : ModelSpec
        The model.
    kv_format, weight_format : str, optional
        Formats to count in; by default those of the checkpoint, else f16 cache and bf16 weights.
    context : int, optional
        Tokens; adds ``kv_cache.bytes_at_context``, the cache of one sequence with the model's own windows.

    Raises
    ------
    InputError
        For an unknown format, or a context beyond the model's.
    """
    cache = catalogue.load_format(kv_format or model.kv_format or "f16")
    if not cache.cache:
        raise InputError(Fault("--kv-format", f"expected a cache format, got {cache.name}", "`joulesim formats` lists them"))
    if context and model.max_context and context > model.max_context:
        raise InputError(Fault("--context", f"expected at most {model.max_context} tokens for {model.name}, got {context}"))
    stored = any(t.format for t in model.tensors)
    weights = catalogue.load_format(weight_format) if weight_format or not stored else None
    if weights is None and not weight_format and not stored:
        weights = catalogue.load_format("bf16")
    table = weight_table(model, weights, catalogue.FORMATS)
    size = cache.bytes_per_weight
    growing, fixed, index = cache_elements(model)
    data = {
        "name": model.name,
        "architecture": model.architecture,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "active_parameters_without_input_embedding": model.active_parameters_without_input_embedding,
        "layers": model.layers,
        "kv_cache": {
            "format": cache.name,
            "bytes_per_token_growing": _whole(growing * size),
            "bytes_fixed": _whole(fixed * size + state_bytes(model)),
            "elements_per_token": _whole(growing),
            "index_bytes_per_token": _whole(index * size),
        },
        "weights": {"format": weights.name if weights else "checkpoint", "bytes": round(sum(row.bytes for row in table))},
        "hidden_size": model.hidden_size,
        "vocabulary": model.vocabulary,
        "max_context": model.max_context,
        "tied_embeddings": model.tied_embeddings,
        "experts": model.experts._asdict() if model.experts else None,
        "mixers": {m.kind: sum(n.layers for n in model.mixers if n.kind == m.kind) for m in model.mixers},
        "left_out": dict(model.left_out),
        "notes": list(model.notes),
        "source": model.source,
    }
    if context:
        elements = sum(m.layers * _cells_at(m, context) * m.cache_elements for m in model.mixers)
        data["kv_cache"]["bytes_at_context"] = _whole(elements * size + state_bytes(model))
        data["kv_cache"]["index_bytes_at_context"] = _whole(index * context * size)
    return data


def cache_elements(model: ModelSpec) -> tuple[float, float, float]:
    """Cache elements that grow with each token, those of the windows, and growing keys of an indexer, over all layers."""
    growing = sum(m.layers * m.cache_elements for m in model.mixers if m.kind in GROWING)
    fixed = sum(m.layers * m.cache_elements * m.window for m in model.mixers if m.kind in _WINDOWED)
    return growing, fixed, sum(m.layers * m.index_elements for m in model.mixers)


def state_bytes(model: ModelSpec) -> int:
    """Recurrent state of one sequence. [B]"""
    return sum(m.layers * m.state_bytes for m in model.mixers)


def _cells_at(m: Mixer, context: int) -> int:
    return context if m.kind in GROWING else min(context, m.window or 0)


def _whole(number: float) -> int | float:
    return int(number) if float(number).is_integer() else number
