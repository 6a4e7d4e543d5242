"""Layers that keep a state instead of a cache: gated delta net, Mamba, lightning attention, short convolution."""

from __future__ import annotations

from joulesim.models.attention import HEAD_WIDTH, HEADS
from joulesim.models.parts import Parts
from joulesim.specs.model import Mixer

DELTA_ATTENTION_HEADS = ("kda_num_heads", "linear_num_heads")
STATE_ELEMENT = 4
"""States are kept in fp32 by llama.cpp and by the reference code, also where the cache is 16 bit. [B]"""


def read_linear(parts: Parts, layers: list[int]) -> None:
    """Add linear attention: gated delta net where the ``linear_*`` fields are there, else lightning attention."""
    if not layers:
        return
    if parts.fields.has("linear_num_value_heads"):
        _delta_net(parts, layers)
    elif any(map(parts.fields.has, DELTA_ATTENTION_HEADS)):
        _delta_attention(parts, layers)
    elif parts.fields.has("attn_type_list") or parts.fields.text("model_type").startswith("minimax"):
        _lightning(parts, layers)
    else:
        parts.fields.fault(
            "linear_num_value_heads",
            "expected the shape of the linear attention layers, got nothing",
            "this linear attention is not modelled",
        )
        parts.fields.check()


def _state(parts: Parts, layers: list[int], kind: str, elements: int, convolved: int, kernel: int, steps: int) -> None:
    """Mixer of layers with a recurrent state and the last ``kernel - 1`` inputs of a convolution."""
    size = (elements + convolved * (kernel - 1)) * STATE_ELEMENT
    flops = float(steps * elements + 2 * kernel * convolved)
    parts.mixer(Mixer(kind, len(layers), state_bytes=size, state_flops=flops))
    parts.fields.note("recurrent state counted in fp32, the last inputs of the short convolution included")


def _delta_net(parts: Parts, layers: list[int]) -> None:
    """
    Gated delta net (Qwen3-Next, Qwen3.5).

    Notes
    -----
    Arithmetic on the state per element: decay 1, read with the key 2, rank-one update 2, read with the query 2.
    """
    fields, hidden = parts.fields, parts.hidden
    key_heads, value_heads = fields.whole("linear_num_key_heads"), fields.whole("linear_num_value_heads")
    key_width, value_width = fields.whole("linear_key_head_dim"), fields.whole("linear_value_head_dim")
    kernel = fields.whole("linear_conv_kernel_dim", high=1024)
    fields.check()
    keys, values = key_heads * key_width, value_heads * value_width
    at = parts.inside("linear_attn")
    parts.matrix(at("in_proj_qkv"), "recurrent", 2 * keys + values, hidden, layers)
    parts.matrix(at("in_proj_z"), "recurrent", values, hidden, layers)
    parts.matrix(at("in_proj_b"), "recurrent", value_heads, hidden, layers)
    parts.matrix(at("in_proj_a"), "recurrent", value_heads, hidden, layers)
    parts.matrix(at("out_proj"), "recurrent", hidden, values, layers)
    parts.vector(at("conv1d"), kernel * (2 * keys + values), layers)
    parts.vector(at("dt_bias"), value_heads, layers)
    parts.vector(at("A_log"), value_heads, layers)
    parts.vector(at("norm"), value_width, layers)
    _state(parts, layers, "linear", value_heads * key_width * value_width, 2 * keys + values, kernel, steps=7)


def _delta_attention(parts: Parts, layers: list[int]) -> None:
    """Kimi delta attention: a gated delta net whose decay is one number a channel, made in a low rank."""
    fields, hidden = parts.fields, parts.hidden
    heads, width = fields.whole(*DELTA_ATTENTION_HEADS), fields.whole("kda_head_dim", "linear_head_dim")
    kernel = fields.whole("kda_conv_kernel", "linear_conv_kernel_dim", high=1024)
    fields.check()
    inner = heads * width
    at = parts.inside(parts.family.attention)
    for name in ("q_proj", "k_proj", "v_proj"):
        parts.matrix(at(name), "recurrent", inner, hidden, layers)
    for name in ("f", "g"):
        parts.matrix(at(f"{name}_a_proj"), "recurrent", width, hidden, layers)
        parts.matrix(at(f"{name}_b_proj"), "recurrent", inner, width, layers)
    parts.matrix(at("b_proj"), "recurrent", heads, hidden, layers)
    parts.matrix(at("o_proj"), "recurrent", hidden, inner, layers)
    parts.vector(at("conv1d"), kernel * 3 * inner, layers)
    parts.vector(at("dt_bias"), inner, layers)
    parts.vector(at("A_log"), heads, layers)
    parts.vector(at("o_norm"), width, layers)
    _state(parts, layers, "linear", inner * width, 3 * inner, kernel, steps=7)


def _lightning(parts: Parts, layers: list[int]) -> None:
    """Lightning attention (MiniMax-Text-01): decay, rank-one update and read of a square state per head."""
    fields, hidden = parts.fields, parts.hidden
    heads = fields.whole(*HEADS)
    width = fields.whole(*HEAD_WIDTH, default=hidden // max(heads, 1))
    fields.check()
    at = parts.inside(parts.family.attention)
    parts.matrix(at("qkv_proj"), "recurrent", 3 * heads * width, hidden, layers)
    parts.matrix(at("output_gate"), "recurrent", heads * width, hidden, layers)
    parts.matrix(at("out_proj"), "recurrent", hidden, heads * width, layers)
    parts.vector(at("norm"), heads * width, layers)
    _state(parts, layers, "linear", heads * width * width, 0, 1, steps=5)


def read_mamba(parts: Parts, layers: list[int]) -> None:
    """Add Mamba layers: the second kind where heads are given, else the first."""
    if layers:
        second = (
            any(map(parts.fields.has, ("mamba_num_heads", "mamba_n_heads")))
            or parts.fields.text("model_type") == "mamba2"
        )
        (_mamba2 if second else _mamba1)(parts, layers)


def _mamba2(parts: Parts, layers: list[int]) -> None:
    """
    Mamba-2.

    Notes
    -----
    Arithmetic on the state per element: decay 1, input 2, read 2.
    """
    fields, hidden = parts.fields, parts.hidden
    heads = fields.whole("mamba_num_heads", "mamba_n_heads", "num_heads")
    width = fields.whole("mamba_head_dim", "mamba_d_head", "head_dim", default=0, low=0)
    width = width or fields.whole("expand", "mamba_expand", default=2) * hidden // heads
    state = fields.whole("ssm_state_size", "mamba_d_state", "state_size")
    groups = fields.whole("n_groups", "mamba_n_groups", default=1)
    kernel = fields.whole("conv_kernel", "mamba_d_conv", default=4, high=1024)
    bias = fields.flag("use_bias", "mamba_proj_bias")
    conv_bias = fields.flag("use_conv_bias", "mamba_conv_bias", default=True)
    fields.ignore(("expand", "mamba_expand", "chunk_size", "mamba_chunk_size", "time_step_rank"))
    fields.check()
    inner = heads * width
    convolved = inner + 2 * groups * state
    at = parts.inside(parts.family.mamba)
    parts.linear(at("in_proj"), "recurrent", inner + convolved + heads, hidden, layers, bias)
    parts.linear(at("out_proj"), "recurrent", hidden, inner, layers, bias)
    parts.vector(at("conv1d"), convolved * (kernel + conv_bias), layers)
    for name in ("dt_bias", "A_log", "D"):
        parts.vector(at(name), heads, layers)
    switch = parts.family.state_norm
    if not switch or fields.flag(switch):
        parts.vector(at("norm"), inner, layers)
    _state(parts, layers, "mamba", inner * state, convolved, kernel, steps=5)


def _mamba1(parts: Parts, layers: list[int]) -> None:
    """Mamba: a state of ``state_size`` for each inner channel."""
    fields, hidden = parts.fields, parts.hidden
    inner = fields.whole("mamba_inner_size", default=0, low=0)
    if not inner and fields.text("model_type").endswith("mamba"):
        inner = fields.whole("intermediate_size", default=0, low=0)
    inner = inner or fields.whole("expand", "mamba_expand", default=2) * hidden
    state = fields.whole("state_size", "mamba_d_state", default=16)
    rank = fields.value("time_step_rank", "mamba_dt_rank")
    rank = -(-hidden // 16) if rank in (None, "auto") else fields.whole("time_step_rank", "mamba_dt_rank")
    kernel = fields.whole("conv_kernel", "mamba_d_conv", default=4, high=1024)
    bias = fields.flag("use_bias", "mamba_proj_bias")
    conv_bias = fields.flag("use_conv_bias", "mamba_conv_bias", default=True)
    fields.ignore(("expand", "mamba_expand"))
    fields.check()
    at = parts.inside(parts.family.mamba)
    parts.linear(at("in_proj"), "recurrent", 2 * inner, hidden, layers, bias)
    parts.matrix(at("x_proj"), "recurrent", rank + 2 * state, inner, layers)
    parts.linear(at("dt_proj"), "recurrent", inner, rank, layers, bias=True)
    parts.linear(at("out_proj"), "recurrent", hidden, inner, layers, bias)
    parts.vector(at("conv1d"), inner * (kernel + conv_bias), layers)
    parts.vector(at("A_log"), inner * state, layers)
    parts.vector(at("D"), inner, layers)
    if parts.family.inner_norms:
        parts.vector(at("norms"), rank + 2 * state, layers)
    _state(parts, layers, "mamba", inner * state, inner, kernel, steps=5)


def read_short_convolution(parts: Parts, layers: list[int]) -> None:
    """Add gated short convolutions (LFM2): a state of the last few inputs."""
    if not layers:
        return
    kernel, bias = parts.fields.whole("conv_L_cache", high=1024), parts.fields.flag("conv_bias")
    parts.fields.check()
    hidden = parts.hidden
    parts.linear(parts.layer("conv", "in_proj"), "recurrent", 3 * hidden, hidden, layers, bias)
    parts.linear(parts.layer("conv", "out_proj"), "recurrent", hidden, hidden, layers, bias)
    parts.vector(parts.layer("conv", "conv"), hidden * (kernel + bias), layers)
    _state(parts, layers, "linear", 0, hidden, kernel, steps=0)


def read_wkv(parts: Parts, layers: int) -> None:
    """
    Add RWKV layers: a square state per head, and the last input of each shifted block.

    Notes
    -----
    Arithmetic on the state per element: decay 1, rank-one updates 4, read 2.
    """
    width = parts.fields.whole("wkv_head_size", default=64)
    shifts = parts.fields.whole("token_shift_count", default=2, low=0, high=16)
    parts.fields.check()
    _state(parts, list(range(layers)), "linear", parts.hidden * width, parts.hidden, shifts + 1, steps=7)
