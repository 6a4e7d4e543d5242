"""Feed-forward layers: dense, and experts (routed and shared)."""

from __future__ import annotations

from joulesim.models.layers import ffn_kinds
from joulesim.models.parts import Parts
from joulesim.specs.model import Experts, Role

ROUTED = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
PER_TOKEN = (
    "num_experts_per_tok",
    "experts_per_token",
    "top_k_experts",
    "num_experts_per_token",
    "moe_topk",
    "moe_k",
)
EXPERT_WIDTH = ("moe_intermediate_size", "moe_ffn_hidden_size", "expert_ffn_hidden_size")
WIDTH = ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff")


def read_ffn(parts: Parts, layers: int) -> Experts | None:
    """Add the FFN of every layer; returns the routing where some have experts."""
    fields, family = parts.fields, parts.family
    routed = fields.per_layer(*ROUTED, layers=layers, default=0)
    experts = max(routed)
    if fields.has("enable_moe_block") and not fields.flag("enable_moe_block"):
        experts = 0
    if experts and len(set(routed)) > 1:
        fields.fault(ROUTED[0], "expected one number of experts for all layers, got several")
    kinds = ffn_kinds(fields, layers, experts) if family.has_ffn else ["none"] * layers
    sparse = [i for i, kind in enumerate(kinds) if kind == "moe"]
    dense = [i for i, kind in enumerate(kinds) if kind == "dense" or (kind == "moe" and family.dense_beside)]
    _dense(parts, dense, layers)
    if not sparse:
        return None
    return _experts(parts, sparse, experts)


def _dense(parts: Parts, having: list[int], layers: int) -> None:
    fields, family = parts.fields, parts.family
    if not having:
        return
    special = ("intermediate_size_mlp",) if fields.has("interleave_moe_layer_step") else ()
    widths = fields.per_layer(
        "adjusted_intermediate_size",
        "dense_intermediate_size",
        *special,
        *WIDTH,
        layers=layers,
        default=4 * parts.hidden,
    )
    if not any(map(fields.has, ("adjusted_intermediate_size", "dense_intermediate_size", *special, *WIDTH))):
        fields.note(f"the FFN width is not in the config: {4 * parts.hidden}, four times the hidden size")
    if fields.flag("use_double_wide_mlp"):
        shared = fields.whole("num_kv_shared_layers", default=0, low=0)
        widths = [width * (2 if i >= layers - shared else 1) for i, width in enumerate(widths)]
    bias = fields.flag(*family.ffn_bias_fields, default=family.ffn_bias)
    for width in dict.fromkeys(widths[i] for i in having):
        _block(parts, family.ffn, "dense_ffn", [i for i in having if widths[i] == width], width, bias)


def _block(
    parts: Parts,
    module: str,
    role: Role,
    layers: list[int],
    width: int,
    bias: bool = False,
    copies: int = 1,
    columns: int | None = None,
) -> None:
    """Projections up (one or two) and down of one FFN or expert."""
    columns = columns or parts.hidden
    at = parts.inside(module)
    if parts.family.gated:
        parts.linear(at("gate_proj"), role, width, columns, layers, bias, copies)
    parts.linear(at("up_proj"), role, width, columns, layers, bias, copies)
    parts.linear(at("down_proj"), role, columns, width, layers, bias, copies)


def _experts(parts: Parts, layers: list[int], routed: int) -> Experts:
    fields, family, hidden = parts.fields, parts.family, parts.hidden
    per_token = fields.whole(*PER_TOKEN, high=routed)
    width = fields.whole(*EXPERT_WIDTH, *WIDTH)
    latent = fields.whole("moe_latent_size", default=0, low=0)
    shared, shared_width = _shared(parts, width)
    fields.check()
    bias = family.expert_bias
    inside = f"{family.moe}." if family.moe else ""
    _block(parts, f"{inside}experts.{{}}", "routed_expert", layers, width, bias, routed, columns=latent or hidden)
    if latent:
        fields.note(f"routed experts work at a width of {latent}, between two projections that every token uses")
        parts.matrix(parts.layer(family.moe, "fc1_latent_proj"), "shared_expert", latent, hidden, layers)
        parts.matrix(parts.layer(family.moe, "fc2_latent_proj"), "shared_expert", hidden, latent, layers)
    if shared:
        name = "shared_expert" if family.shared_gate else "shared_experts"
        _block(parts, f"{inside}{name}", "shared_expert", layers, shared_width)
        if family.shared_gate:
            parts.vector(parts.layer(family.moe, "shared_expert_gate"), hidden, layers)
    _router(parts, layers, routed)
    return Experts(routed, per_token, shared, len(layers))


def _shared(parts: Parts, width: int) -> tuple[int, int]:
    """Number of shared experts, and the width of all of them together."""
    fields = parts.fields
    number = fields.whole("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", default=0, low=0)
    given = fields.whole("moe_shared_expert_intermediate_size", "shared_expert_intermediate_size", default=0, low=0)
    each = fields.whole("shared_intermediate_size", default=0, low=0)
    if fields.has("interleave_moe_layer_step"):
        return 1, width
    if given:
        return max(number, 1), given
    return (max(number, 1), max(number, 1) * each) if each else (number, number * width)


def _router(parts: Parts, layers: list[int], routed: int) -> None:
    family, fields, hidden = parts.family, parts.fields, parts.hidden
    parts.linear(parts.layer(family.moe, family.router), "router", routed, hidden, layers, family.router_bias)
    looked_up = fields.whole("num_hash_layers", default=0, low=0)
    scored = [layer for layer in layers if layer >= looked_up]
    if looked_up:
        fields.note(
            f"the first {looked_up} layers route by a table of token numbers; the table is not counted as weights"
        )
    correction = fields.flag("use_routing_bias", default=family.router_correction)
    if correction and fields.text("topk_method", default="noaux_tc") == "noaux_tc":
        parts.vector(parts.layer(family.moe, "e_score_correction_bias"), routed, scored)
    if family.dense_beside:
        parts.vector(parts.layer("router.scale"), hidden, layers)
        parts.vector(parts.layer("router.per_expert_scale"), routed, layers)
        for name in (
            "post_feedforward_layernorm_1",
            "post_feedforward_layernorm_2",
            "pre_feedforward_layernorm_2",
        ):
            parts.norm(parts.layer(name), hidden, layers)
