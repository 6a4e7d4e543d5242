"""Fields: frozen, named, with a unit, a source, and a reason where unknown."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim.errors import InputError
from joulesim.specs.base import Count, Source, Spec, Whole, fraction, non_negative, positive, read_spec


class Thing(Spec):
    rate: positive("byte/second") | None = None
    size: non_negative("byte") = 0.0
    tokens: non_negative("token") = 0.0
    share: fraction() = 0.0
    part: fraction(strict=True) = 1.0
    count: Count = 1
    whole: Whole = 0
    inner: Source | None = None


def read(**data):
    return read_spec(Thing, data, "t.yaml")


@given(value=st.floats(min_value=1e-300, max_value=1e300))
def test_positive_quantities_are_kept_in_the_canonical_unit(value):
    assert read(rate=f"{value!r} B/s").rate == value


@pytest.mark.parametrize("field, value, message", [
    ("rate", "0 B/s", "t.yaml: rate: expected more than 0 B/s, got '0 B/s'; leave it out if it is unknown"),
    ("rate", "-1 B/s", "expected more than 0 B/s, got '-1 B/s'"),
    ("rate", "nan B/s", "expected a finite byte/second, got 'nan B/s'"),
    ("rate", 5, "expected byte/second, got the bare number 5; write it as e.g. '4.8 TB/s'"),
    ("rate", [], "expected byte/second, got []"),
    ("rate", {}, "expected byte/second, got {}"),
    ("rate", True, "expected byte/second, got True"),
    ("size", "-1 B", "expected at least 0 B, got '-1 B'"),
    ("tokens", -1, "expected at least 0 token, got -1"),
    ("tokens", "5 J", "expected token, got '5 J' (energy)"),
    ("share", 1.5, "expected at most 1, got 1.5"),
    ("share", "-1 %", "expected at least 0, got '-1 %'"),
    ("part", 0, "expected more than 0, got 0"),
    ("count", 0, "expected a whole number of at least 1, got 0"),
    ("count", "1.5", "expected a whole number, got '1.5'"),
    ("count", "²", "expected a whole number, got '²'"),
    ("count", 10**400, "expected a whole number"),
    ("whole", -1, "expected a whole number of at least 0, got -1"),
    ("inner", {"kind": "hearsay"}, "t.yaml: inner.kind: expected 'datasheet', 'paper'"),
    ("inner", 5, "t.yaml: inner: expected a mapping of fields, got 5"),
    ("siz", "1 B", "t.yaml: siz: no such field. Did you mean size?"),
])
def test_each_message(field, value, message):
    with pytest.raises(InputError, match=".") as caught:
        read(**{field: value})
    assert len(caught.value.faults) == 1
    assert message in str(caught.value)


def test_all_faults_together():
    with pytest.raises(InputError, match="rate") as caught:
        read(rate="x", size="-1 B", count=0, zzz=1, inner={"kind": "x", "reff": 1})
    assert len(caught.value.faults) == 6


def test_null_is_unknown_only_where_it_may_be():
    assert read(rate=None).rate is None
    with pytest.raises(InputError, match="t.yaml: size: expected"):
        read(size=None)


def test_tokens_are_counts_and_may_be_bare():
    assert read(tokens=5).tokens == read(tokens="5").tokens == read(tokens="5 token").tokens == 5.0


def test_fields_are_read_only():
    with pytest.raises(ValueError, match="frozen"):
        read().size = 3


@pytest.mark.parametrize("field, kind", [("a", "paper"), ("a.b", "paper"), ("a.c", "measured"), ("a.c.d", "measured")])
def test_a_source_covers_everything_below_its_name(field, kind):
    thing = read(sources={"a": {"kind": "paper"}, "a.c": {"kind": "measured"}})
    assert thing.source(field).kind == kind
    assert thing.source("b") is None


def test_in_python_numbers_are_canonical():
    assert read_spec(Thing, {"rate": 5.0}, "x", text=False).rate == 5.0
    with pytest.raises(InputError, match="expected a finite byte/second, got inf"):
        read_spec(Thing, {"rate": math.inf}, "x", text=False)


@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                          lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)))
def test_any_data_load_or_are_refused_in_one_line_a_fault(value):
    data = value if isinstance(value, dict) else {"rate": value, "count": value, "share": value, "sources": value, "inner": value}
    try:
        thing = read_spec(Thing, data, "t.yaml")
        assert thing.rate is None or 0 < thing.rate < math.inf
    except InputError as error:
        assert all("\n" not in str(fault) for fault in error.faults)
