"""``joulesim model``."""

from __future__ import annotations

from joulesim import catalogue, units
from joulesim.cli import listing, output
from joulesim.errors import Fault, InputError, shown
from joulesim.inventory import inventory


def arguments(parser) -> None:
    """Options of the command."""
    parser.add_argument("path", help="config.json, its folder, a .gguf, or a shipped model")
    parser.add_argument("--kv-format", default=None, help="cache format (default: the checkpoint's, else f16)")
    parser.add_argument("--weight-format", default=None, help="weight format (default: as stored, else bf16)")
    parser.add_argument("--context", default=None, help="tokens: adds the cache of one sequence of that length")
    output.arguments(parser)


def run(options) -> int:
    """Print what the model is made of."""
    model = catalogue.load_model(options.path)
    data = inventory(model, options.kv_format, options.weight_format, _context(options.context))
    listing.show_one(data, options.output, _word)
    return 0


def _context(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.strip().isdecimal() or len(text) > 18 or int(text) < 1:
        raise InputError(Fault("--context", f"expected a whole number of tokens, got {shown(text)}"))
    return int(text)


def _word(field: str, value) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" + (f" B ({units.show(value, 'byte')})" if "bytes" in field else "")
    if isinstance(value, float):
        return units.show(value, "byte") if "bytes" in field else f"{value:g}"
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
