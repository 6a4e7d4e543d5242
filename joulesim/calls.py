"""Calls of N tokens through the matrices of a model: traffic, arithmetic, unpacking, launches, collectives."""

from __future__ import annotations

from typing import Any

import numpy as np

from joulesim.formulas import calls, parallelism, roofline
from joulesim.formulas import weights as weight_traffic
from joulesim.inputs import Inputs, Matrices
from joulesim.work import Work


def bandwidth(x: Inputs, c):
    """Sustained device-memory rate of dense products. [B/s]"""
    return x.memory_bandwidth * c["bandwidth_efficiency"]


def issue_limited_bandwidth(x: Inputs, c):
    """Sustained device-memory rate of kernels that vector issue limits too. [B/s]"""
    return bandwidth(x, c) * parallelism.issue_factor(x.instruction_rate, x.memory_bandwidth, c["issue_exponent"])


def instruction_rate(x: Inputs, c):
    """Sustained rate of unpacking. [instruction/s]"""
    return x.instruction_rate * c["instruction_efficiency"]


def layers(x: Inputs, c: dict[str, Any], rows) -> Work:
    """One call through the matrices of every layer with ``rows`` tokens of a replica, launches and collectives."""
    work = dense_product(x, c, x.dense, rows)
    if x.expert_layers:
        work = work.plus(experts(x, c, rows))
    launch = c["layer_overhead"] * x.layers + c["moe_layer_overhead"] * x.expert_layers
    work = work.plus(_collectives(x, c, rows))
    return (work if x.pipeline == 1.0 else work.plus(_handovers(x, c, rows)))._replace(launch=launch)


def head(x: Inputs, c: dict[str, Any], rows) -> Work:
    """Output matrix for the ``rows`` whose logits are wanted."""
    return dense_product(x, c, x.output, rows)


def experts(x: Inputs, c, rows) -> Work:
    """Routed experts of every layer for ``rows`` tokens of each replica."""
    tokens = rows * (x.data if x.expert > 1 else 1.0)
    held = 1.0 / x.expert if x.expert > 1 else 1.0 / x.tensor
    touched = weight_traffic.distinct_experts(tokens, x.experts_routed, x.experts_per_token, c["expert_skew"])
    local = x.experts_routed / x.expert
    large = tokens > local if x.switches_tile else False
    tile = np.where(large, 64.0, 16.0) if x.expert_tile is None else x.expert_tile
    chosen = tokens * x.experts_per_token / x.experts_routed
    padded = chosen + touched / x.experts_routed * tile / 2.0
    rate = issue_limited_bandwidth(x, c) if x.issue_limited_experts else bandwidth(x, c)
    rate = rate * c["expert_bandwidth_factor"] * np.where(large, c["large_tile_factor"], 1.0)
    efficiency = c["expert_compute_efficiency"]
    copies = weight_traffic.routed_activation_bytes(
        tokens * x.experts_per_token / x.expert, x.expert_outer, x.expert_inner * held * x.expert)
    work = _matrix_product(x, c, x.routed, held, touched / x.experts_routed, padded, rate, efficiency, efficiency,
                           beside=copies)
    counted = (chosen + c["padding_activity"] * (padded - chosen)) / np.where(padded > 0, padded, 1.0)  # no rows, no tiles
    counted = counted * c["expert_flop_energy"]
    return work._replace(flops=work.flops * counted, narrow_flops=work.narrow_flops * counted)


def sample(x: Inputs, c, sequences) -> Work:
    """Sampling of ``sequences`` tokens: passes over the vocabulary, on every device alike."""
    moved = sequences * x.vocabulary * c["sampling_bytes"]
    return Work(bytes=moved, sampling=moved / x.memory_bandwidth)


def dense_product(x: Inputs, c, m: Matrices, rows) -> Work:
    """Rows times matrices that all of them need: a few rows on vector lanes, more on matrix units in whole tiles."""
    on_lanes = rows * (rows <= x.lane_rows)
    passes = weight_traffic.weight_passes(rows * (rows <= x.repeat_rows), x.rows_per_pass)
    tiled = calls.tiled_rows(rows - on_lanes, x.row_tile)
    a_row = c["row_instructions"] * (m.flops_per_row + m.narrow_flops_per_row) / 2.0
    issued = calls.lane_instructions(on_lanes, passes, m.instructions, a_row) / x.tensor
    return _matrix_product(x, c, m, 1.0 / x.tensor, passes, tiled, bandwidth(x, c), c["compute_efficiency"],
                           c["narrow_compute_efficiency"], issued)


def _matrix_product(x: Inputs, c, m: Matrices, share, read, rows, rate, efficiency, narrow_efficiency,
                    instructions=None, beside=0.0) -> Work:
    """
    Rows times matrices of which the device holds a ``share`` and reads ``read`` times.

    ``instructions`` on vector lanes; ``None`` for unpacking once a read. ``beside`` is traffic beside the weights.
    """
    unpacking = m.instructions * share * read if instructions is None else instructions
    time = rows * share * (m.seconds_per_row / efficiency + m.narrow_seconds_per_row / narrow_efficiency)
    return product(
        x, c, m.bytes * share * read + beside, rows * share * m.flops_per_row, rows * share * m.narrow_flops_per_row,
        unpacking, rate, time,
    )


def product(x: Inputs, c, moved, flops, narrow_flops, instructions, rate, arithmetic_time) -> Work:
    """Work whose traffic, arithmetic and unpacking overlap."""
    streaming, exponent = moved / rate, c["overlap_exponent"]
    issuing = roofline.overlapped(arithmetic_time, instructions / instruction_rate(x, c), exponent=exponent)
    return Work(bytes=moved, flops=flops, narrow_flops=narrow_flops, instructions=instructions,
                busy=roofline.overlapped(streaming, issuing, exponent=exponent), streaming=streaming, issuing=issuing)


def _collectives(x: Inputs, c, rows) -> Work:
    """Two reductions over the devices of a layer; with experts spread out they wait for the device with the busiest."""
    group = x.tensor * (x.data if x.expert > x.tensor else 1.0)
    if np.all(group <= 1):
        return Work()
    moved = 2.0 * x.layers * parallelism.all_reduce_bytes(rows * x.hidden_size * 2.0, group)
    latency = parallelism.collective_latency(c["collective_latency"], group, c["collective_exponent"])
    waiting = c["expert_link_factor"] if x.expert > 1 else 1.0
    time = 2.0 * x.layers * latency + waiting * moved / (x.link_bandwidth * c["link_efficiency"])
    return Work(link_bytes=moved, link=time)


def _handovers(x: Inputs, c, rows) -> Work:
    """What the stages of a pipeline hand on: the rows of the last layer before each seam."""
    moved = parallelism.handover_bytes(rows * x.hidden_size * 2.0, x.pipeline)
    time = (x.pipeline - 1.0) * c["collective_latency"] + moved / (x.link_bandwidth * c["link_efficiency"])
    return Work(link_bytes=moved, link=time)
