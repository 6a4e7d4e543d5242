"""The machine around a measurement, and how well repeats are known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim.errors import InputError
from joulesim.measure import host
from joulesim.measure.gguf_table import read_table
from joulesim.measure.repeats import enough, median_interval, variation
from joulesim.measure.runtimes.base import Call, repeat


def supply(folder, name, kind, **fields):
    (folder / name).mkdir()
    for field, value in {"type": kind, **fields}.items():
        (folder / name / field).write_text(value + "\n")


def test_power_source(tmp_path):
    assert host.power_source(tmp_path / "none") == ""
    supply(tmp_path, "BAT0", "Battery", status="Discharging")
    assert host.power_source(tmp_path) == "battery"
    supply(tmp_path, "AC", "Mains", online="1")
    assert host.power_source(tmp_path) == "ac"


def test_others_are_not_oneself():
    around = host.Surroundings()
    assert around.others(own=1e9) in (0.0, None)
    assert host.describe() and host.processor()


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=60))
def test_the_interval_of_a_median_holds_it(samples):
    found = median_interval(samples)
    assert min(samples) <= found.low <= found.median <= found.high <= max(samples)


def test_an_interval_covers_the_true_median():
    import random

    chance = random.Random(1)
    hits = sum(low <= 0.0 <= high for _, low, high in
               (median_interval([chance.gauss(0, 1) for _ in range(15)]) for _ in range(400)))
    assert hits >= 380


def test_repeats_end_when_the_median_is_known():
    calls = []
    times = repeat(lambda: calls.append(1), lambda: None, "wall", at_least=0.0, at_most=0.2, repeats=5)
    assert len(times.wall) == len(times.cpu) == len(calls)
    assert not enough([1.0, 1.1]) and enough([1.0, 1.001, 1.0])
    assert variation([1.0]) == 0.0


@pytest.mark.parametrize(("call", "label", "rows", "outputs"), [
    (Call(phase="decode", sequences=4, depth=64), "decode-b4-d64", 4, 4),
    (Call(phase="chunk", tokens=8, depth=64), "chunk-n8-d64", 8, 8),
    (Call(phase="prefill", tokens=512), "prefill-n512", 512, 1),
    (Call(phase="prefill", tokens=128, depth=9), "prefill-n128-d9", 128, 1),
])
def test_calls(call, label, rows, outputs):
    assert (call.label, call.rows, call.outputs) == (label, rows, outputs)


@given(st.binary(max_size=400))
def test_any_bytes_are_a_table_or_a_fault(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    path.write_bytes(b"GGUF\x03\x00\x00\x00" + data)
    try:
        assert len(read_table(path).tensors) <= len(data)
    except InputError as error:
        assert "expected a .gguf" in str(error)
