"""
Units at the edge: text with a unit in, plain SI floats inside, text with a unit out.

The table is read from ``units.txt``, which pint reads too (:func:`registry`); that both agree is a test, so
that predicting need not import pint. Quantities are never converted "to base units": a byte stays a byte.
"""

from __future__ import annotations

import math
import re
from functools import cache
from importlib import resources
from typing import NamedTuple

from joulesim.errors import Fault, InputError, shown

_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf(?:inity)?)(?![a-z]))", re.I)
_TERM = re.compile(r"\s*(\*\*|\^|[*/·()]|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[^\s*/·^()\d][^\s*/·^()]*)")

Dimensions = tuple[tuple[str, int], ...]


class Unit(NamedTuple):
    """Size of a unit in canonical units, and its dimensions as sorted (name, exponent) pairs."""

    factor: float
    dimensions: Dimensions


class UnitError(ValueError):
    """Text that is not a quantity of the wanted dimension. ``remedy`` says what to write instead."""

    def __init__(self, what: str, remedy: str = ""):
        super().__init__(what)
        self.what, self.remedy = what, remedy


def _power(unit: Unit, exponent: int) -> Unit:
    try:
        factor = unit.factor**exponent
    except ArithmeticError:
        raise UnitError(f"{unit.factor:g} to the power of {exponent} is no size of a unit") from None
    return Unit(factor, tuple((d, e * exponent) for d, e in unit.dimensions if e * exponent))


def _times(left: Unit, right: Unit) -> Unit:
    total = dict(left.dimensions)
    for dimension, exponent in right.dimensions:
        total[dimension] = total.get(dimension, 0) + exponent
    return Unit(left.factor * right.factor, tuple(sorted((d, e) for d, e in total.items() if e)))


@cache
def _definitions() -> tuple[dict[str, float], dict[str, Unit]]:
    """Prefixes and units of ``units.txt``, each under every name it has."""
    prefixes: dict[str, float] = {}
    known: dict[str, Unit] = {}
    for line in resources.files("joulesim").joinpath("units.txt").read_text("utf-8").splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        name, definition, *aliases = (part.strip() for part in line.split("="))
        names = [name, *(alias for alias in aliases if alias != "_")]
        if name.endswith("-"):
            prefixes.update({n[:-1]: float(definition) for n in names})
        elif definition.startswith("["):
            known.update(dict.fromkeys(names, Unit(1.0, ((definition[1:-1], 1),))))
        else:
            known.update(dict.fromkeys(names, _expression(definition, prefixes, known)))
    return prefixes, known


def _named(name: str, prefixes: dict[str, float], known: dict[str, Unit]) -> Unit:
    if name in known:
        return known[name]
    for prefix, factor in prefixes.items():
        rest = name[len(prefix):]
        if name.startswith(prefix) and rest in known:
            return Unit(factor * known[rest].factor, known[rest].dimensions)
    raise UnitError(f"{name!r} is not a unit")


def _expression(text: str, prefixes: dict[str, float], known: dict[str, Unit]) -> Unit:
    """Unit of an expression such as ``GB/s`` or ``1 / second``: factors joined by ``*``, ``/``, ``^``."""
    unit, sign, position, expect_exponent = Unit(1.0, ()), 1, 0, False
    last = Unit(1.0, ())
    text = text.strip()
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise UnitError(f"{text!r} is not a unit")
        term, position = match.group(1), match.end()
        if term in ("*", "·"):
            continue
        if term == "/":
            sign = -1
        elif term in ("^", "**"):
            expect_exponent = True
        elif term in ("(", ")"):
            raise UnitError(f"{text!r} has parentheses", "write the unit as factors, e.g. J/s/B")
        elif expect_exponent:
            if not term.removeprefix("-").isdecimal():
                raise UnitError(f"{text!r} has the exponent {term!r}", "write whole exponents")
            unit = _times(unit, _power(last, int(term) - 1))
            expect_exponent = False
        else:
            is_number = term.removeprefix("-")[:1].isdecimal()
            factor = Unit(float(term), ()) if is_number else _named(term, prefixes, known)
            last = _power(factor, sign)
            unit, sign = _times(unit, last), 1
    if expect_exponent or sign < 0:
        raise UnitError(f"{text!r} is cut short")
    return unit


@cache
def unit(text: str) -> Unit:
    """
    Size and dimensions of a unit.

    >>> unit("GB/s")
    Unit(factor=1000000000.0, dimensions=(('information', 1), ('time', -1)))
    """
    return _expression(text, *_definitions())


def _describe(dimensions: Dimensions) -> str:
    if not dimensions:
        return "a bare number"
    up = "·".join(d if e == 1 else f"{d}^{e}" for d, e in dimensions if e > 0) or "1"
    down = "·".join(d if e == -1 else f"{d}^{-e}" for d, e in dimensions if e < 0)
    return f"{up}/{down}" if down else up


def parse(text: str, wanted: str) -> float:
    """
    Value of a quantity written as text, in the canonical unit ``wanted``.

    Raises
    ------
    UnitError
        When the text is not a number with a unit of the same dimensions, when the number is bare although the
        quantity has a unit, or when it is in bits (which are asked back, never converted in silence).

    Examples
    --------
    >>> parse("672 GB/s", "byte/second")
    672000000000.0
    >>> parse("90 %", "")
    0.9
    """
    target = unit(wanted)
    match = _NUMBER.match(text)
    example = f"write it as e.g. {_example(wanted)!r}"
    if match is None:
        raise UnitError(f"expected {wanted or 'a number'}, got {text!r}", example)
    number = float(match.group(1).replace("_", ""))
    rest = text[match.end():].strip()
    try:
        given = unit(rest)
    except UnitError as fault:
        raise UnitError(f"expected {wanted or 'a number'}, got {text!r} ({fault.what})", example) from None
    if given.dimensions != target.dimensions:
        if not rest:
            raise UnitError(f"expected {wanted}, got the bare number {text!r}", example)
        raise UnitError(f"expected {wanted or 'a number'}, got {text!r} ({_describe(given.dimensions)})", example)
    value = number * given.factor / target.factor
    if _in_bits(rest):
        in_bytes = re.sub(r"(?<![A-Za-z])([A-Za-zµμ]*?)(bits?|b)(?![A-Za-z])", r"\1B", rest)
        raise UnitError(
            f"{text!r} is in bits and is {show(value, wanted)}",
            f"did you mean '{match.group(1)} {in_bytes}'? Write bytes",
        )
    return value


def _in_bits(expression: str) -> bool:
    _, known = _definitions()
    bits = {name for name, u in known.items() if u == known["bit"]}
    names = re.split(r"[\s*/·^]+", expression)
    return any(name in bits or any(name.endswith(b) and name[: -len(b)] in _definitions()[0] for b in bits)
               for name in names if name not in known or name in bits)


_EXAMPLES = {
    "byte": "12 GiB", "byte/second": "4.8 TB/s", "FLOP/second": "989 TFLOP/s", "watt": "350 W", "second": "3 us",
    "hertz": "1.8 GHz", "joule/byte": "120 pJ/B", "joule/FLOP": "0.7 pJ/FLOP", "joule/weight": "2 pJ/weight",
    "second/weight": "0.01 ps/weight", "year": "4 year", "EUR/joule": "0.25 EUR/kWh", "USD/joule": "0.15 USD/kWh",
    "gCO2e/joule": "300 gCO2e/kWh", "gCO2e": "150 kgCO2e", "EUR": "1800 EUR", "USD": "1900 USD", "joule": "1 kWh",
}


def _example(wanted: str) -> str:
    return _EXAMPLES.get(wanted, f"1 {wanted}".strip())


_STEPS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""),
          (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"))
_SHORT = {"byte": "B", "second": "s", "joule": "J", "watt": "W", "hertz": "Hz"}


def symbol(canonical: str) -> str:
    """Short form of a canonical unit: ``byte/second`` becomes ``B/s``."""
    return "/".join(_SHORT.get(part, part) for part in canonical.split("/"))


def show(value: float | None, canonical: str, digits: int = 4) -> str:
    """
    Value as text with a fitting prefix, ready for a table.

    >>> show(6.72e11, "byte/second")
    '672 GB/s'
    """
    if value is None:
        return "unknown"
    value = float(value)
    if not canonical or not math.isfinite(value) or value == 0:
        return f"{value:.{digits}g} {symbol(canonical)}".strip()
    first, _, rest = canonical.partition("/")
    prefixable = first in _SHORT or first in ("FLOP", "gCO2e")
    scale, prefix = next(((s, p) for s, p in _STEPS if abs(value) >= s), _STEPS[-1]) if prefixable else (1.0, "")
    number = f"{value / scale:.{digits}g}"
    if prefixable and abs(float(number)) >= 1000 and prefix != "E":
        scale, prefix = next((s, p) for s, p in reversed(_STEPS) if s > scale)
        number = f"{value / scale:.{digits}g}"
    return f"{number} {prefix}{symbol(canonical)}"


@cache
def registry():
    """Pint registry made from the same definitions; the only place where pint is imported."""
    import pint

    made = pint.UnitRegistry(None)
    made.load_definitions(resources.files("joulesim").joinpath("units.txt").read_text("utf-8").splitlines())
    return made


def from_pint(quantity, wanted: str) -> float:
    """Magnitude of a pint quantity (of any registry) in the canonical unit; names decide, not the registry."""
    names = re.sub(r"\s+", "", str(quantity.units)).replace("**", "^")
    given, target = unit(names), unit(wanted)
    if given.dimensions != target.dimensions:
        raise UnitError(f"expected {wanted}, got {quantity} ({_describe(given.dimensions)})")
    return float(quantity.magnitude) * given.factor / target.factor


def quantity(value, wanted: str, where: str, text_only: bool = False) -> float:
    """Float in the canonical unit from text, a number (already canonical) or a pint quantity."""
    try:
        if isinstance(value, str):
            return parse(value, wanted)
        if hasattr(value, "magnitude") and hasattr(value, "units"):
            return from_pint(value, wanted)
        if isinstance(value, bool) or not isinstance(value, (int, float)) and not hasattr(value, "__float__"):
            raise UnitError(f"expected {wanted or 'a number'}, got {shown(value)}", f"write it as e.g. {_example(wanted)!r}")
        if text_only and wanted:
            raise UnitError(f"expected {wanted}, got the bare number {shown(value)}", f"write it as e.g. {_example(wanted)!r}")
        return float(value)
    except OverflowError:
        raise InputError(Fault(where, f"expected {wanted or 'a number'}, got {shown(value)}")) from None
    except UnitError as fault:
        raise InputError(Fault(where, fault.what, fault.remedy)) from None
