"""A scenario measured: which calls, on which weights, and what is refused in one line."""

from importlib.util import find_spec

import pytest
import yaml

import joulesim as js
from joulesim.errors import InputError, NotFoundError
from joulesim.measure import host, runtimes, synth
from joulesim.measure.meters.sampled import Channel, SampledMeter
from joulesim.measure.reading import MeterInfo
from joulesim.measure.records import read_records
from joulesim.measure.runtimes.fake import Engine
from joulesim.measure.scenario import ALIKE, shape_of

NAME = "qwen2.5-7b-q4_0-laptop-b8"
TINY = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 600,
        "tie_word_embeddings": True}


@pytest.fixture
def tiny(tmp_path):
    """A scenario of a model small enough to be run for real."""
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump({
        "hardware": "rtx-5070-ti-laptop", "runtime": "llama.cpp-cpu", "model": {"name": "tiny", "config": TINY},
        "weights": "q4_0", "kv_cache": "f16", "workload": {"prompt_tokens": 24, "output_tokens": 16},
        "serving": {"batch": 2}, "boundary": "board"}))
    return path


def test_prefill_and_a_decode_step_halfway_through_the_output():
    found = js.measure(NAME, runtime="fake")
    assert [r.campaign.point for r in found] == ["qwen2.5-7b-instruct/q4_0/prefill-n200-d700",
                                                 "qwen2.5-7b-instruct/q4_0/decode-b8-d990"]
    for record in found:
        assert (record.provenance, record.clock, record.validity.verdict) == ("modelled", "cpu", "valid")
        assert record.energy is None and record.energy_reason.code == "no-meter"
        assert record.latency.e2e_latency.median > 0
        assert record.scenario["declared"]["workload"]["prompt_tokens"] == 900
        assert record.scenario["model"]["shape"]["width"] == 3584


def test_a_draft_is_verified_and_a_prompt_that_is_cached_is_not_read():
    scenario = js.load_scenario("qwen2.5-7b-speculative-code-m5-pro")
    assert [r.scenario["call"]["phase"] for r in js.measure(scenario, "fake")] == ["prefill", "decode", "chunk"]
    cached = js.load_scenario(NAME).replace({"workload.shared_prefix_tokens": 900})
    assert [r.scenario["call"]["phase"] for r in js.measure(cached, "fake", rounds=2)] == ["decode", "decode"]


def test_a_runtime_and_a_meter_of_ones_own():
    info = MeterInfo(name="own", boundary="board", method="sampled power", update_period=1e-7)
    meter, times = SampledMeter(info, [Channel("gpu", power=lambda: 42.0)], period=1e-3), []
    engine = Engine()
    for record in js.measure(NAME, engine, meter, clock="wall", progress=lambda p: times.append(p.done)):
        assert record.clock == "wall"
        assert record.energy is None or record.boundary == "board"
        assert record.meter.name == "own"
    assert times == [1, 2]
    assert runtimes.known(engine) is runtimes.RUNTIMES["fake"]


def test_a_runtime_that_is_not_registered_and_one_that_breaks():
    class Own(Engine):
        def run(self, call, **how):
            if call["phase"] == "prefill":
                raise RuntimeError("out of cheese")
            return super().run(call, **how)

    Own.__module__ = "my.engine"
    prefill, decode = js.measure(NAME, Own())
    assert prefill.validity.verdict == "invalid" and decode.validity.verdict == "valid"
    assert prefill.energy_reason.detail == "run: RuntimeError: out of cheese"


def test_records_stay_where_they_are_asked_to_and_are_gone_on_with(tmp_path):
    path = tmp_path / "r.jsonl"
    first = js.measure(NAME, "fake", records=path)
    assert [r.hash for r in js.measure(NAME, "fake", records=path)] == [r.hash for r in first]
    assert len(read_records(path)) == 2


@pytest.mark.parametrize(("changes", "keywords", "message"), [
    ({}, {"runtime": "fak"}, "runtime: no runtime 'fak'. Did you mean fake?"),
    ({}, {"thread": 2}, "settings: thread: no such field. Did you mean threads?"),
    ({}, {"runtime": "http"}, "address: expected a server, got nothing; give its address, http://HOST:PORT"),
    ({"workload.output_tokens": {"distribution": "lognormal", "mean": 100, "sd": 50, "maximum": 900}}, {},
     "workload.output_tokens: expected one length to measure at, got a distribution; scenario.replace"),
    ({"workload.shared_prefix_tokens": 1000}, {}, "workload.shared_prefix_tokens: expected at most the longest prompt, 900 tokens"),
    ({"serving.parallelism.tensor": 2}, {}, "serving.parallelism.tensor: expected one device to measure on, got 2"),
    ({"model": "gemma-3-270m"}, {}, "model gemma-3-270m: expected full attention and equal layers, whose weights can "
     r"be made up, got full, sliding attention in 2 kinds of layers; give the file of its weights"),
])
def test_what_cannot_be_measured_is_one_line(changes, keywords, message):
    with pytest.raises(InputError, match=message) as caught:
        js.measure(js.load_scenario(NAME).replace(changes), **{"runtime": "fake", **keywords})
    assert len(caught.value.faults) == 1


def test_no_meter_of_that_name():
    with pytest.raises(NotFoundError, match="meter nvlm: no such meter. Did you mean nvml?"):
        js.measure(NAME, "fake", "nvlm")


def test_more_weights_than_memory(monkeypatch):
    monkeypatch.setattr(host, "memory", lambda: 2e9)

    class Files(Engine):
        models = ".gguf"

    Files.__module__ = "files"
    with pytest.raises(InputError, match="expected weights that fit the 2 GB of this machine, got 4.43 GB; choose a smaller"):
        js.measure(NAME, Files())


@pytest.mark.parametrize("name", ["qwen2.5-7b-instruct", "llama-3.1-8b-instruct", "qwen3-30b-a3b"])
def test_a_synthetic_model_is_as_large_as_the_real_one(name):
    model = js.load_model(name)
    shape = shape_of(model)
    assert shape.parameters == pytest.approx(model.parameters, rel=ALIKE)
    assert shape.experts == (model.experts.routed if model.experts else None)


def test_a_family_with_other_matrices_is_refused():
    model = js.load_model("qwen2.5-7b-instruct")
    wider = model._replace(tensors=(*model.tensors, model.tensors[0]._replace(name="further")))
    with pytest.raises(InputError, match="expected the matrices of a Llama, 7615 million weights, got 8161"):
        shape_of(wider)


@pytest.mark.skipif(find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed")
def test_a_real_runtime(tiny, tmp_path):
    for record in js.measure(tiny, "llama_cpp", "none"):
        assert record.provenance == "measured" and record.runtime.name == "llama.cpp"
        assert record.scenario["model"]["width"] == 256 and record.latency.e2e_latency.n >= 3
        assert record.energy is None and record.energy_reason.code == "no-meter"
    file = synth.write(tmp_path / "other.gguf", synth.Shape(width=256, layers=1, heads=4, kv_heads=2, ffn=512,
                                                            vocabulary=600), "q8_0")
    assert js.measure(tiny, "llama_cpp", "none", model=file)[0].scenario["model"]["layers"] == 1
