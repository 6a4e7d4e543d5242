"""Greedy decoding, speculation and parity on a cache whose model is a rule."""

import struct

import numpy as np
import pytest

from joulesim.measure.parity import compare
from joulesim.measure.runtimes import decoding
from joulesim.measure.runtimes.base import Pace
from joulesim.measure.runtimes.decoding import answer, copied
from joulesim.measure.runtimes.kv_state import repeated

END = 9


class Rule:
    """A model that says the sum of the last two tokens, modulo ten; 9 ends."""

    def tokens(self, text):
        return [int(c) for c in text]

    def text(self, tokens):
        return "".join(map(str, tokens))

    def ends(self, token):
        return token == END


class Rows:
    """A cache of one sequence; calls of several rows may be told to round otherwise."""

    def __init__(self, rule=sum, wrong_from=None):
        self.model, self._rule, self._wrong = Rule(), rule, wrong_from
        self.held, self._logits, self.calls = [], [], 0

    def feed(self, tokens, start=0, every=False):
        assert start == len(self.held), "positions must follow on"
        self.calls += 1
        self._logits = []
        for token in tokens:
            self.held.append(token)
            said = self._rule(self.held[-2:]) % 10
            logits = np.zeros(10)
            logits[said] = 1.0
            if self._wrong and len(tokens) >= self._wrong:
                logits[(said + 1) % 10] = 1.5 if len(self.held) % 5 == 0 else 0.2
            self._logits.append(logits)

    def logits(self, row=-1):
        return self._logits[row]

    def cut(self, length):
        assert length <= len(self.held)
        del self.held[length:]


def test_plain_decoding_stops_at_the_end_token():
    found, held = answer(Rows(), "11", 20, [])
    assert (found.text, found.finish, found.prompt_tokens, found.output_tokens) == ("23583145", "stop", 2, 8)
    assert held == [1, 1, 2, 3, 5, 8, 3, 1, 4]
    assert found.drafted is None


def test_length_and_stop_texts():
    assert answer(Rows(), "11", 3, [])[0].finish == "length"
    found, _ = answer(Rows(), "11", 20, [], stop=["83"])
    assert (found.text, found.finish) == ("235", "stop")
    assert answer(Rows(), "11", 12, [], ignore_end=True)[0].output_tokens == 12


def test_a_probe_between_calls_is_no_part_of_the_time(monkeypatch):
    monkeypatch.setattr(decoding, "probe", lambda: Pace(10.0, 4.0))
    found, _ = answer(Rows(), "12", 3, [], probed=True)
    plain, _ = answer(Rows(), "12", 3, [])
    assert (found.text, plain.core_probe) == (plain.text, None) and found.core_probe == pytest.approx(10.0)
    assert plain.memory_probe is None and found.memory_probe == pytest.approx(4.0)
    assert found.cpu_time + 10.0 * (found.calls + 1) == pytest.approx(0.0, abs=1.0)  # the fake probes took no time


def test_a_common_prefix_is_not_computed_again():
    cache = Rows()
    _, held = answer(cache, "1123", 2, [])
    found, _ = answer(cache, "1124", 2, held)
    assert found.cached_tokens == 3
    assert found.text == answer(Rows(), "1124", 2, [])[0].text


@pytest.mark.parametrize("length", [1, 2, 4, 8])
def test_a_perfect_draft_is_accepted_and_saves_calls(length):
    plain, _ = answer(Rows(), "11", 24, [], ignore_end=True)
    found, _ = answer(Rows(), "11", 24, [], draft=Rows(), draft_length=length, ignore_end=True)
    assert found.text == plain.text
    assert found.accepted == found.verified == found.drafted
    assert found.calls < plain.calls


@pytest.mark.parametrize(("draft", "ngram"), [(Rows(rule=lambda last: sum(last) + len(last) // 2), 0), (None, 2), (None, 1)])
def test_any_draft_gives_the_same_text(draft, ngram):
    plain, _ = answer(Rows(), "1123583145", 30, [], ignore_end=True)
    found, _ = answer(Rows(), "1123583145", 30, [], draft=draft, ngram=ngram, draft_length=4, ignore_end=True)
    assert found.text == plain.text
    assert found.accepted <= found.verified <= found.drafted


def test_a_confident_draft_goes_on_and_an_unsure_one_stops():
    found, _ = answer(Rows(), "11", 12, [], draft=Rows(), draft_length=4, confidence_threshold=0.99, ignore_end=True)
    assert found.drafted == 0 and found.output_tokens == 12


def test_copying_takes_the_last_occurrence():
    assert copied([1, 2, 3, 1, 2, 4, 1, 2], 2, 1) == [4]
    assert copied([1, 2, 3], 2, 4) == []


def test_parity_of_equal_kernels():
    found = compare(Rows(), [[1, 1], [2, 3]], 20, [2, 8])
    assert [b.self_acceptance for b in found.blocks] == [1.0, 1.0]
    assert all(b.first_difference is None and b.largest_difference == 0 for b in found.blocks)
    assert found.repeats_identical == found.repeats == 16
    assert all(s.same_text for s in found.speculated)


def test_parity_of_a_kernel_that_rounds_otherwise_from_four_rows():
    two, four = compare(Rows(wrong_from=4), [[1, 1]], 20, [2, 4]).blocks
    assert two.self_acceptance == 1.0
    assert four.self_acceptance == pytest.approx(0.8)
    assert (four.first_difference, four.margin_there, four.largest_margin) == (2, 1.0, 1.0)
    assert four.largest_difference == 1.5


def state(cells, layers=2, row=4, header=b"", values=b"abcdefgh"):
    out = struct.pack("<II", 1, cells)
    for position in range(cells):
        out += struct.pack("<iIi", position, 1, 0)
    out += struct.pack("<II", 0, layers)
    for _ in range(2 * layers):
        out += struct.pack("<iQ", 1, row) + (values * cells)[: row * cells]
    return header + out


@pytest.mark.parametrize("header", [b"", b"magic..."])
def test_a_cache_is_repeated_row_by_row(header):
    assert bytes(repeated(state(2, header=header), 5)) == state(5, header=header)


def test_a_context_of_several_sequences_has_a_stream_for_each():
    alone = state(5)
    assert bytes(repeated(state(2), 5, 3)) == struct.pack("<I", 3) + alone[4:] + bytes(8)  # no cells in the others


@pytest.mark.parametrize("layers", [2, 0])
def test_layers_that_look_through_a_window_have_a_cache_of_their_own_behind(layers):
    assert bytes(repeated(state(2, layers, header=b"magic...") + state(2, row=8), 5)) == (
        state(5, layers, header=b"magic...") + state(5, row=8))


def test_an_unknown_layout_is_left_alone():
    assert repeated(b"", 5) is None
    assert repeated(b"\x07" * 400, 5) is None
    assert repeated(state(2)[:-1], 5) is None
    assert repeated(state(2) + b"more", 5) is None
