"""How numbers are stored: weight and cache formats."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from joulesim.specs.base import Count, Spec, non_negative

NumberType = Literal["fp32", "fp16", "fp8", "fp4", "int8"]


class FormatSpec(Spec):
    """
    A block layout (``block_bytes`` for ``block_weights``), or a file mix that chooses a layout per tensor, or both.

    A mix names its ``recipe``; :mod:`joulesim.models.mixes` holds the recipes. ``q4_0`` is both: a block, and a
    file whose output matrix is stored otherwise. Weights follow the recipe, a cache the block.
    """

    name: str
    title: str = ""
    aliases: tuple[str, ...] = ()
    block_bytes: non_negative("byte") | None = None
    """Size of one block. [B]"""
    block_weights: Count | None = None
    """Weights in one block; a row that does not divide by it falls back to another layout."""
    recipe: str | None = None
    """For a file mix: the rule that picks the layout of each tensor."""
    number_type: NumberType = "fp16"
    """Operands of the matrix product where the device has a rate for them; else fp16."""
    unpack_instructions: non_negative("") | None = None
    """Lane instructions that turn one stored weight into an operand. [instruction/weight]"""
    roles: tuple[str, ...] = ()
    """Matrix roles stored in it; the others stay 16 bit. Empty: every matrix."""
    cache: bool = False
    """Whether it can hold a KV cache."""

    @model_validator(mode="after")
    def _block_or_mix(self):
        half = (self.block_bytes is None) != (self.block_weights is None)
        if half or (self.recipe is None and self.block_bytes is None):
            raise ValueError("expected block_bytes with block_weights, or a recipe; give one of the two or both")
        return self

    @property
    def bytes_per_weight(self) -> float | None:
        """Stored size of one weight, block overhead included; ``None`` for a mix. [B/weight]"""
        return None if self.block_bytes is None else self.block_bytes / self.block_weights
