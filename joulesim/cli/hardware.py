"""``joulesim hardware``."""

from __future__ import annotations

from joulesim import catalogue, units
from joulesim.cli import listing
from joulesim.specs.hardware import HardwareSpec

arguments = listing.arguments

UNITS = {
    "memory_capacity": "byte", "memory_bandwidth": "byte/second", "measured_memory_bandwidth": "byte/second",
    "cache_capacity": "byte", "link_bandwidth": "byte/second", "power_limit": "watt", "base_clock": "hertz",
    "boost_clock": "hertz", "compute_rate": "FLOP/second", "measured_compute_rate": "FLOP/second", "idle_power": "watt",
    "power_modes": "watt",
}


def run(options) -> int:
    """List the profiles, or show one with the source of each number."""
    if options.name:
        return _one(catalogue.load_hardware(options.name), options.output)
    rows = []
    for name in catalogue.names("hardware"):
        h = catalogue.load_hardware(name)
        row = {"name": name, "kind": h.kind, "memory": h.memory_capacity, "bandwidth": h.memory_bandwidth,
               "fp16": h.compute_rate.fp16, "power_limit": h.power_limit, "modes": ", ".join(h.power_modes)}
        if options.output != "json":
            row |= {"memory": units.show(h.memory_capacity, "byte"), "bandwidth": units.show(h.memory_bandwidth, "byte/second"),
                    "fp16": units.show(h.compute_rate.fp16, "FLOP/second"), "power_limit": units.show(h.power_limit, "watt")}
        rows.append(row)
    listing.show_all(rows, options.output)
    return 0


def _one(h: HardwareSpec, style: str) -> int:
    data = h.model_dump(exclude={"sources", "unknown", *({"derived_from", "carry_over"} if h.derived_from is None else ())})
    if h.derived_from is not None:
        data["derived_from"] = h.derived_from.name
    data["unknown"] = dict(h.unknown)
    if style == "json":
        data["sources"] = {field: source.model_dump() for field, source in h.sources.items()}

    def word(field: str, value) -> str:
        if value is None:
            return f"unknown: {h.why_unknown(field)}"
        head = field.partition(".")[0]
        quantity = head in UNITS and isinstance(value, float) and "clock" not in field[5:]
        text = units.show(value, UNITS[head]) if quantity else str(value)
        source = h.source(field)
        return f"{text} ({source.kind}: {source.ref})" if source and not field.startswith("unknown") else text

    listing.show_one({k: v for k, v in data.items() if v not in ({}, "")}, style, word)
    return 0
