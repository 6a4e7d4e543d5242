"""``joulesim formats``."""

from __future__ import annotations

from joulesim import catalogue
from joulesim.cli import listing

arguments = listing.arguments


def run(options) -> int:
    """List the formats, or show one."""
    if options.name:
        spec = catalogue.load_format(options.name)
        data = spec.model_dump(mode="json")
        sources = data.pop("sources")
        listing.show_one(data | {"bits_per_weight": _bits(spec), "sources": sources}, options.output, lambda _, v: str(v))
        return 0
    rows = []
    for name in catalogue.names("format"):
        spec = catalogue.FORMATS[name]
        rows.append({"name": name, "kind": "mix" if spec.recipe else "block", "bits_per_weight": _bits(spec),
                     "computes_in": spec.number_type, "cache": spec.cache, "aliases": ", ".join(spec.aliases)})
    listing.show_all(rows, options.output)
    return 0


def _bits(spec) -> float | None:
    return None if spec.bytes_per_weight is None else round(8 * spec.bytes_per_weight, 6)
