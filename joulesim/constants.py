"""
Constants of the model for a device: what a datasheet and the literature say before anything is fitted.

Each constant is a value, the spread of its logarithm, and where it comes from. The rules' numbers are in
``validation/constants/starting.yaml``.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from joulesim import units
from joulesim.catalogue import data_root, read_yaml
from joulesim.specs.hardware import HardwareSpec
from joulesim.specs.runtime import RuntimeSpec

UNITS = {
    "bandwidth_efficiency": "", "compute_efficiency": "", "narrow_compute_efficiency": "", "attention_efficiency": "",
    "attention_bandwidth_factor": "", "expert_bandwidth_factor": "", "expert_compute_efficiency": "", "issue_exponent": "",
    "instruction_efficiency": "", "overlap_exponent": "", "expert_skew": "", "large_tile_factor": "",
    "tile_latency": "second", "padding_activity": "", "layer_overhead": "second", "moe_layer_overhead": "second",
    "eager_layer_overhead": "second", "sampling_bytes": "byte", "collective_latency": "second", "link_efficiency": "",
    "host_per_step": "second", "host_per_sequence": "second", "host_exponent": "",
    "static_power": "watt", "active_power": "watt", "launch_activity": "", "link_activity": "", "sampling_activity": "",
    "energy_per_byte": "joule/byte", "energy_per_link_byte": "joule/byte", "energy_per_flop": "joule/FLOP",
    "narrow_flop_energy": "", "energy_per_instruction": "joule", "voltage_share": "", "limit_margin": "",
    "time_residual": "", "power_residual": "",
}
"""Unit of each constant, in the order in which the chain meets them."""

_OVERHEAD_SPREAD = 0.5
_EXPERT_KERNELS = 4
"""Router, top-k, gather and scatter: what a layer of routed experts launches beside its products."""


class Constant(NamedTuple):
    """A constant with the spread of its logarithm and its source."""

    value: float
    spread: float
    kind: str
    ref: str
    needs: tuple[str, ...] = ()
    """Hardware fields that are unknown and without which it is ``nan``."""


@cache
def _starting() -> dict:
    """Rules of ``starting.yaml`` with quantities as floats."""
    table = read_yaml(data_root() / "validation" / "constants" / "starting.yaml")
    wanted = {"energy_per_byte": "joule/byte", "energy_per_link_byte": "joule/byte", "energy_per_instruction": "joule"}
    for name, unit in wanted.items():
        for rule in table[name].values():
            rule["value"] = units.parse(rule["value"], unit)
    return table


def _rule(name: str, *keys: str) -> Constant:
    """First rule of a table among ``keys``, else its ``other`` or ``all``."""
    table = _starting()[name]
    rule = next(table[key] for key in (*keys, "other", "all") if key in table)
    kind = rule["kind"] if rule["kind"] == "assumed" else "spec-only"
    return Constant(rule["value"], rule["spread"], kind, rule["ref"])


def _spread(*spreads: float) -> float:
    return float(np.sqrt(sum(s * s for s in spreads)))


def starting(hardware: HardwareSpec, runtime: RuntimeSpec) -> dict[str, Constant]:
    """
    Starting constants of a device under a runtime, by name.

    A constant that rests on an unknown field of the profile is ``nan`` and names the field in ``needs``.
    """
    place = hardware.kind if hardware.kind == "cpu" else hardware.vendor
    found: dict[str, Constant] = {}

    bandwidth = _rule("bandwidth_efficiency", place)
    if hardware.measured_memory_bandwidth and hardware.memory_bandwidth:
        rule = _rule("measured_bandwidth_spread")
        bandwidth = rule._replace(value=rule.value * hardware.measured_memory_bandwidth / hardware.memory_bandwidth,
                                  ref=f"measured bandwidth of the profile; {rule.ref}")
    found["bandwidth_efficiency"] = bandwidth

    compute = _rule("compute_efficiency", place)
    if hardware.measured_compute_rate.fp16 and hardware.compute_rate.fp16:
        rule = _rule("measured_compute_spread")
        compute = rule._replace(value=rule.value * hardware.measured_compute_rate.fp16 / hardware.compute_rate.fp16,
                                ref=f"measured matrix rate of the profile; {rule.ref}")
    found["compute_efficiency"] = compute
    found["narrow_compute_efficiency"] = found["expert_compute_efficiency"] = compute
    found["overlap_exponent"] = _rule("overlap_exponent", "cpu" if hardware.kind == "cpu" else "gpu")
    found |= _overheads(runtime)
    found |= _powers(hardware, found)
    for name in ("time", "power"):
        rule = _starting()["residual"][name]
        found[f"{name}_residual"] = Constant(1.0, rule["value"], "assumed", rule["ref"])
    return {name: found[name] if name in found else _rule(name) for name in UNITS}


def _overheads(runtime: RuntimeSpec) -> dict[str, Constant]:
    """Launch and host times, from the runtime."""
    declared = runtime.overheads

    def constant(name: str, value: float) -> Constant:
        source = runtime.source(f"overheads.{name}")
        return Constant(value, _OVERHEAD_SPREAD, source.kind if source else "assumed", source.ref if source else runtime.name)

    return {
        "layer_overhead": constant("kernel_launch", declared.kernel_launch * declared.kernels_per_layer),
        "moe_layer_overhead": constant("kernel_launch", declared.kernel_launch * _EXPERT_KERNELS),
        "host_per_step": constant("host_per_step", declared.host_per_step),
        "host_per_sequence": constant("host_per_sequence", declared.host_per_sequence),
        "host_exponent": _rule("host_exponent", "overlapped" if declared.host_overlaps_device else "in turns"),
    }


def _powers(hardware: HardwareSpec, found: dict[str, Constant]) -> dict[str, Constant]:
    """Static and clock-on power, and energy per byte and per operation."""
    limit = hardware.power_limit if hardware.power_limit else np.nan
    needs = () if hardware.power_limit else ("power_limit",)

    if hardware.idle_power.empty is not None:
        source = hardware.source("idle_power.empty")
        static = Constant(hardware.idle_power.empty, 0.1, "spec-only", source.ref if source else "the profile")
    else:
        datacentre = hardware.memory_kind.startswith("HBM")
        rule = _rule("idle_share", "datacentre" if datacentre else "consumer")
        static = rule._replace(value=rule.value * limit, needs=needs)
    rule = _rule("active_share")
    active = rule._replace(value=rule.value * limit, needs=needs)

    kinds = _starting()["energy_per_byte"]
    if hardware.memory_kind in kinds:
        memory = _rule("energy_per_byte", hardware.memory_kind)
    else:
        memory = Constant(np.nan, 0.0, "spec-only", "", ("memory_kind",))

    bandwidth = (hardware.memory_bandwidth or np.nan) * found["bandwidth_efficiency"].value
    share = _rule("memory_share_at_peak")
    rest = limit - static.value - active.value - share.value * bandwidth * memory.value
    missing = tuple(sorted({*static.needs, *active.needs, *memory.needs,
                            *(() if hardware.memory_bandwidth else ("memory_bandwidth",))}))
    rates = hardware.compute_rate
    half = rates.fp16 or rates.fp32
    missing = missing if half else (*missing, "compute_rate.fp16")
    sustained = (half or np.nan) * found["compute_efficiency"].value
    arithmetic = Constant(
        max(rest, 0.2 * limit) / sustained, 0.3, "spec-only",
        "rated limit less static, clock-on and memory power, over the sustained matrix rate: such a product runs at the limit",
        missing,
    )
    narrow = rates.fp8 or rates.int8
    relative = Constant(half / narrow if narrow and half and narrow > half else 1.0, 0.2, "spec-only",
                        "each number type at its full rate draws the same power")
    return {"static_power": static, "active_power": active, "energy_per_byte": memory, "energy_per_flop": arithmetic,
            "narrow_flop_energy": relative}
