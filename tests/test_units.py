"""Units: the table joulesim reads, the same table in pint, and what is refused at the edge."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim import units
from joulesim.errors import InputError

PREFIXES, KNOWN = units._definitions()
CANONICAL = ["byte", "byte/second", "FLOP/second", "watt", "second", "hertz", "joule", "joule/byte", "joule/FLOP",
             "joule/token", "second/token", "token/second", "EUR/joule", "gCO2e/joule", "joule/answer", "FLOP/byte"]

WRITTEN = [  # text, canonical unit, value
    ("672 GB/s", "byte/second", 672e9),
    ("4.8 TB/s", "byte/second", 4.8e12),
    ("12 GiB", "byte", 12 * 2**30),
    ("12 GB", "byte", 12e9),
    ("12227 MiB", "byte", 12227 * 2**20),
    ("989 TFLOP/s", "FLOP/second", 989e12),
    ("989 Tflop/s", "FLOP/second", 989e12),
    ("350 W", "watt", 350.0),
    ("0.35 kW", "watt", 350.0),
    ("350 J/s", "watt", 350.0),
    ("3 us", "second", 3e-6),
    ("3 µs", "second", 3e-6),
    ("3 μs", "second", 3e-6),
    ("4 year", "second", 4 * 31557600.0),
    ("2 h", "second", 7200.0),
    ("90 min", "second", 5400.0),
    ("1.8 GHz", "hertz", 1.8e9),
    ("1 kWh", "joule", 3.6e6),
    ("120 pJ/B", "joule/byte", 120e-12),
    ("0.7 pJ/FLOP", "joule/FLOP", 0.7e-12),
    ("0.25 EUR/kWh", "EUR/joule", 0.25 / 3.6e6),
    ("0.25 €/kWh", "EUR/joule", 0.25 / 3.6e6),
    ("90 EUR/MWh", "EUR/joule", 90 / 3.6e9),
    ("300 gCO2e/kWh", "gCO2e/joule", 300 / 3.6e6),
    ("150 kgCO2e", "gCO2e", 150e3),
    ("90 %", "", 0.9),
    ("0.9", "", 0.9),
    ("1_000 token", "token", 1000.0),
    ("1e3 tokens", "token", 1000.0),
    ("2 J/token", "joule/token", 2.0),
    ("  5   MB / s ", "byte/second", 5e6),
    ("3 B s^-1", "byte/second", 3.0),
    ("3 B·s**-1", "byte/second", 3.0),
]


@pytest.mark.parametrize("text, wanted, value", WRITTEN)
def test_text_with_a_unit_is_read(text, wanted, value):
    assert units.parse(text, wanted) == pytest.approx(value, rel=1e-14)


def test_a_gigabyte_is_not_a_gibibyte():
    assert units.parse("1 GiB", "byte") / units.parse("1 GB", "byte") == pytest.approx(1.073741824)


@pytest.mark.parametrize("canonical", CANONICAL)
@given(value=st.floats(1e-11, 1e17))
def test_every_unit_round_trips(canonical, value):
    """What is shown in full reads back as itself."""
    shown = units.show(value, canonical, digits=17)
    assert units.parse(shown, canonical) == pytest.approx(value, rel=1e-12)


@given(prefix=st.sampled_from(sorted(PREFIXES)), name=st.sampled_from(sorted(KNOWN)), value=st.floats(-1e6, 1e6))
def test_prefixed_units_scale_by_their_prefix(prefix, name, value):
    if prefix + name in KNOWN:  # "min" is a minute, not a milli-inch
        return
    if KNOWN[name] == KNOWN["bit"]:
        return
    canonical = "*".join(f"{d}^{e}" for d, e in KNOWN[name].dimensions)
    names = {"information": "byte", "arithmetic": "FLOP", "energy": "joule", "time": "second", "carbon": "gCO2e"}
    for dimension, unit in names.items():
        canonical = canonical.replace(dimension, unit)
    whole = units.unit(prefix + name)
    assert whole.factor == pytest.approx(PREFIXES[prefix] * KNOWN[name].factor)
    assert units.parse(f"{value!r} {prefix}{name}", canonical) == pytest.approx(value * whole.factor, rel=1e-12, abs=1e-300)


PINT_UNITS = ["GB/s", "GiB", "MiB", "TB/s", "TFLOP/s", "flop", "kW", "mW", "W", "us", "ms", "ns", "min", "hour", "day",
              "year", "kWh", "Wh", "MWh", "pJ/B", "J/token", "tok/s", "EUR/kWh", "USD/MWh", "gCO2e/kWh", "kgCO2e", "GHz",
              "bit", "Gb/s", "percent", "byte", "weight", "request/s", "answer/hour", "PB", "EFLOP/s", "Ti" "B"]


@pytest.mark.parametrize("text", PINT_UNITS)
def test_pint_reads_the_same_definitions_alike(text):
    pint_unit = units.registry().parse_units(text)
    ours = units.unit(text)
    names = dict(time="second", energy="joule", information="byte", arithmetic="FLOP", weight="weight", token="token",
                 request="request", answer="answer", EUR="EUR", USD="USD", carbon="gCO2e")
    canonical = units.registry().parse_expression("*".join(f"{names[d]}**{e}" for d, e in ours.dimensions) or "1")
    ratio = (1 * pint_unit / canonical).to_root_units()
    assert ratio.magnitude == pytest.approx(ours.factor, rel=1e-12)
    assert ratio.dimensionless


def test_every_definition_is_known_to_pint():
    known = units.registry()
    for name in KNOWN:
        if name not in ("%", "€", "$"):
            assert name in known, name


def test_a_byte_has_a_dimension_so_a_frequency_is_no_bandwidth():
    with pytest.raises(units.UnitError, match=r"expected byte/second, got '1 GHz' \(1/time\)"):
        units.parse("1 GHz", "byte/second")
    with pytest.raises(units.UnitError, match="expected token/second, got '3 Hz'"):
        units.parse("3 Hz", "token/second")


REFUSED = [  # text, canonical unit, message, remedy
    ("4.8 TB", "byte/second", r"expected byte/second, got '4.8 TB' \(information\)", "write it as e.g. '4.8 TB/s'"),
    ("4.8", "byte/second", "expected byte/second, got the bare number '4.8'", "write it as e.g. '4.8 TB/s'"),
    ("", "watt", "expected watt, got ''", "350 W"),
    ("fast", "watt", "expected watt, got 'fast'", "350 W"),
    ("5 furlong/s", "byte/second", "'furlong' is not a unit", "4.8 TB/s"),
    ("5 TFLOPS", "FLOP/second", "'TFLOPS' is not a unit", "989 TFLOP/s"),
    ("5 GB/(s)", "byte/second", "has parentheses", ""),
    ("5 W", "", r"expected a number, got '5 W' \(energy/time\)", ""),
    ("5 gb/s", "byte/second", "'gb' is not a unit", ""),
    ("5 kelvin", "watt", "'kelvin' is not a unit", ""),
    ("5 -W", "watt", "'-W' is not a unit", ""),
    ("5 W²", "watt", "'W²' is not a unit", ""),
    ("5 W^--2", "watt", "has the exponent '--2'", ""),
    ("5 W/0", "watt", "0 to the power of -1 is no size of a unit", ""),
    ("5 GB^99/s", "byte/second", "to the power of 98 is no size of a unit", ""),
]


@pytest.mark.parametrize("text, wanted, what, remedy", REFUSED)
def test_what_is_not_the_wanted_quantity_is_refused(text, wanted, what, remedy):
    with pytest.raises(units.UnitError, match=what) as caught:
        units.parse(text, wanted)
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("text, in_bytes, asked", [
    ("4.8 Tb/s", "600 GB/s", "did you mean '4.8 TB/s'"),
    ("10 Gbit/s", "1.25 GB/s", "did you mean '10 GB/s'"),
    ("100 Mb/s", "12.5 MB/s", "did you mean '100 MB/s'"),
    ("8 Gib/s", "1.074 GB/s", "did you mean '8 GiB/s'"),
    ("16 bit/s", "2 B/s", "did you mean '16 B/s'"),
])
def test_bits_are_asked_back_with_both_readings(text, in_bytes, asked):
    with pytest.raises(units.UnitError, match=f"'{text}' is in bits and is {in_bytes}") as caught:
        units.parse(text, "byte/second")
    assert asked in caught.value.remedy


@pytest.mark.parametrize("value", ["nan W", "inf W", "-inf W", "NaN W", "Infinity W"])
def test_not_finite_text_is_read_as_such_for_the_field_to_refuse(value):
    assert not math.isfinite(units.parse(value, "watt"))


def test_python_numbers_are_canonical_and_text_only_refuses_them():
    assert units.quantity(5, "watt", "x") == 5.0
    with pytest.raises(InputError, match=r"x: expected watt, got the bare number 5; write it as e.g. '350 W'"):
        units.quantity(5, "watt", "x", text_only=True)


@pytest.mark.parametrize("value", [True, None, [1], {"a": 1}, object()])
def test_what_is_neither_number_nor_text_is_refused(value):
    with pytest.raises(InputError, match="x: expected watt, got"):
        units.quantity(value, "watt", "x")


def test_pint_quantities_of_any_registry_are_read_by_their_names():
    import pint

    ours = units.registry()
    assert units.quantity(ours.Quantity(3.35, "TB/s"), "byte/second", "x") == pytest.approx(3.35e12)
    theirs = pint.UnitRegistry()
    assert units.quantity(theirs.Quantity(350, "watt"), "watt", "x") == 350.0
    assert units.quantity(theirs.Quantity(3.35, "terabyte/second"), "byte/second", "x") == pytest.approx(3.35e12)
    assert units.quantity(theirs.Quantity(2, "millisecond"), "second", "x") == pytest.approx(2e-3)
    with pytest.raises(InputError, match=r"x: expected byte/second, got 1.*hertz \(1/time\)"):
        units.quantity(theirs.Quantity(1, "gigahertz"), "byte/second", "x")  # pint's own registry would convert it


def test_a_pint_quantity_in_an_unknown_unit_is_an_input_fault():
    import pint

    with pytest.raises(InputError, match="x: .*'kelvin' is not a unit"):
        units.quantity(pint.UnitRegistry().Quantity(3, "kelvin"), "watt", "x")


def test_bits_of_a_pint_quantity_were_meant():
    bits = units.registry().Quantity(4.8, "terabit/second")
    assert units.quantity(bits, "byte/second", "x") == pytest.approx(0.6e12)


@pytest.mark.parametrize("value, canonical, text", [
    (6.72e11, "byte/second", "672 GB/s"), (None, "watt", "unknown"), (0.0, "watt", "0 W"), (999.96, "byte", "1 kB"),
    (0.1186, "joule/token", "118.6 mJ/token"), (1e-12, "joule/byte", "1 pJ/B"), (float("nan"), "watt", "nan W"),
    (1234.0, "token/second", "1234 token/second".replace("second", "s")), (0.83, "", "0.83"), (-5e3, "watt", "-5 kW"),
])
def test_values_are_shown_with_a_fitting_prefix(value, canonical, text):
    assert units.show(value, canonical) == text


@pytest.mark.parametrize("text, what", [
    ("s^0.5", "has the exponent '0.5'"), ("s^x", "has the exponent 'x'"), ("B/", "cut short"), ("B^", "cut short"),
    ("B/s^", "cut short"),
])
def test_expressions_are_whole(text, what):
    with pytest.raises(units.UnitError, match=what):
        units.unit(text)


@given(number=st.decimals(allow_nan=False, allow_infinity=False, min_value=-10**9, max_value=10**9, places=6))
def test_numbers_are_read_as_python_reads_them(number):
    assert units.parse(f"{number} W", "watt") == float(Fraction(str(number)))


@given(text=st.text(max_size=40))
def test_any_text_is_a_number_or_a_unit_error(text):
    try:
        assert isinstance(units.parse(text, "byte/second"), float)
    except units.UnitError as fault:
        assert fault.what
