"""
Which block layout each matrix is stored in: llama.cpp's file mixes as rules, and plain formats.

A file mix is a recipe (:mod:`joulesim.models.recipes`); sizes are checked against published file sizes
(``tests/reference/model_file_sizes.csv``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from joulesim.errors import Fault, InputError
from joulesim.models.recipes import BLOCKS, FALLBACKS, RECIPES, Place, Recipe
from joulesim.specs.format import FormatSpec
from joulesim.specs.model import ModelSpec, Tensor


class Row(NamedTuple):
    """Weights of one role in one block layout."""

    role: str
    format: str
    weights: int
    bytes: float


FAMILY_OF_70B = ("llama", "mistral", "qwen2", "deci", "olmo")
"""Architectures whose 80-layer models llama.cpp spares at the value projection."""
KINDS = {
    "q_proj": "q",
    "attn_q": "q",
    "k_proj": "k",
    "attn_k": "k",
    "v_proj": "v",
    "attn_v": "v",
    "attn_qkv": "v",
    "attn_kv_b": "v",
    "qkv_proj": "v",
    "c_attn": "v",
    "query_key_value": "v",
    "Wqkv": "v",
    "in_proj_qkv": "v",
    "o_proj": "o",
    "attn_output": "o",
    "down_proj": "down",
    "ffn_down": "down",
    "ffn_down_exps": "down",
    "ffn_down_shexp": "down",
    "up_proj": "up",
    "ffn_up": "up",
    "ffn_up_exps": "up",
    "ffn_up_shexp": "up",
    "gate_proj": "gate",
    "ffn_gate": "gate",
    "ffn_gate_exps": "gate",
    "ffn_gate_shexp": "gate",
}
"""Kind of matrix by the last part of its name."""
WHOLE = ("positions", "per_layer_model_projection", "indexer.q_proj", "indexer.k_proj")
"""Ends of the names of matrices that llama.cpp never quantises, beside norms, biases and routers."""


def weight_table(model: ModelSpec, format: FormatSpec | None, formats: Mapping[str, FormatSpec]) -> list[Row]:
    """
    Weights and bytes by role and block layout.

    Parameters
    ----------
    model : ModelSpec
        Model whose weights are stored.
    format : FormatSpec or None
        Format or file mix of the matrices; ``None`` for what the checkpoint holds, bf16 where it does not say.
    formats : Mapping
        Formats by name; a mix and a fallback look theirs up here.

    Returns
    -------
    list of Row
        In the order of the model's tensors. Bytes count blocks, scales included. [B]

    Raises
    ------
    InputError
        When a mix is not known, or a layout it needs is not among ``formats``.
    """
    found: dict[tuple[str, str], list[float]] = {}
    for tensor, layout, matrices in _layouts(model, format):
        if layout not in formats:
            raise InputError(
                Fault(
                    f"{model.name}: {tensor.name}",
                    f"expected a weight format, got {layout!r}",
                    "`joulesim formats` lists them",
                )
            )
        spec = formats[layout]
        if spec.bytes_per_weight is None:
            raise InputError(Fault(f"{model.name}: {tensor.name}", f"expected a block layout, got the mix {layout!r}"))
        weights = tensor.rows * tensor.columns * matrices
        row = found.setdefault((tensor.role, layout), [0, 0.0])
        row[0] += weights
        row[1] += weights * spec.bytes_per_weight
    return [Row(role, layout, int(weights), size) for (role, layout), (weights, size) in found.items()]


def _layouts(model: ModelSpec, format: FormatSpec | None) -> Iterator[tuple[Tensor, str, int]]:
    """Each tensor with a layout, and the number of its matrices stored in it."""
    if format is None:
        for tensor in model.tensors:
            yield tensor, tensor.format or "bf16", tensor.count
    elif format.recipe is None:
        for tensor in model.tensors:
            covered = tensor.rows > 1 and tensor.role != "vector" and (not format.roles or tensor.role in format.roles)
            yield (
                tensor,
                _fitting(format.name, format.block_weights, tensor.columns) if covered else "bf16",
                tensor.count,
            )
    else:
        yield from _mixed(model, _recipe(format.recipe, model))


def _recipe(name: str, model: ModelSpec) -> Recipe:
    if name not in RECIPES:
        raise InputError(Fault(f"format {name}", f"expected a recipe of {', '.join(RECIPES)}, got {name!r}"))
    if model.architecture == "falcon":
        raise InputError(
            Fault(
                model.name,
                f"llama.cpp has rules of its own for Falcon in {name}, and they are not modelled",
                "give a plain format, e.g. f16, or read the .gguf",
            )
        )
    return RECIPES[name]


def _mixed(model: ModelSpec, recipe: Recipe) -> Iterator[tuple[Tensor, str, int]]:
    attention = next((mixer for mixer in model.mixers if mixer.kv_heads), None)
    grouped = bool(attention) and attention.query_heads >= 4 * attention.kv_heads
    experts = model.experts.routed if model.experts else 0
    spared = (
        model.layers == 80
        and model.architecture in FAMILY_OF_70B
        and (not attention or attention.query_heads > attention.kv_heads)
    )
    having: dict[str, list[int]] = {}
    for tensor in model.tensors:
        having.setdefault(_kind(tensor), []).extend(tensor.layers)
    orders = {kind: {layer: i for i, layer in enumerate(sorted(set(layers)))} for kind, layers in having.items()}
    for tensor in model.tensors:
        kind, per_layer = _kind(tensor), tensor.copies
        if kind in ("vector", "router") or tensor.rows == 1 or tensor.name.endswith(WHOLE):
            yield tensor, "f32", tensor.count
            continue
        order, number = orders[kind], len(orders[kind])
        if kind in ("down", "up", "gate"):
            number = model.layers
            order = {layer: layer for layer in order} if experts > 1 else order
        for layer in tensor.layers or (0,):
            place = Place(order.get(layer, layer), number, grouped, experts)
            layout = _choose(recipe, kind, tensor, place, spared, model.tied_embeddings)
            yield tensor, _fitting(layout, BLOCKS.get(layout, 1), tensor.columns), per_layer


def _kind(tensor: Tensor) -> str:
    by_role = {
        "vector": "vector",
        "router": "router",
        "output": "output",
        "input_embedding": "embedding",
    }.get(tensor.role)
    return by_role or KINDS.get(tensor.name.removesuffix(".weight").rpartition(".")[2], "other")


def _choose(recipe: Recipe, kind: str, tensor: Tensor, place: Place, spared: bool, tied: bool) -> str:
    """Layout of one matrix before rows that do not fit are looked at."""
    if kind == "output" or (kind == "embedding" and tied):
        return "q8_0" if tensor.columns % BLOCKS[recipe.base] else recipe.output
    if kind == "embedding":
        return recipe.embedding or recipe.base
    kinds = (kind, "expert") if tensor.role == "routed_expert" else (kind,)
    layout = next((rule.format for rule in recipe.rules if rule.kind in kinds and rule.holds(place)), recipe.base)
    if place.experts == 8:
        return _eight_experts(recipe, kind, layout)
    if kind == "v" and spared and not recipe.tiny and layout in ("q3_k", "q4_k"):
        return "q5_k"
    return layout


def _eight_experts(recipe: Recipe, kind: str, layout: str) -> str:
    """Mixtral-sized models: attention is small beside the experts and kept in more bits."""
    if recipe.tiny:
        return {"k": "q4_k", "o": "q5_k"}.get(kind, layout)
    if kind == "o":
        return "q5_k" if recipe.wide_attention_output else recipe.base
    return "q8_0" if kind in ("v", "k") else layout


def _fitting(layout: str, block: int, columns: int) -> str:
    """The layout, or the one that llama.cpp falls back to where a row does not divide into its blocks."""
    if layout not in BLOCKS or columns % block == 0:
        return layout
    fallback = FALLBACKS.get(layout, layout)
    return fallback if columns % BLOCKS[fallback] == 0 else "f16"
