"""Tensor table of a ``.gguf`` as the tensors of a model: roles by name, equal ones grouped over layers."""

from __future__ import annotations

import re
from math import prod

from joulesim.models.gguf_header import StoredTensor
from joulesim.specs.model import Role, Tensor

ROLES: tuple[tuple[str, Role], ...] = (
    (r"^(token_embd|per_layer_token_embd|position_embd)\b", "input_embedding"),
    (r"^output\.weight$", "output"),
    (r"ssm_conv1d|shortconv\.conv\b", "vector"),
    (r"_exps\b", "routed_expert"),
    (r"_shexp\b", "shared_expert"),
    (r"ffn_gate_inp\b|exp_probs", "router"),
    (r"ssm_|shortconv|time_mix|channel_mix", "recurrent"),
    (r"ffn_", "dense_ffn"),
    (r"attn|indexer|\bhc_", "attention"),
)
"""Role of a tensor by its name; the first that fits."""
NO_WEIGHTS = re.compile(r"rope_(freqs|factors_long|factors_short)|tid2eid")
"""Tables that are no weights."""


def read_tensors(stored: tuple[StoredTensor, ...], layers: int) -> tuple[tuple[Tensor, ...], dict[str, int]]:
    """Equal tensors of the language model grouped over layers, and the weights of what is left out."""
    tied = not any(tensor.name == "output.weight" for tensor in stored)
    groups: dict[tuple, list[int]] = {}
    left_out: dict[str, int] = {}
    for tensor in stored:
        if NO_WEIGHTS.search(tensor.name):
            continue
        match = re.match(r"blk\.(\d{1,6})\.", tensor.name)
        layer = int(match.group(1)) if match else None
        name = re.sub(r"^blk\.\d+\.", "blk.{}.", tensor.name)
        if ".nextn." in name or (layer is not None and layer >= layers):
            part = "multi-token prediction"
        elif name.startswith(("v.", "mm.", "a.")):
            part = "vision tower"
        else:
            groups.setdefault((name.removesuffix(".weight"), *_shape(tensor, tied), tensor.format), []).append(layer)
            continue
        left_out[part] = left_out.get(part, 0) + prod(tensor.shape)
    tensors = tuple(
        Tensor(
            name,
            role,
            rows,
            columns,
            tuple(sorted(layer for layer in having if layer is not None)),
            copies,
            format,
        )
        for (name, role, rows, columns, copies, format), having in groups.items()
    )
    return tensors, left_out


def _shape(tensor: StoredTensor, tied: bool) -> tuple[Role, int, int, int]:
    """Role, rows, columns and copies of a stored tensor."""
    role = next((role for pattern, role in ROLES if re.search(pattern, tensor.name)), "dense_ffn")
    columns, *rest = tensor.shape
    if role == "routed_expert" and rest:
        return role, prod(rest[:-1]), columns, rest[-1]
    if not rest or role == "vector" or tensor.name.endswith((".bias", "_norm.weight")):
        return "vector", 1, prod(tensor.shape), 1
    if tied and tensor.name == "token_embd.weight":
        role = "output"
    return role, prod(rest), columns, 1
