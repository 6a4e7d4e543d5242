"""Real engines, where they are installed: llama.cpp call by call, and its server."""

import time
from importlib.util import find_spec
from itertools import count, cycle

import pytest

from joulesim.measure import synth
from joulesim.measure.parity import Parity
from joulesim.measure.probe import trial
from joulesim.measure.runtimes import base
from joulesim.measure.runtimes.base import Answer, Pace, Settings, repeat
from joulesim.measure.worker import Worker, WorkerError

TINY = synth.Shape(width=256, layers=2, heads=4, kv_heads=2, ffn=512, vocabulary=600)
ONCE = {"clock": "cpu", "at_least": 0.0, "at_most": 2.0, "repeats": 3}
needs_llama = pytest.mark.skipif(find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed")
needs_server = pytest.mark.skipif(find_spec("xllamacpp") is None, reason="xllamacpp is not installed")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(synth.write(tmp_path_factory.mktemp("models") / "tiny.gguf", TINY, "q8_0"))


@pytest.fixture(scope="module")
def settings():
    tried = trial("llama_cpp", Settings())
    assert tried.works, tried.note
    return tried.settings.model_dump()


@needs_llama
def test_calls_of_every_kind(model, settings):
    with Worker("llama_cpp") as worker:
        opened = worker.ask("open", model=model, settings=settings)
        assert opened["version"].startswith("llama-cpp-python") and opened["threads"] == 1
        for call in ({"phase": "decode", "sequences": 4, "depth": 64}, {"phase": "chunk", "tokens": 8, "depth": 300},
                     {"phase": "prefill", "tokens": 700}, {"phase": "decode", "depth": 2000},
                     {"phase": "prefill", "tokens": 2500}):
            worker.ask("prepare", call=call)
            times = worker.ask("run", call=call, **ONCE)
            assert len(times["cpu"]) >= 1 and min(times["wall"]) > 0


@needs_llama
def test_a_cache_that_was_copied_is_as_deep_as_one_that_was_computed(model, settings):
    from joulesim.measure.runtimes import llama_cpp

    with Worker("llama_cpp") as worker:
        worker.ask("open", model=model, settings=settings)
        deep = worker.ask("prepare", call={"phase": "decode", "sequences": 2, "depth": llama_cpp._SEED_TOKENS * 4})
        assert deep["first"] > 0


@needs_llama
def test_speculation_changes_no_word(model, settings):
    with Worker("llama_cpp") as worker:
        worker.ask("open", model=model, settings=settings)
        plain = Answer(**worker.ask("generate", prompts=["w1 w2 w3"], max_tokens=24, ignore_end=True)[0])
        copied = Answer(**worker.ask("generate", prompts=["w1 w2 w3"], max_tokens=24, ignore_end=True, ngram=2,
                                     draft_length=3)[0])
        drafted = Answer(**worker.ask("generate", prompts=["w1 w2 w3"], max_tokens=24, ignore_end=True,
                                      draft_model=model, draft_length=3)[0])
    assert plain.text == copied.text == drafted.text
    assert drafted.accepted == drafted.drafted > 0
    assert drafted.calls < plain.calls


@needs_llama
def test_parity_of_q8_0_is_exact(model, settings):
    with Worker("llama_cpp") as worker:
        worker.ask("open", model=model, settings=settings)
        found = Parity(**worker.ask("parity", prompts=["w1 w2", "w5 w6 w7"], output_tokens=16, blocks=[2, 8]))
    assert found.repeats_identical == found.repeats
    assert [b.self_acceptance for b in found.blocks] == [1.0, 1.0]


@needs_llama
def test_quantised_caches_and_impossible_ones(model, settings):
    call = {"phase": "decode", "depth": 64}
    with Worker("llama_cpp") as worker:
        worker.ask("open", model=model, settings=settings | {"kv_format": "q8_0", "flash_attention": True})
        worker.ask("prepare", call=call)
        worker.ask("open", model=model, settings=settings | {"kv_format": "q8_0", "flash_attention": False})
        with pytest.raises(WorkerError, match="no context of 1 x 256 tokens"):
            worker.ask("prepare", call=call)


@needs_llama
def test_a_damaged_model_is_a_fault_of_that_model(model, settings, tmp_path):
    damaged = tmp_path / "damaged.gguf"
    with open(model, "rb") as whole:
        damaged.write_bytes(whole.read()[:20000])
    with Worker("llama_cpp") as worker:
        with pytest.raises(WorkerError, match="does not load"):
            worker.ask("open", model=str(damaged), settings=settings)
        worker.ask("open", model=model, settings=settings)


@needs_server
def test_the_server_answers_and_is_measured(model):
    with Worker("llama_server") as worker:
        opened = worker.ask("open", model=model, settings={})
        assert opened["version"].startswith("xllamacpp")
        for call in ({"phase": "decode", "sequences": 2, "depth": 32}, {"phase": "prefill", "tokens": 64}):
            worker.ask("prepare", call=call)
            times = worker.ask("run", call=call, **ONCE)
            assert times["cpu"] and times["wall"]
        (said,) = worker.ask("generate", prompts=["w1 w2"], max_tokens=4)
    assert said["finish"] in ("length", "stop") and said["output_tokens"] <= 4 and said["cpu_time"] > 0


@needs_server
@pytest.mark.parametrize("blocks", [[2, 8]])
def test_parity_on_the_server_is_exact_for_q8_0(model, blocks):
    with Worker("llama_server") as worker:
        worker.ask("open", model=model, settings={})
        found = Parity(**worker.ask("parity", prompts=["w1 w2", "w5 w6 w7"], output_tokens=16, blocks=blocks))
    assert found.repeats_identical == found.repeats and found.values == "log-probabilities"
    assert [(b.rows, b.positions, b.self_acceptance) for b in found.blocks] == [(2, 16, 1.0), (8, 4, 1.0)]
    assert found.speculated == ()


def test_a_probe_of_the_core_stands_beside_every_repeat_in_cpu_time():
    for clock, probed in (("cpu", True), ("wall", False)):
        times = repeat(lambda: None, lambda: None, clock, 0.0, 0.05, 3)
        assert len(times.probe) == (len(times.cpu) if probed else 0)
        assert all(0 < p.memory < p.core for p in times.probe)


def spin(seconds):
    """Use CPU time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


@pytest.mark.parametrize(("clock", "around"), [("cpu", ["evict", "probe"]), ("wall", [])])
def test_a_call_finds_empty_caches_in_cpu_time_and_others_follow_at_once(monkeypatch, clock, around):
    did = []
    monkeypatch.setattr(base, "evict", lambda: did.append("evict"))
    monkeypatch.setattr(base, "probe", lambda: did.append("probe") or Pace(1.0, 0.5))
    repeat(lambda: did.append("call"), lambda: did.append("cut"), clock, 0.0, 0.0, 1)
    assert did == [*around, "call", "cut", *around]


def test_eviction_reads_more_than_a_cache_keeps(monkeypatch):
    assert base._evicting().nbytes == 128 << 20 and base._evicting().all()
    read = []
    monkeypatch.setattr(base.np, "dot", lambda a, b: read.append(a))
    base.evict()
    assert len(read) == 1 and read[0] is base._evicting()


def test_the_probe_behind_a_call_is_the_one_before_the_next(monkeypatch):
    numbers = count(100.0)
    monkeypatch.setattr(base, "evict", lambda: None)
    monkeypatch.setattr(base, "probe", lambda: Pace(next(numbers), 50.0))
    times = repeat(lambda: spin(0.03), lambda: None, "cpu", 0.0, 0.6, 3)
    assert times.probe == [(100.5 + i, 50.0) for i in range(len(times.cpu))] and len(times.cpu) == len(times.wall) >= 3


@pytest.mark.parametrize(("between", "kept"), [([1.0, 1.05], [1.025] * 3), ([1.0, 1.2], [1.1] * 3),
                                               ([1.0, 1.2, 1.0, 1.0], [1.0] * 3)],
                         ids=["steady", "never steady", "now and then"])
def test_a_repeat_during_which_the_core_changed_does_not_count_where_others_do(monkeypatch, between, kept):
    probed = cycle(between)
    monkeypatch.setattr(base, "evict", lambda: None)
    monkeypatch.setattr(base, "probe", lambda: Pace(next(probed), 0.5))
    times = repeat(lambda: spin(0.01), lambda: None, "cpu", 0.0, 0.6, 3)
    cores = [p.core for p in times.probe]
    assert cores[:3] == kept and set(cores) == set(kept)
    assert len(times.cpu) == len(times.wall) == len(times.probe)


@needs_llama
def test_a_cache_that_is_deep_enough_is_cut_not_filled_again(model, settings):
    """And what was said between two calls leaves no more than it kept."""
    import llama_cpp

    from joulesim.measure.runtimes.llama_cpp import Context, Engine

    engine = Engine()
    engine.open(model, settings)
    context = Context(engine._model, Settings(**settings), 2, 256)
    for depth, filled in ((96, 96), (64, 64), (64, 64), (80, 80)):
        context.fill(depth)
        assert context.filled == filled
        assert [llama_cpp.llama_memory_seq_pos_max(context.memory, s) + 1 for s in (0, 1)] == [depth] * 2
    context.cut(10, 1)
    assert context.filled == 10
    context.clear()
    assert context.filled == 0
    context.close()
    engine.close()
