"""
Constants of the model for a device under a runtime: what its datasheet and the literature say, then what was fitted.

Each constant is a value, the spread of its logarithm, and where it comes from. Rules for any device are in
``validation/constants/starting.yaml``; ``validation/constants/<runtime>.yaml`` replaces what records of that runtime
have identified, for every device (``shared``), for one (``devices``) and for a kernel class (``experts``), by a value or
by a factor on what the datasheet gives.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from joulesim import units
from joulesim.catalogue import data_root, read_yaml, shipped_hardware
from joulesim.specs.derived import CarryOver
from joulesim.specs.hardware import HardwareSpec
from joulesim.specs.runtime import RuntimeSpec

UNITS = {
    "bandwidth_efficiency": "", "compute_efficiency": "", "narrow_compute_efficiency": "", "attention_efficiency": "",
    "attention_bandwidth_factor": "", "expert_bandwidth_factor": "", "expert_compute_efficiency": "", "issue_exponent": "",
    "instruction_efficiency": "", "row_instructions": "", "attention_instructions": "",
    "cache_unpack_instructions": "", "overlap_exponent": "", "expert_skew": "", "large_tile_factor": "",
    "padding_activity": "", "layer_overhead": "second", "moe_layer_overhead": "second",
    "eager_layer_overhead": "second", "sampling_bytes": "byte", "collective_latency": "second", "collective_exponent": "",
    "link_efficiency": "", "expert_link_factor": "",
    "host_per_step": "second", "host_per_sequence": "second", "host_exponent": "",
    "static_power": "watt", "active_power": "watt", "launch_activity": "", "link_activity": "",
    "energy_per_byte": "joule/byte", "energy_per_link_byte": "joule/byte", "energy_per_flop": "joule/FLOP",
    "narrow_flop_energy": "", "expert_flop_energy": "", "energy_per_instruction": "joule",
    "voltage_share": "", "limit_margin": "",
    "history_share": "", "time_residual": "", "power_residual": "",
}
"""Unit of each constant, in the order in which the chain meets them."""

_OVERHEAD_SPREAD = 0.5
_EAGER_GAP = 0.2
"""Gap that stays on the device between kernels queued ahead, over the time in which the host launches one."""
_EXPERT_KERNELS = 4
"""Router, top-k, gather and scatter: what a layer of routed experts launches beside its products."""


class Constant(NamedTuple):
    """A constant with the spread of its logarithm and its source."""

    value: Any
    spread: float
    kind: str
    ref: str
    needs: tuple[str, ...] = ()
    """Hardware fields that are unknown and without which it is ``nan``."""


@cache
def _starting() -> dict:
    """Rules of ``starting.yaml`` with quantities as floats."""
    table = read_yaml(data_root() / "validation" / "constants" / "starting.yaml")
    for name, rules in table.items():
        for rule in rules.values():
            rule["value"] = _number(name, rule["value"])
    return table


def _number(name: str, value) -> float:
    return units.parse(value, UNITS[name]) if isinstance(value, str) else float(value)


@cache
def fitted(runtime: str) -> dict:
    """What records of a runtime have identified; empty when nothing was fitted for it."""
    path = data_root() / "validation" / "constants" / f"{runtime}.yaml"
    if not path.is_file():
        return {}
    table = read_yaml(path)
    for part in (table.get("shared", {}), *table.get("devices", {}).values(), *table.get("experts", {}).values()):
        for name, rule in part.items():
            if "value" in rule:
                rule["value"] = _number(name, rule["value"])
    return table


def starting_rule(name: str, *keys: str) -> Constant:
    """First rule of a table among ``keys``, else its ``other`` or ``all``."""
    table = _starting()[name]
    rule = next(table[key] for key in (*keys, "other", "all") if key in table)
    kind = rule["kind"] if rule["kind"] == "assumed" else "spec-only"
    return Constant(rule["value"], rule["spread"], kind, rule["ref"])


@cache
def _for_all() -> dict[str, Constant]:
    """Constants whose starting rule is the same for every device."""
    return {name: starting_rule(name) for name, rules in _starting().items() if "all" in rules}


def constants(hardware: HardwareSpec, runtime: RuntimeSpec, expert_class: str | None = None,
              use_fitted: bool = True) -> dict[str, Constant]:
    """
    Constants of a device under a runtime, by name.

    A constant that rests on an unknown field of the profile is ``nan`` and names the field in ``needs``.

    Parameters
    ----------
    hardware, runtime : HardwareSpec, RuntimeSpec
        What they are constants of.
    expert_class : str, optional
        Kernel class of the routed experts: their weight format, ``-native`` where the device multiplies it.
    use_fitted : bool
        Whether fitted constants replace starting ones.
    """
    if hardware.derived_from is not None:
        return _carried(hardware, constants(hardware.derived_from, runtime, expert_class, use_fitted))
    found = _for_all() | _efficiencies(hardware) | _overheads(runtime)
    found["overlap_exponent"] = starting_rule("overlap_exponent", "cpu" if hardware.kind == "cpu" else "gpu")
    found |= _shares(hardware)
    table = fitted(runtime.constants_of or runtime.name) if use_fitted else {}
    parts = [table.get("shared", {}), table.get("experts", {}).get(expert_class, {}),
             table.get("devices", {}).get(hardware.name, {})]
    start = {}
    if any("factor" in rule for part in parts for rule in part.values()):
        start = constants(hardware, runtime, expert_class, use_fitted=False)
    for part in parts:
        for name, rule in part.items():
            value, needs, ref = rule.get("value"), (), rule.get("ref") or table["source"]
            if "factor" in rule:  # times what the datasheet alone says
                value, needs = rule["factor"] * start[name].value, start[name].needs
                ref = f"{ref}: {rule['factor']:g} x {start[name].ref}"
            found[name] = Constant(value, rule["spread"], rule.get("kind", "fitted"), ref, needs)
    if hardware.same_die_as and "energy_per_flop" not in found:
        found["energy_per_flop"] = _of_die(hardware.same_die_as, runtime, expert_class, use_fitted)
    found |= _powers(hardware, found)
    return {name: found[name] for name in UNITS}


def _carried(hardware: HardwareSpec, base: dict[str, Constant]) -> dict[str, Constant]:
    """Constants of a hypothetical device: the base's efficiencies, its powers and energies as declared."""
    rules, found = hardware.carry_over or CarryOver(), dict(base)
    applied = [(rules.static_power, ("static_power",)), (rules.energy_per_byte, ("energy_per_byte",)),
               (rules.energy_per_operation, ("energy_per_flop", "energy_per_instruction", "active_power"))]
    for rule, names in applied:
        how, number = rule or ("x", 1.0)
        for name in names:
            value = number if how == "=" else base[name].value * number
            said = "given" if how == "=" else "kept" if number == 1 else f"x{number:g}"
            found[name] = base[name]._replace(value=value, kind="hypothetical", needs=() if how == "=" else base[name].needs,
                                              ref=f"{said}, from {hardware.derived_from.name}; {base[name].ref}")
    return found


def _of_die(name: str, runtime: RuntimeSpec, expert_class: str | None, use_fitted: bool) -> Constant:
    """
    Energy per operation of another device with the same die.

    A limit over a rate says what an operation costs only where the die may draw what its rate takes: a board held to half
    the power, or cut to a seventh of the rate for export, computes with the same transistors.
    """
    found = constants(shipped_hardware(name), runtime, expert_class, use_fitted)["energy_per_flop"]
    return found._replace(ref=f"{found.ref}; of {name}, the same die")


def _efficiencies(hardware: HardwareSpec) -> dict[str, Constant]:
    """Sustained over peak rates."""
    place = hardware.kind if hardware.kind == "cpu" else hardware.vendor
    bandwidth = starting_rule("bandwidth_efficiency", place)
    if hardware.measured_memory_bandwidth is not None:
        rule = starting_rule("measured_bandwidth_share")
        bandwidth = rule._replace(value=rule.value * hardware.measured_memory_bandwidth / hardware.streaming_rate,
                                  ref=f"measured bandwidth of the profile; {rule.ref}")
    compute = starting_rule("compute_efficiency", place)
    if hardware.measured_compute_rate.fp16 is not None:
        rule = starting_rule("measured_compute_share")
        compute = rule._replace(value=rule.value * hardware.measured_compute_rate.fp16 / hardware.matrix_rate,
                                ref=f"measured matrix rate of the profile; {rule.ref}")
    return {"bandwidth_efficiency": bandwidth, "compute_efficiency": compute, "narrow_compute_efficiency": compute,
            "expert_compute_efficiency": compute}


def _overheads(runtime: RuntimeSpec) -> dict[str, Constant]:
    """Launch and host times and the instructions of decode attention, from the runtime."""
    declared = runtime.overheads

    def constant(name: str, value: float) -> Constant:
        source = runtime.source(name)
        return Constant(value, _OVERHEAD_SPREAD, source.kind if source else "assumed", source.ref if source else runtime.name)

    launches = declared.kernel_launch * declared.kernels_per_layer
    eager = {"eager_layer_overhead": constant("overheads.kernel_launch", launches)} if runtime.graph_rows == 0 else {}
    return {
        **eager,
        "layer_overhead": constant("overheads.kernel_launch", launches * (_EAGER_GAP if eager else 1.0)),
        "moe_layer_overhead": constant("overheads.kernel_launch", declared.kernel_launch * _EXPERT_KERNELS),
        "host_per_step": constant("overheads.host_per_step", declared.host_per_step),
        "host_per_sequence": constant("overheads.host_per_sequence", declared.host_per_sequence),
        "attention_instructions": constant("decode_attention_instructions", runtime.decode_attention_instructions),
        "cache_unpack_instructions": constant("cache_unpack_instructions", runtime.cache_unpack_instructions),
        "host_exponent": starting_rule("host_exponent", "overlapped" if declared.host_overlaps_device else "in turns"),
    }


def _shares(hardware: HardwareSpec) -> dict[str, Constant]:
    """Powers as shares of what a datasheet says, and energy per byte, before anything is fitted."""
    kinds = _starting()["energy_per_byte"]
    memory = Constant(np.nan, 0.0, "spec-only", "", ("memory_kind",))
    if hardware.memory_kind in kinds:
        memory = starting_rule("energy_per_byte", hardware.memory_kind)
    return {"energy_per_byte": memory}


def idle_power(hardware: HardwareSpec) -> Constant:
    """Power of an empty device."""
    if hardware.idle_power.empty is not None:
        source = hardware.source("idle_power.empty")
        return Constant(hardware.idle_power.empty, 0.1, "spec-only", source.ref if source else "the profile")
    rule = starting_rule("idle_share", "datacentre" if hardware.memory_kind.startswith("HBM") else "consumer")
    if hardware.power_limit is None:
        return rule._replace(value=np.nan, needs=("power_limit",))
    return rule._replace(value=rule.value * full_power(hardware))


def full_power(hardware: HardwareSpec) -> float:
    """Most that a device can be set to draw: shares of power are of this, whatever mode it runs in. [W]"""
    if hardware.kind == "soc" and hardware.power_limit_range:
        return hardware.power_limit_range[1]
    return np.nan if hardware.power_limit is None else hardware.power_limit


def _powers(hardware: HardwareSpec, found: dict[str, Constant]) -> dict[str, Constant]:
    """Static and clock-on power and energy per operation, from their shares and the datasheet."""
    limit = full_power(hardware)
    idle = idle_power(hardware)
    share = found["static_share"]
    static = share._replace(value=share.value * idle.value, spread=float(np.hypot(share.spread, idle.spread)),
                            ref=share.ref if share.kind == "fitted" else idle.ref, needs=idle.needs,
                            kind=share.kind if share.kind == "fitted" else idle.kind)
    static = found.get("static_power", static)
    share = found["active_share"]
    range_needs = tuple(dict.fromkeys((*idle.needs, *(("power_limit",) if hardware.power_limit is None else ()))))
    active = found.get("active_power", share._replace(value=share.value * (limit - idle.value), needs=range_needs))

    rates, memory = hardware.compute_rate, found["energy_per_byte"]
    half = hardware.matrix_rate
    narrow = rates.int8 if rates.fp8 is None else rates.fp8
    powers = {"static_power": static, "active_power": active}
    if "energy_per_flop" not in found:
        bandwidth = np.nan if hardware.streaming_rate is None else hardware.streaming_rate
        streaming = found["memory_share_at_peak"].value * bandwidth * memory.value * found["bandwidth_efficiency"].value
        rest = np.maximum(limit - static.value - active.value - streaming, 0.2 * limit)
        needs = (*range_needs, *memory.needs, *(("memory_bandwidth",) if hardware.streaming_rate is None else ()),
                 *(("compute_rate.fp16",) if half is None else ()))
        powers["energy_per_flop"] = Constant(
            rest / ((np.nan if half is None else half) * found["compute_efficiency"].value), 0.3, "spec-only",
            "rated limit less static, clock-on and memory power, over the sustained matrix rate", tuple(dict.fromkeys(needs)),
        )
    if "narrow_flop_energy" not in found:
        faster = 1.0 if half is None or narrow is None else np.minimum(half / narrow, 1.0)
        powers["narrow_flop_energy"] = Constant(faster, 0.2, "spec-only", "every number type at its full rate draws the same")
    return powers
