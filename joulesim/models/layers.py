"""
Which mixer and which FFN each layer has.

Configs say it in a dozen ways; each way is one reader in :data:`MIXER_READERS` or :data:`FFN_READERS`, tried in
order, the first that finds its field wins.
"""

from __future__ import annotations

from collections.abc import Callable

from joulesim.models.families import Family
from joulesim.models.fields import Fields, short

KINDS = {
    "full_attention": "full",
    "attention": "full",
    "full": "full",
    "global": "full",
    "global_attention": "full",
    "sliding_attention": "sliding",
    "sliding_window": "sliding",
    "local_attention": "sliding",
    "local": "sliding",
    "hybrid": "both",
    "chunked_attention": "chunked",
    "linear_attention": "linear",
    "lightning_attention": "linear",
    "conv": "conv",
    "mamba": "mamba",
    "mamba2": "mamba",
    "deepseek_sparse_attention": "full",
    "indexed_attention": "full",
    "minimax_m3_sparse": "sparse",
    "moe": "none",
    "mlp": "none",
    "none": "none",
    "no_op": "none",
}
"""Mixer of a layer by the name in a config. A DeepSeek sparse layer is full attention with an index."""
BLOCK_LETTERS = {"M": "mamba", "*": "full", "-": "none", "E": "none"}
"""Nemotron-H block pattern: Mamba, attention, dense FFN, experts."""
BLOCK_NAMES = {
    "mamba": "mamba",
    "attention": "full",
    "full_attention": "full",
    "linear_attention": "linear",
    "moe": "none",
    "mlp": "none",
}
SHORT_WINDOW = {0: "full", 1: "sliding"}
ATTENTION_TYPES = {0: "linear", 1: "full"}


def _named(field: str, names: dict) -> Callable[[Fields, Family, int], list[str] | None]:
    """Reader of a list (or string) with one name a layer."""

    def read(fields: Fields, family: Family, layers: int) -> list[str] | None:
        given = fields.each(field, layers)
        if given is None:
            return None
        unknown = [item for item in given if not isinstance(item, (str, int)) or item not in names]
        for item in dict.fromkeys(map(short, unknown)):
            fields.fault(
                field,
                f"expected layers of {', '.join(map(str, names))}, got {item}",
                "this mixer is not modelled",
            )
        return ["full" if item in unknown else names[item] for item in given]

    return read


def _sparse(fields: Fields, family: Family, layers: int) -> list[str] | None:
    part = fields.part("sparse_attention_config")
    if not part or not part.get("use_sparse_attention", True):
        return None
    inner = Fields(part, f"{fields.where}: sparse_attention_config")
    given = inner.each("sparse_attention_freq", layers)
    fields.faults += inner.faults
    return ["sparse" if item else "full" for item in given or [1] * layers]


def _letters(fields: Fields, family: Family, layers: int) -> list[str] | None:
    """Pattern of sliding and global layers: a string such as ``LLLG``, or every n-th layer global."""
    pattern = fields.value("sliding_window_pattern", "_sliding_window_pattern")
    if not fields.has("sliding_window") or pattern is None:
        return None
    if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:
        return [{"L": "sliding", "G": "full"}[pattern[i % len(pattern)]] for i in range(layers)]
    every = fields.whole("sliding_window_pattern", "_sliding_window_pattern", low=1)
    return ["full" if (i + 1) % every == 0 else "sliding" for i in range(layers)]


def _chunked(fields: Fields, family: Family, layers: int) -> list[str] | None:
    """Llama 4: chunked layers rotate, global ones do not; an empty list means every fourth is global."""
    if not (
        fields.has("no_rope_layers") or fields.has("no_rope_layer_interval") or fields.has("interleave_moe_layer_step")
    ):
        return None
    if not fields.has("attention_chunk_size"):
        return None
    every = fields.whole("no_rope_layer_interval", default=4)
    rotates = fields.each("no_rope_layers", layers)
    if rotates is None:
        fields.note(f"no_rope_layers is empty: one layer in {every} is global, the others attend in chunks")
        rotates = [(i + 1) % every for i in range(layers)]
    return ["chunked" if item else "full" for item in rotates]


def _interval(fields: Fields, family: Family, layers: int) -> list[str] | None:
    if not fields.has("full_attention_interval"):
        return None
    every = fields.whole("full_attention_interval")
    return ["full" if (i + 1) % every == 0 else "linear" for i in range(layers)]


def _window(fields: Fields, family: Family, layers: int) -> list[str] | None:
    """``sliding_window`` alone: the family's code decides which layers it holds for."""
    if not fields.has("sliding_window") or not family.keep_window:
        return None
    if family.window_switch:
        if not fields.flag(family.window_switch):
            fields.note(f"sliding_window is set but {family.window_switch} is not true: attention is full")
            return None
        first = fields.whole("max_window_layers", default=0, low=0)
        return ["sliding" if i >= first else "full" for i in range(layers)]
    every = family.window_pattern
    if every:
        fields.note(f"which layers slide is not in the config: all but one in {every}, the default of its family")
    return ["full" if every and (i + 1) % every == 0 else "sliding" for i in range(layers)]


MIXER_READERS: tuple[Callable[[Fields, Family, int], list[str] | None], ...] = (
    _named("layer_types", KINDS),
    _named("attention_layers", KINDS),
    _named("layers_block_type", BLOCK_NAMES),
    _named("hybrid_override_pattern", BLOCK_LETTERS),
    _named("hybrid_layer_pattern", SHORT_WINDOW),
    _named("attn_type_list", ATTENTION_TYPES),
    _sparse,
    _interval,
    _letters,
    _chunked,
    _window,
)


def mixer_kinds(fields: Fields, family: Family, layers: int) -> list[str]:
    """Kind of mixer of each layer: the family's own where nothing says otherwise."""
    found = [reader(fields, family, layers) for reader in MIXER_READERS]
    return next((kinds for kinds in found if kinds is not None), [family.mixer] * layers)


def _ffn_names(field: str, names: dict) -> Callable[[Fields, int], list[str] | None]:
    mixers = _named(field, names)
    return lambda fields, layers: mixers(fields, Family(), layers)


def _expert_list(fields: Fields, layers: int) -> list[str] | None:
    """``moe_layers``: numbers of the layers that have experts."""
    given = fields.value("moe_layers")
    if given is None:
        return None
    if not isinstance(given, list):
        fields.fault("moe_layers", f"expected a list of layer numbers, got {short(given)}")
        return None
    return ["moe" if i in given else "dense" for i in range(layers)]


def _frequency(fields: Fields, layers: int) -> list[str] | None:
    """``first_k_dense_replace`` and ``moe_layer_freq``, a number or one flag a layer."""
    if not (fields.has("first_k_dense_replace") or fields.has("moe_layer_freq")):
        return None
    if isinstance(fields.value("moe_layer_freq"), list):
        return ["moe" if item else "dense" for item in fields.each("moe_layer_freq", layers) or [1] * layers]
    first = fields.whole("first_k_dense_replace", default=0, low=0)
    every = fields.whole("moe_layer_freq", default=1)
    return ["moe" if i >= first and i % every == 0 else "dense" for i in range(layers)]


def _steps(fields: Fields, layers: int) -> list[str] | None:
    """Qwen: every ``decoder_sparse_step``-th layer has experts, but those of ``mlp_only_layers``."""
    if not (fields.has("decoder_sparse_step") or fields.value("mlp_only_layers")):
        return None
    every = fields.whole("decoder_sparse_step", default=1)
    dense = fields.value("mlp_only_layers") or []
    if not isinstance(dense, list):
        fields.fault("mlp_only_layers", f"expected a list of layer numbers, got {short(dense)}")
        dense = []
    return ["moe" if i not in dense and (i + 1) % every == 0 else "dense" for i in range(layers)]


def _interleaved(fields: Fields, layers: int) -> list[str] | None:
    if not fields.has("interleave_moe_layer_step"):
        return None
    every = fields.whole("interleave_moe_layer_step")
    return ["moe" if (i + 1) % every == 0 else "dense" for i in range(layers)]


def _from_layer(fields: Fields, layers: int) -> list[str] | None:
    """ERNIE 4.5 and LFM2: experts between a first and a last layer, every n-th."""
    if not (fields.has("moe_layer_start_index") or fields.has("num_dense_layers")):
        return None
    first = fields.whole("moe_layer_start_index", "num_dense_layers", default=0, low=0)
    last = fields.whole("moe_layer_end_index", default=-1, low=-1)
    every = fields.whole("moe_layer_interval", default=1)
    return [
        "moe" if first <= i <= (layers if last < 0 else last) and (i + 1) % every == 0 else "dense"
        for i in range(layers)
    ]


FFN_READERS: tuple[Callable[[Fields, int], list[str] | None], ...] = (
    _ffn_names("mlp_layer_types", {"dense": "dense", "sparse": "moe", "moe": "moe", "hash_moe": "moe"}),
    _ffn_names("layers_block_type", dict.fromkeys(BLOCK_NAMES, "none") | {"moe": "moe", "mlp": "dense"}),
    _ffn_names("hybrid_override_pattern", {"M": "none", "*": "none", "-": "dense", "E": "moe"}),
    _expert_list,
    _frequency,
    _steps,
    _interleaved,
    _from_layer,
)


def ffn_kinds(fields: Fields, layers: int, experts: int) -> list[str]:
    """Kind of FFN of each layer: ``dense``, ``moe`` or ``none``."""
    found = [reader(fields, layers) for reader in FFN_READERS]
    kinds = next((kinds for kinds in found if kinds is not None), ["moe" if experts else "dense"] * layers)
    return kinds if experts else ["dense" if kind == "moe" else kind for kind in kinds]
