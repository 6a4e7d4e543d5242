"""
llama.cpp's file mixes as rules: which block layout each kind of matrix gets, and where.

The rules are those of llama.cpp ``src/llama-quant.cpp`` (commit 0c1e570, ``llama_tensor_get_type_impl`` and
``tensor_type_fallback``), in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Place(NamedTuple):
    """Where in a model a matrix stands."""

    index: int
    """Its number among the matrices of its kind."""
    number: int
    """How many of them there are."""
    grouped: bool
    """At least four query heads share one KV head."""
    experts: int


class Rule(NamedTuple):
    """Layout of one kind of matrix, where a condition holds."""

    kind: str
    format: str
    holds: Callable[[Place], bool] = lambda place: True


class Recipe(NamedTuple):
    """A file mix: first rule that holds, else the base layout."""

    base: str
    rules: tuple[Rule, ...] = ()
    output: str = "q6_k"
    embedding: str | None = None
    tiny: bool = False
    """One- and two-bit mixes, which spare an eight-expert model differently."""
    wide_attention_output: bool = False
    """Whether an eight-expert model gets a Q5_K attention output."""


def _more_bits(place: Place) -> bool:
    """First and last eighth, and every third between: ``use_more_bits`` of llama.cpp."""
    eighth = place.number // 8
    return place.index < eighth or place.index >= 7 * place.number // 8 or (place.index - eighth) % 3 == 2


def _first(parts: int) -> Callable[[Place], bool]:
    return lambda place: place.index < place.number // parts


def _below(count: int) -> Callable[[Place], bool]:
    return lambda place: place.index < count


def _grouped(place: Place) -> bool:
    return place.grouped


def _grouped_or_experts(place: Place) -> bool:
    return place.grouped or place.experts >= 4


def _middle(place: Place) -> bool:
    return place.number // 8 <= place.index < 7 * place.number // 8


def _tiny(base: str, embedding: str, value: str, output: str | None) -> Recipe:
    """Mix of one or two bits; needs an importance matrix."""
    rules = (Rule("v", "q4_k", _grouped_or_experts), Rule("v", value), Rule("down", value, _first(8)))
    return Recipe(base, rules + ((Rule("o", output),) if output else ()), "q5_k", embedding, tiny=True)


_MORE = (Rule("v", "q6_k", _more_bits), Rule("down", "q6_k", _more_bits))
_FOUR = (Rule("v", "q5_k", _grouped), Rule("down", "q5_k", _first(8)))

RECIPES: dict[str, Recipe] = {
    "f16": Recipe("f16", output="f16"),
    "q1_0": Recipe("q1_0"),
    "q2_0": Recipe("q2_0", embedding="q4_k"),
    "q4_0": Recipe("q4_0"),
    "q4_1": Recipe("q4_1"),
    "q5_0": Recipe("q5_0"),
    "q5_1": Recipe("q5_1"),
    "q8_0": Recipe("q8_0", output="q8_0"),
    "q2_k": Recipe(
        "q2_k",
        (Rule("v", "q4_k", _grouped), Rule("v", "q3_k"), Rule("down", "q3_k"), Rule("o", "q3_k")),
        wide_attention_output=True,
    ),
    "q2_k_s": Recipe("q2_k", (Rule("v", "q4_k", _grouped), Rule("down", "q4_k", _first(8)))),
    "q3_k_s": Recipe("q3_k", wide_attention_output=True),
    "q3_k_m": Recipe(
        "q3_k",
        (
            Rule("v", "q5_k", _below(2)),
            Rule("v", "q4_k"),
            Rule("down", "q5_k", _first(16)),
            Rule("down", "q4_k"),
            Rule("o", "q4_k"),
        ),
        wide_attention_output=True,
    ),
    "q3_k_l": Recipe("q3_k", (Rule("v", "q5_k"), Rule("down", "q5_k"), Rule("o", "q5_k"))),
    "q4_k_s": Recipe(
        "q4_k", (Rule("v", "q5_k", _below(4)), Rule("down", "q5_k", _first(8))), wide_attention_output=True
    ),
    "q4_k_m": Recipe("q4_k", _MORE, wide_attention_output=True),
    "q5_k_s": Recipe("q5_k"),
    "q5_k_m": Recipe("q5_k", _MORE),
    "q6_k": Recipe("q6_k"),
    "iq4_xs": Recipe("iq4_xs", _FOUR, wide_attention_output=True),
    "iq4_nl": Recipe("iq4_nl", _FOUR, wide_attention_output=True),
    "iq3_xxs": Recipe(
        "iq3_xxs",
        (Rule("v", "q4_k", _grouped), Rule("k", "iq2_s"), Rule("q", "iq2_s"), Rule("o", "iq3_s")),
        "q5_k",
        "iq3_s",
        wide_attention_output=True,
    ),
    "iq3_xs": Recipe(
        "iq3_s",
        (
            Rule("v", "q4_k", _grouped),
            Rule("k", "iq3_xxs"),
            Rule("q", "iq3_xxs"),
            Rule("gate", "iq3_xxs", _middle),
            Rule("up", "iq3_xxs", _middle),
        ),
        wide_attention_output=True,
    ),
    "iq3_s": Recipe("iq3_s", (Rule("v", "q4_k", _grouped),), wide_attention_output=True),
    "iq3_m": Recipe(
        "iq3_s",
        (
            Rule("v", "q4_k"),
            Rule("down", "q4_k", lambda p: _first(8)(p) or p.experts == 8 and _more_bits(p)),
            Rule("o", "q4_k"),
        ),
        wide_attention_output=True,
    ),
    "iq2_xxs": _tiny("iq2_xxs", "q2_k", "q2_k", None),
    "iq2_xs": _tiny("iq2_xs", "q2_k", "q2_k", None),
    "iq2_s": _tiny("iq2_xs", "iq3_s", "iq3_s", "iq3_s"),
    "iq2_m": _tiny("iq2_s", "iq3_s", "iq3_s", "iq3_s"),
    "iq1_s": _tiny("iq1_s", "q2_k", "q2_k", "iq2_xxs"),
    "iq1_m": _tiny("iq1_m", "q2_k", "q2_k", "iq2_xxs"),
    "tq1_0": Recipe("tq1_0", embedding="q4_k"),
    "tq2_0": Recipe("tq2_0", embedding="q4_k"),
    "mxfp4_moe": Recipe("q8_0", (Rule("expert", "mxfp4"),), "q8_0"),
}
"""Mixes of llama.cpp by name. IQ3_XXS and smaller are made with an importance matrix, the others without."""

FALLBACKS = {
    **dict.fromkeys(("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_xs"), "iq4_nl"),
    **dict.fromkeys(("q2_0", "q2_k", "q3_k", "tq1_0", "tq2_0"), "q4_0"),
    "q4_k": "q5_0",
    "q5_k": "q5_1",
    "q6_k": "q8_0",
}
"""Layout of rows that do not divide into the blocks of another one; where it does not fit either, f16."""

BLOCKS = {
    **dict.fromkeys(
        (
            "q2_k",
            "q3_k",
            "q4_k",
            "q5_k",
            "q6_k",
            "iq1_s",
            "iq1_m",
            "iq2_xxs",
            "iq2_xs",
            "iq2_s",
            "iq3_xxs",
            "iq3_s",
            "iq4_xs",
            "tq1_0",
            "tq2_0",
        ),
        256,
    ),
    **dict.fromkeys(("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl", "mxfp4"), 32),
    "q1_0": 128,
    "q2_0": 64,
    "f16": 1,
}
"""Weights in a block of each ggml layout, the direction of a row."""
