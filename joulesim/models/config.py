"""A Hugging Face ``config.json`` as a model: its language part, laid out layer by layer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from joulesim.errors import Fault, InputError, did_you_mean
from joulesim.models.attention import ATTENTION_KINDS, HEADS, read_attention
from joulesim.models.compressed import read_compressed, read_streams
from joulesim.models.embeddings import (
    CONTEXT,
    VOCABULARY,
    read_alternating_updates,
    read_embeddings,
    read_layer_embeddings,
)
from joulesim.models.families import FAMILIES, READ_FROM_GGUF, SAME_AS, Family, family_of, refusal
from joulesim.models.ffn import read_ffn
from joulesim.models.fields import MOST_LAYERS, Fields, short
from joulesim.models.layers import mixer_kinds
from joulesim.models.parts import Parts
from joulesim.models.quantisation import store
from joulesim.models.recurrent import read_linear, read_mamba, read_short_convolution
from joulesim.models.spellings import usual
from joulesim.models.unread import refuse_unread
from joulesim.specs.model import ModelSpec

MAMBA_HEADS = ("mamba_num_heads", "mamba_n_heads")
LANGUAGE_PARTS = ("text_config", "language_config", "llm_config", "text_model", "thinker_config")
"""Where a multimodal config keeps its language model."""
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HIDDEN = ("hidden_size", "n_embd", "d_model", "model_dim")
PREDICTORS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
OTHER_PARTS = {"vision_config": "vision tower", "visual": "vision tower", "audio_config": "audio tower"}


def from_config(config: Mapping[str, Any], where: str, quant: Mapping[str, Any] | None = None) -> ModelSpec:
    """
    Model that a Hugging Face config describes.

    Parameters
    ----------
    config : Mapping
        Content of ``config.json``; of a multimodal config the language model is read.
    where : str
        What to call the config in a fault.
    quant : Mapping, optional
        Content of ``hf_quant_config.json``, which modelopt writes beside it.

    Raises
    ------
    InputError
        With every fault found: missing or impossible sizes, a mixer that is not modelled, an encoder.

    Examples
    --------
    >>> sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    >>> model = from_config({**sizes, "intermediate_size": 128, "vocab_size": 100, "model_type": "llama"}, "tiny")
    >>> model.mixers[0].cache_elements
    64.0
    """
    if not isinstance(config, Mapping):
        raise InputError(Fault(where, f"expected a mapping of fields, got {short(config)}"))
    text = _language_part(config)
    model_type = _model_type(config, text, where)
    family = family_of(model_type)
    fields = Fields(text, where, family.defaults if family else {})
    if family is None:
        hint = did_you_mean(model_type, [*FAMILIES, *SAME_AS])
        fields.note(f"model_type {model_type!r} is not known: read as a Llama-like decoder. {hint}".rstrip())
    elif not model_type:
        fields.note("model_type is not in the config: read as a Llama-like decoder")

    hidden = fields.whole(*HIDDEN)
    pattern = next((text[name] for name in ("layers_block_type", "hybrid_override_pattern") if text.get(name)), None)
    counted = len(pattern) if isinstance(pattern, (list, str)) and not any(map(fields.has, LAYERS)) else None
    layers = fields.whole(*LAYERS, high=MOST_LAYERS) if counted is None else min(counted, MOST_LAYERS)
    vocabulary = fields.whole(*VOCABULARY)
    context = fields.whole(*CONTEXT, default=None, high=1 << 40)
    fields.check()

    fields.data = usual(fields, layers)
    fields.check()
    parts = Parts(fields, family or Family(), hidden)
    tied = _tied(fields, config, parts.family)
    read_embeddings(parts, vocabulary, tied)
    _mixers(parts, layers)
    experts = read_ffn(parts, layers)
    read_layer_embeddings(parts, layers)
    read_alternating_updates(parts, layers)
    _norms(parts, layers)
    fields.ignore((*CONTEXT, *HEADS, *PREDICTORS))
    refuse_unread(fields, known=family is not None and bool(model_type))
    fields.check()

    left_out = _left_out(fields, config)
    stored = store(parts.tensors, config, text, quant, where)
    return ModelSpec(
        name=_name(config, where),
        architecture=model_type or "unknown",
        layers=layers,
        hidden_size=hidden,
        vocabulary=vocabulary,
        max_context=context,
        tied_embeddings=tied,
        mixers=parts.mixers,
        tensors=stored.tensors,
        experts=experts,
        weight_format=stored.weight_format,
        kv_format=stored.kv_format,
        left_out=left_out,
        notes=(*fields.notes, *stored.notes),
        source=where,
    )


def _language_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in LANGUAGE_PARTS:
        inner = next(
            (config[name] for name in LANGUAGE_PARTS if isinstance(config.get(name), Mapping) and config[name]),
            None,
        )
        if inner is None:
            break
        config = inner
    return config


def _model_type(config: Mapping[str, Any], text: Mapping[str, Any], where: str) -> str:
    """``model_type`` of the language part where that is a known one, else of the whole."""
    given = [part["model_type"] for part in (text, config) if part.get("model_type") is not None]
    wrong = [name for name in given if not isinstance(name, str)]
    if wrong:
        raise InputError(Fault(f"{where}: model_type", f"expected text, got {short(wrong[0])}"))
    for name in given:
        why = refusal(name, any(part.get("is_encoder_decoder") is True for part in (text, config)))
        if why:
            raise InputError(Fault(f"{where}: model_type", f"{name!r} is {why}", "give a decoder-only model"))
        if name in READ_FROM_GGUF:
            raise InputError(Fault(f"{where}: model_type", f"the config of {name!r} is not modelled", "give its .gguf"))
    return next((name for name in given if family_of(name)), given[0] if given else "")


def _name(config: Mapping[str, Any], where: str) -> str:
    given = config.get("_name_or_path")
    stem = re.split(r"[/\\]", re.sub(r"[/\\]?(_?config)?\.json$", "", where).rstrip("/\\"))[-1]
    return stem or (given if isinstance(given, str) and given else "model")


def _tied(fields: Fields, config: Mapping[str, Any], family: Family) -> bool:
    outer = Fields(config, fields.where)
    if not fields.has("tie_word_embeddings") and not outer.has("tie_word_embeddings"):
        fields.note(f"tie_word_embeddings is not in the config: {str(family.tied).lower()}, the default of its family")
    whole = outer.flag("tie_word_embeddings", default=family.tied)
    tied = fields.flag("tie_word_embeddings", default=whole)
    if outer.has("tie_word_embeddings") and tied != whole:
        fields.note(
            f"tie_word_embeddings differs between the config and its language part: {str(tied).lower()}, the latter"
        )
    fields.faults += [fault for fault in outer.faults if fault not in fields.faults]
    return tied


def _mixers(parts: Parts, layers: int) -> None:
    fields = parts.fields
    if fields.value("compress_ratios") is not None:
        read_compressed(parts, layers)
        read_streams(parts, layers)
        return
    kinds = mixer_kinds(fields, parts.family, layers)
    if "linear" in kinds and any(map(fields.has, MAMBA_HEADS)):
        kinds = ["mamba" if kind == "linear" else kind for kind in kinds]
    fields.check()
    attention = ["full" if kind == "both" else kind for kind in kinds]
    if any(kind in ATTENTION_KINDS for kind in attention):
        read_attention(parts, attention)
    read_linear(parts, [i for i, kind in enumerate(kinds) if kind == "linear"])
    read_mamba(parts, [i for i, kind in enumerate(kinds) if kind in ("mamba", "both")])
    read_short_convolution(parts, [i for i, kind in enumerate(kinds) if kind == "conv"])
    if "both" in kinds:
        fields.note("a layer has attention and a Mamba block side by side and counts twice among the mixers")


def _norms(parts: Parts, layers: int) -> None:
    for number in range(parts.family.norms):
        parts.norm(parts.layer(f"norm_{number}"), parts.hidden, range(layers))
    if parts.family.final_norm:
        parts.norm("norm", parts.hidden)
    if parts.family.embedding_norm:
        parts.norm("embedding_norm", parts.hidden)


def _left_out(fields: Fields, config: Mapping[str, Any]) -> dict[str, int]:
    """Parts of the checkpoint that are not the language model; their size is not in a config."""
    parts = {name: 0 for field, name in OTHER_PARTS.items() if config.get(field)}
    if any(isinstance(fields.data.get(name), int) and fields.data[name] > 0 for name in PREDICTORS):
        parts["multi-token prediction"] = 0
    return parts
