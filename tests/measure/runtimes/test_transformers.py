"""Transformers: what it refuses without PyTorch, and real tiny models on the CPU where PyTorch is installed."""

import json
from importlib.util import find_spec

import pytest

from joulesim.cli import main
from joulesim.errors import InputError, NotFoundError
from joulesim.measure import runtimes, synth
from joulesim.measure.campaign import Runner
from joulesim.measure.parity import Parity
from joulesim.measure.plan import read_campaign
from joulesim.measure.probe import trial
from joulesim.measure.records import read_records
from joulesim.measure.runtimes import transformers as engine
from joulesim.measure.runtimes.base import Answer, Settings
from joulesim.measure.worker import Worker, WorkerError

TINY = synth.Shape(width=128, layers=2, heads=4, kv_heads=2, ffn=256, vocabulary=600)
ONCE = {"clock": "cpu", "at_least": 0.0, "at_most": 2.0, "repeats": 3}
F32 = {"kv_format": "f32", "gpu_layers": 0}
ABSENT = [name for name in ("torch", "transformers") if find_spec(name) is None]


@pytest.fixture
def library():
    for name in ("torch", "transformers"):
        pytest.importorskip(name)


@pytest.fixture
def sizes(tmp_path):
    return str(synth.write_sizes(tmp_path / "tiny.json", TINY, "f32"))


@pytest.fixture
def worker(library):
    with Worker("transformers") as worker:
        yield worker


def fill(folder, config, names=("model.safetensors",)):
    (folder / "config.json").write_text(json.dumps(config))
    for name in names:
        (folder / name).write_bytes(b"")
    return str(folder)


# without PyTorch


def test_it_is_registered_and_taken_only_when_asked_for():
    known = runtimes.RUNTIMES["transformers"]
    assert known.packages == ("torch", "transformers") and known.models == ".json" and known.gpu_layers == -1
    assert "transformers" not in runtimes.PREFERRED


@pytest.mark.parametrize(("absent", "message"), [
    (["torch"], "the package torch is not installed"),
    (["torch", "transformers"], "the packages torch and transformers are not installed"),
])
def test_what_is_missing_is_named_with_the_command(monkeypatch, absent, message):
    monkeypatch.setattr(runtimes, "missing", lambda name: absent)
    with pytest.raises(NotFoundError, match=rf"{message}; pip install 'joulesim\[transformers\]'"):
        runtimes.load("transformers")
    tried = trial("transformers", Settings())
    assert not tried.works and tried.note == f"{message}; pip install 'joulesim[transformers]'"


def test_the_doctor_lists_it(monkeypatch, capsys):
    monkeypatch.setattr(runtimes, "missing", lambda name: list(runtimes.RUNTIMES[name].packages))
    assert main(["doctor", "--quick", "-o", "json"]) == 0
    (row,) = [r for r in json.loads(capsys.readouterr().out)["runtimes"] if r["name"] == "transformers"]
    assert row["works"] == "no" and row["remedy"] == "pip install 'joulesim[transformers]'"


@pytest.mark.parametrize(("weights", "settings", "message"), [
    ("q4_0", {}, r"model: expected weights in f32, f16, bf16, got 'q4_0'; llama.cpp runs the formats of a .gguf"),
    ("f16", {"kv_format": "q8_0"}, "kv_format: expected the format of the weights, f16, got 'q8_0'"),
    ("f32", {}, "kv_format: expected the format of the weights, f32, got 'f16'"),
    ("f16", {"v_format": "q4_0"}, "v_format: expected the format of the weights, f16, got 'q4_0'"),
    ("f16", {"gpu_layers": 20}, r"gpu_layers: expected -1 \(all on the GPU\) or 0 \(CPU\), got 20"),
    ("f16", {"flash_attention": True}, "flash_attention: expected nothing"),
])
def test_what_it_cannot_do_is_one_line(weights, settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        engine.check("model", weights, Settings(**settings))
    assert "\n" not in str(caught.value)


def test_formats_that_it_runs():
    engine.check("model", "bf16", Settings(kv_format="f16", gpu_layers=-1, flash_attention=False))
    engine.check("model", "f32", Settings(kv_format="f32"))


def test_folders_that_it_does_not_open(tmp_path):
    with pytest.raises(ValueError, match=r"a\.gguf: expected a folder .*; llama.cpp opens it \(--runtime llama_cpp\)"):
        engine.config_of("a.gguf")
    with pytest.raises(ValueError, match="nowhere: expected a folder .* got no folder"):
        engine.config_of("nowhere")
    pickled = fill(tmp_path, {}, ["pytorch_model.bin"])
    with pytest.raises(ValueError, match="expected config.json and .safetensors in it; weights that are pickled"):
        engine.config_of(pickled)
    quantised = fill(tmp_path, {"quantization_config": {"quant_method": "gptq"}})
    with pytest.raises(ValueError, match="expected weights in f32, f16, bf16, got ones quantised by gptq"):
        engine.config_of(quantised)


def test_points_that_an_engine_cannot_make_are_left_out(tmp_path, monkeypatch):
    from joulesim.measure import campaign as campaign_module

    class Narrow(Worker):
        def __init__(self, name):
            super().__init__(name)
            self.hello = {**self.hello, "formats": [["f16", "f16"]]}

    monkeypatch.setattr(campaign_module, "Worker", Narrow)
    calls = [{"phase": "decode", "sequences": [1, 4], "depth": 64}]
    group = {"role": "fit", "models": ["s13"], "weights": ["f16", "q4_0"], "calls": calls}
    declared = {"name": "tiny", "rounds": 1, "point_time": "1 ms", "groups": [group],
                "drift": ["s13", "q4_0", {"phase": "decode", "depth": 8}]}
    summary = Runner(read_campaign(declared, "tiny.yaml"), tmp_path / "r.jsonl", "fake").run()
    assert (summary.total, summary.measured, summary.impossible, summary.failed) == (2, 2, 2, 0)
    assert {r.scenario["weights"] for r in read_records(tmp_path / "r.jsonl") if "weights" in r.scenario} == {"f16"}
    only = read_campaign(declared | {"groups": [group | {"weights": ["q4_0"]}]}, "tiny.yaml")
    with pytest.raises(InputError, match="campaign tiny: no point that fake can make, in q4_0; choose a camp"):
        Runner(only, tmp_path / "none.jsonl", "fake").run()


@pytest.mark.skipif(not ABSENT, reason="PyTorch is installed")
def test_without_the_library_the_command_says_what_to_install(tmp_path, capsys):
    path = str(tmp_path / "r.jsonl")
    assert main(["measure", "--campaign", "gpu-f16", "--runtime", "transformers", "--records", path]) != 0
    assert "not installed; pip install 'joulesim[transformers]'" in capsys.readouterr().err


# with PyTorch, on the CPU


def test_calls_of_every_kind(worker, sizes):
    opened = worker.ask("open", model=sizes, settings=F32)
    assert "torch" in opened["version"] and opened["backend"] == "cpu" and opened["threads"] == 1
    assert opened["settings"]["kv_format"] == "f32"
    for call in ({"phase": "decode", "sequences": 4, "depth": 64}, {"phase": "chunk", "tokens": 8, "depth": 300},
                 {"phase": "prefill", "tokens": 700}, {"phase": "decode", "depth": 2000},
                 {"phase": "prefill", "sequences": 2, "tokens": 16, "depth": 20}):
        assert worker.ask("prepare", call=call)["first"] > 0
        times = worker.ask("run", call=call, **ONCE)
        assert len(times["cpu"]) >= 1 and min(times["wall"]) > 0


@pytest.mark.parametrize("weights", ["f32", "f16", "bf16"])
def test_a_synthetic_model_has_the_sizes_that_were_asked_for(worker, tmp_path, weights):
    path = synth.write_sizes(tmp_path / "tiny.json", TINY, weights)
    worker.ask("open", model=str(path), settings=F32 | {"kv_format": weights})
    seen = worker.ask("describe")
    gguf = synth.description(synth.write(tmp_path / "tiny.gguf", TINY, weights))
    same = ("layers", "width", "heads", "kv_heads", "head_dim", "vocabulary", "experts", "experts_used")
    assert {key: seen[key] for key in same} == {key: gguf[key] for key in same}
    assert sorted(seen["matrices"]) == sorted(m for m in gguf["matrices"] if m[3] != "f32" or weights == "f32")


def test_a_call_leaves_the_cache_as_deep_as_it_was(library, sizes):
    model = engine.Model(sizes, Settings(**F32))
    context = engine.Context(model, sequences=3)
    context.fill(600)
    assert [tuple(layer.keys.shape[-2:]) for layer in context._cache.layers] == [(600, 32)] * 2
    context.load(engine.Call(phase="decode", sequences=3, depth=600))
    context.call()
    assert context._cache.get_seq_length() == 601 and context._logits.shape == (3, 1, 600)
    context.back()
    assert context._cache.get_seq_length() == 600
    context.load(engine.Call(phase="chunk", sequences=3, tokens=4, depth=600))
    context.call()
    assert context._logits.shape == (3, 4, 600)


def test_a_pass_in_parts_gives_the_logits_of_a_whole_one(library, sizes):
    model = engine.Model(sizes, Settings(**F32))
    whole, parts = engine.Context(model), engine.Context(model)
    tokens = model.filler(40)
    whole.feed(tokens)
    parts.feed(tokens[:30])
    parts.feed(tokens[:5], 30)
    parts.feed(tokens[30:], 30, every=True)
    assert parts.logits() == pytest.approx(whole.logits(), abs=1e-4)
    assert parts.logits(9) == pytest.approx(parts.logits())


def test_answers_and_speculation_that_changes_no_word(worker, sizes):
    worker.ask("open", model=sizes, settings=F32)
    asked = {"prompts": ["ab ab ab", [5, 6, 7]], "max_tokens": 24, "ignore_end": True}
    plain, other = (Answer(**one) for one in worker.ask("generate", **asked))
    (copied, _), (drafted, _) = (
        [Answer(**one) for one in worker.ask("generate", **asked, **more)]
        for more in ({"ngram": 2, "draft_length": 3}, {"draft_model": sizes, "draft_length": 3}))
    assert plain.prompt_tokens == 9 and other.prompt_tokens == 3
    assert plain.output_tokens == len(plain.token_times) == 24 and plain.finish == "length"
    assert list(plain.token_times) == sorted(plain.token_times) and 0 < plain.token_times[-1] <= plain.time
    assert plain.text == copied.text == drafted.text
    assert drafted.accepted == drafted.drafted > 0 and drafted.calls < plain.calls


def test_a_folder_of_safetensors_is_opened_and_described(worker, sizes, tmp_path):
    model = engine.Model(sizes, Settings(**F32))
    model.module.save_pretrained(tmp_path / "stored")
    opened = worker.ask("open", model=str(tmp_path / "stored"), settings=F32)
    assert opened["settings"]["kv_format"] == "f32"
    assert worker.ask("describe") == model.description()
    (said,) = worker.ask("generate", prompts=[[5, 6, 7]], max_tokens=4)
    assert said["output_tokens"] == 4
    with pytest.raises(WorkerError, match="expected a tokeniser for a prompt of text, got no tokenizer_config.json"):
        worker.ask("generate", prompts=["text"], max_tokens=4)


def test_a_windowed_model_keeps_its_window(worker, tmp_path):
    import transformers

    config = transformers.MistralConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=128,
        vocab_size=600, sliding_window=32, max_position_embeddings=4096)
    transformers.MistralForCausalLM(config).save_pretrained(tmp_path)
    worker.ask("open", model=str(tmp_path), settings=F32)
    for call in ({"phase": "decode", "sequences": 2, "depth": 16}, {"phase": "decode", "sequences": 2, "depth": 500},
                 {"phase": "prefill", "tokens": 100}):
        worker.ask("prepare", call=call)
        assert len(worker.ask("run", call=call, **ONCE)["cpu"]) >= 1
    (said,) = worker.ask("generate", prompts=[list(range(5, 60))], max_tokens=40, ngram=2, draft_length=3,
                         ignore_end=True)
    assert said["output_tokens"] == 40


def test_refusals_leave_the_engine_usable(worker, sizes, tmp_path):
    quantised = synth.write_sizes(tmp_path / "q.json", TINY, "q4_0")
    with pytest.raises(WorkerError, match="open: ValueError: synthetic model: expected weights in f32, f16, bf16"):
        worker.ask("open", model=str(quantised), settings=F32)
    broken = fill(tmp_path, {"model_type": "llama"})
    with pytest.raises(WorkerError, match="does not load"):
        worker.ask("open", model=broken, settings=F32)
    remote = fill(tmp_path, {"model_type": "unheard-of", "auto_map": {"AutoConfig": "code.py"}})
    with pytest.raises(WorkerError, match="does not load") as caught:
        worker.ask("open", model=remote, settings=F32)
    assert "\n" not in str(caught.value)
    with pytest.raises(WorkerError, match="expected an open model"):
        worker.ask("prepare", call={"phase": "decode"})
    worker.ask("open", model=sizes, settings=F32)
    worker.ask("prepare", call={"phase": "decode", "depth": 4})


def test_without_a_device_it_says_how_to_run_on_the_cpu(library, sizes):
    import torch

    if torch.cuda.is_available():
        pytest.skip("a CUDA device is here")
    with Worker("transformers") as worker, pytest.raises(WorkerError, match="no CUDA device; --gpu-layers 0 runs"):
        worker.ask("open", model=sizes, settings=F32 | {"gpu_layers": -1})


def test_a_campaign_from_the_command(library, tmp_path, capsys):
    declared = {
        "name": "dry", "rounds": 1, "point_time": "10 ms", "longest_point": "200 ms",
        "shapes": {"tiny": TINY.model_dump(exclude_none=True, exclude={"sources"})},
        "drift": ["tiny", "f16", {"phase": "decode", "depth": 8}],
        "groups": [{"role": "fit", "models": ["tiny"], "weights": ["f16", "q4_0"],
                    "calls": [{"phase": "decode", "sequences": [1, 4], "depth": [8, 64]},
                              {"phase": "prefill", "tokens": 32}]}],
    }
    (tmp_path / "dry.yaml").write_text(json.dumps(declared))
    path = tmp_path / "r.jsonl"
    assert main(["measure", "--campaign", str(tmp_path / "dry.yaml"), "--runtime", "transformers", "--gpu-layers", "0",
                 "--meter", "none", "--records", str(path), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["points"], found["measured_now"], found["failed"], found["left_out_by_runtime"]) == (5, 5, 0, 5)
    record = next(r for r in read_records(path) if r.campaign.role == "fit")
    assert record.provenance == "measured" and record.runtime.name == "transformers"
    assert record.scenario["model"]["architecture"] == "llama" and record.latency.e2e_latency.n >= 1


def test_framings_are_compared(worker, sizes):
    worker.ask("open", model=sizes, settings=F32)
    found = Parity(**worker.ask("parity", prompts=["w1 w2", [5, 300, 301]], output_tokens=12, blocks=[2, 5]))
    assert found.repeats_identical == found.repeats == 16 and found.values == "logits"
    assert [(b.rows, b.positions, b.agreed) for b in found.blocks] == [(2, 24, 24), (5, 24, 24)]
    assert all(b.largest_difference < 1e-3 for b in found.blocks)
    assert [s.same_text for s in found.speculated] == [True, True]
