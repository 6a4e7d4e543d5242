"""
How a checkpoint stores each matrix: the quantisation block of a config, wherever it stands.

A scheme gives the format of the projections it applies to; embeddings, output, router and vectors stay in the
checkpoint's own 16 bit unless the scheme names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from joulesim.errors import Fault, InputError
from joulesim.models.fields import short
from joulesim.models.patterns import PREFIX
from joulesim.models.schemes import Scheme, read_scheme
from joulesim.specs.model import Tensor

DATA_TYPES = {"bfloat16": "bf16", "float16": "f16", "half": "f16", "float32": "f32", "float": "f32"}
CACHE_ALGORITHMS = {"FP8": "fp8_e4m3", "NVFP4": "nvfp4", "INT8": "int8"}


class Stored(NamedTuple):
    """Tensors with their formats."""

    tensors: tuple[Tensor, ...]
    weight_format: str | None
    kv_format: str | None
    notes: tuple[str, ...]


def store(
    tensors: Iterable[Tensor],
    config: Mapping[str, Any],
    text: Mapping[str, Any],
    quant: Mapping[str, Any] | None,
    where: str,
) -> Stored:
    """
    Give each tensor the format in which the checkpoint stores it.

    Parameters
    ----------
    tensors : iterable of Tensor
        Tensors of the language model.
    config, text : Mapping
        The whole config and its language part.
    quant : Mapping or None
        Content of ``hf_quant_config.json``.
    where : str
        What to call the config in a fault.

    Raises
    ------
    InputError
        When a scheme is not known, or is not a scheme.
    """
    blocks = list(_blocks(config, text, quant, where))
    plain = _data_type(config, text, where)
    kv_format = next((found for block in blocks if (found := _cache_format(block, where))), None)
    scheme = next((found for block in blocks if (found := read_scheme(block, text, where))), None)
    if scheme is None:
        return Stored(tuple(t._replace(format=plain) for t in tensors), plain, kv_format, ())
    notes = scheme.notes if plain else (*scheme.notes, "the config has no dtype: what is not quantised is read as bf16")
    plain = plain or "bf16"
    stored = [part for tensor in tensors for part in _split(tensor, scheme, plain)]
    weights: dict[str, int] = {}
    for tensor in stored:
        weights[tensor.format] = weights.get(tensor.format, 0) + tensor.weights
    return Stored(tuple(stored), max(weights, key=weights.get), kv_format, notes)


def _data_type(config: Mapping[str, Any], text: Mapping[str, Any], where: str) -> str | None:
    for part in (text, config):
        for name in ("dtype", "torch_dtype"):
            given = part.get(name)
            if given is None:
                continue
            known = DATA_TYPES.get(str(given).removeprefix("torch."))
            if known is None:
                raise InputError(Fault(f"{where}: {name}", f"expected {', '.join(DATA_TYPES)}, got {short(given)}"))
            return known
    return None


def _blocks(config: Mapping, text: Mapping, quant: Mapping | None, where: str) -> Iterable[Mapping[str, Any]]:
    """Quantisation blocks, the config's own before the file beside it."""
    places = [(part, name) for part in (config, text) for name in ("quantization_config", "compression_config")]
    for part, name in [*places, (quant or {}, "quantization")]:
        given = part.get(name)
        if given is not None and not isinstance(given, Mapping):
            raise InputError(Fault(f"{where}: {name}", f"expected a mapping of fields, got {short(given)}"))
        if given:
            yield given
    if quant is not None and not isinstance(quant.get("quantization"), Mapping):
        raise InputError(Fault(f"{where}: hf_quant_config", "expected a field 'quantization', found none"))


def _cache_format(block: Mapping[str, Any], where: str) -> str | None:
    """Cache format of ``kv_cache_scheme`` (compressed-tensors, modelopt) or ``kv_cache_quant_algo`` (modelopt)."""
    given = block.get("kv_cache_scheme") or block.get("kv_cache_quant_algo")
    if given is None or given == "NONE":
        return None
    if isinstance(given, Mapping):
        kind = (given.get("type"), given.get("num_bits"))
        found = {("float", 8): "fp8_e4m3", ("int", 8): "int8", ("float", 4): "nvfp4"}.get(
            kind if None not in kind else ()
        )
    else:
        found = CACHE_ALGORITHMS.get(str(given).upper())
    if found is None:
        raise InputError(
            Fault(f"{where}: kv_cache_scheme", f"expected {', '.join(CACHE_ALGORITHMS)}, got {short(given)}")
        )
    return found


def _split(tensor: Tensor, scheme: Scheme, plain: str) -> list[Tensor]:
    """The tensor in as many parts as it has formats over its layers."""
    if tensor.rows == 1:
        return [tensor._replace(format=plain)]
    groups: dict[str, list[int]] = {}
    for layer in tensor.layers or (0,):
        module = PREFIX.sub("", tensor.name.replace("{}", str(layer), 1).replace("{}", "0"))
        format = scheme.named(module)
        if format is None:
            converted = tensor.role in scheme.roles and not scheme.excluded(module)
            format = scheme.format if converted else plain
        groups.setdefault(format, []).append(layer)
    if not tensor.layers:
        return [tensor._replace(format=next(iter(groups)))]
    return [tensor._replace(format=format, layers=tuple(layers)) for format, layers in groups.items()]
