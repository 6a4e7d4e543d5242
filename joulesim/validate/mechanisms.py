"""Mechanisms of the model as switches: what a prediction is without each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from joulesim.inputs import Inputs

Switch = Callable[[Inputs, dict[str, Any]], tuple[Inputs, dict[str, Any]]]


def _constants(**values) -> Switch:
    return lambda x, c: (x, c | values)


def _inputs(**values) -> Switch:
    return lambda x, c: (x._replace(**values), c)


def _no_unpacking(x: Inputs, c):
    free = {name: getattr(x, name)._replace(instructions=0.0) for name in ("dense", "routed", "output")}
    return x._replace(**free), c


def _no_cache_unpacking(x: Inputs, c):
    return x._replace(cache_instructions=0.0), c | {"cache_unpack_instructions": 0.0}


def _full_draft_cost(x: Inputs, c):
    plan = x.speculation
    return (x, c) if plan is None else (x._replace(speculation=plan._replace(draft=None)), c)


SWITCHES: dict[str, tuple[str, Switch]] = {
    "unpack": ("turning stored weights into operands", _no_unpacking),
    "calls": (
        "kernel regimes of calls of a few rows: repeated passes, lanes, tiles",
        _inputs(repeat_rows=0.0, lane_rows=0.0, row_tile=1.0),
    ),
    "launch": (
        "time between kernels and on the host",
        _constants(layer_overhead=0.0, moe_layer_overhead=0.0, host_per_step=0.0, host_per_sequence=0.0),
    ),
    "kv_dequant": ("bringing a quantised cache to operands", _no_cache_unpacking),
    "attention_issue": (
        "instructions of attention per cache element and query head",
        _constants(attention_instructions=0.0),
    ),
    "power_cap": ("the power limit", _inputs(power_limit=np.inf)),
    "clock_on": ("clock-on power", _constants(active_power=0.0)),
    "voltage": ("operations cheaper at a lower clock", _constants(voltage_share=0.0)),
    "off_chip": ("memory energy outside the chip counter", _inputs(chip_share_of_memory_energy=1.0)),
    "reserve": (
        "memory that the driver and the buffers take",
        _inputs(context_reserve=0.0, workspace=0.0, mask_bytes=0.0, activation_copies=0.0, logits_for_chunk=False),
    ),
    "draft_cost": ("calls of the draft model", _full_draft_cost),
}
"""Mechanisms by name: what each is, and how inputs and constants look without it."""
