"""Whatever is wrong with the input: status 2, one line a fault, no traceback, no number, and bounded."""

import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joulesim import catalogue
from joulesim.cli import main

LAPTOP = "qwen2.5-7b-q4_0-laptop-b8"
ROOT = Path(__file__).parents[2]

SET = [  # a change, what its line says
    ("hardware.memory_bandwith=1 TB/s", "hardware: memory_bandwith: no such field. Did you mean memory_bandwidth?"),
    ("hardware.memory_bandwidth=4.8 TB", "expected byte/second, got '4.8 TB' (information); write it as e.g. '4.8 TB/s'"),
    ("hardware.memory_bandwidth=4.8 Tb/s", "'4.8 Tb/s' is in bits and is 600 GB/s; did you mean '4.8 TB/s'? Write bytes"),
    ("hardware.memory_bandwidth=4.8", "expected byte/second, got the bare number 4.8"),
    ("hardware.memory_bandwidth=-1 TB/s", "expected more than 0 B/s, got '-1 TB/s'"),
    ("hardware.memory_bandwidth=0 TB/s", "expected more than 0 B/s, got '0 TB/s'"),
    ("hardware.memory_bandwidth=nan TB/s", "expected a finite byte/second"),
    ("hardware.memory_bandwidth=inf TB/s", "expected a finite byte/second"),
    ("hardware.memory_bandwidth=.nan", "expected byte/second, got the bare number nan"),
    ("hardware.memory_bandwidth={}", "expected byte/second, got {}"),
    ("hardware=h100-smx", "hardware 'h100-smx': no such hardware. Did you mean h100-sxm?"),
    ("hardware=5", "hardware: expected a name, a path or a mapping, got 5"),
    ("serving.batch=0", "serving.batch: expected a whole number of at least 1, got 0"),
    ("batch=-1", "serving.batch: expected a whole number of at least 1, got -1"),
    ("batch=1.5", "serving.batch: expected a whole number, got 1.5"),
    ("batch=" + "9" * 400, "serving.batch: expected a whole number"),
    ("batch=" + "9" * 5000, "serving.batch: expected a whole number"),
    ("serving.bach=1", "serving.bach: no such field. Did you mean batch?"),
    ("prompt=140000", "workload: expected a context of at most 131072 tokens for qwen2.5-7b-instruct"),
    ("prompt=-1", "workload.prompt_tokens: expected a finite length of at least 0 tokens, got -1"),
    ("prompt=.inf", "expected a finite length of at least 0 tokens, got inf"),
    ("output=0", "workload.output_tokens: expected a finite length of at least 1 tokens, got 0"),
    ("serving.parallelism.pipeline=2", "hardware.link_bandwidth"),
    ("serving.parallelism.tensor=2", "hardware.link_bandwidth"),
    ("power_mode=acc", "power_mode: expected a power mode of rtx-5070-ti-laptop"),
    ("weights=q4_00", "format 'q4_00': no such format. Did you mean q4_0?"),
    ("model=qwen2.5-7b-instrct", "Did you mean qwen2.5-7b-instruct?"),
    ("model.layers=3", "model.layers: expected no change inside a model"),
    ("runtime=llamacpp-cuda", "no such runtime. Did you mean llama.cpp-cuda?"),
    ("boundary=walls", "Did you mean wall?"),
    ("task.correct=2000", "task: expected correct of at most attempted, got 2000 of 1000"),
    ("prices.electricity=0.25", "prices.electricity: expected an amount in EUR or USD"),
    ("prices.carbon=2026-13-45", "prices.carbon: expected gCO2e/joule"),
    ("kv_cache=q8_0", None),
    ("x", "--set: expected FIELD=VALUE, got 'x'"),
    ("=5", "--set: expected FIELD=VALUE, got '=5'"),
    ("nosuch=5", "nosuch: no such field"),
    ("serving=[1,", "serving"),
    ("sources.task.kind=guess", "sources.task.kind: expected 'datasheet'"),
]


@pytest.mark.parametrize("change, message", [c for c in SET if c[1]], ids=[c[:40] for c, m in SET if m])
def test_a_change_that_is_wrong(refused, change, message):
    lines = refused("predict", LAPTOP, "--set", change)
    assert len(lines) == 1, lines
    assert message in lines[0] and len(lines[0]) < 400


def test_all_wrong_changes_are_reported_together(refused):
    lines = refused("predict", LAPTOP, "--set", "batch=0", "--set", "prompt=-1", "--set", "boundary=x",
                    "--set", "hardware.memory_bandwidth=3", "--set", "weights=q4_00")
    assert len(lines) == 5


@pytest.mark.parametrize("arguments, message", [
    (("predic",), "no command 'predic'. Did you mean predict?"),
    (("zzz",), "no command 'zzz'; `joulesim --help` lists the commands"),
    (("predict",), "joulesim predict: the following arguments are required: scenario"),
    (("predict", LAPTOP, "--bach", "3"), "unrecognized arguments: --bach 3"),
    (("predict", LAPTOP, "-o", "xml"), "invalid choice: 'xml'"),
    (("predict", LAPTOP, "--level", "2"), "level: expected a probability between 0 and 1, got 2.0"),
    (("predict", LAPTOP, "--level", "sure"), "--level: expected a number, got 'sure'"),
    (("predict", LAPTOP, "--batch", "3"), "--batch: goes with MODEL --on DEVICE; use --set with a scenario"),
    (("predict", "no-such-scenario"), "scenario 'no-such-scenario': no such scenario"),
    (("predict", "qwen2.5-7b-q4_0-laptop-b9"), "Did you mean qwen2.5-7b-q4_0-laptop-b8?"),
    (("predict", "qwen3-8b"), "'qwen3-8b' is a model, not a scenario; say where it runs with --on DEVICE"),
    (("sweep", LAPTOP, "--over", "batch=1:9:1000000000000"), "batch: expected at most 10000000 values"),
    (("predict", "/no/such.yaml"), "/no/such.yaml: expected a scenario file, found none"),
    (("predict", "qwen3-8b", "--on", "h100"), "hardware 'h100': no such hardware. Did you mean h100-"),
    (("predict", "qwen3-8", "--on", "h100-sxm"), "no such model. Did you mean qwen3-8b?"),
    (("predict", "qwen3-8b", "--on", "h100-sxm", "--batch", "0"), "serving.batch: expected a whole number of at least 1, got 0"),
    (("predict", "qwen3-8b", "--on", "h100-sxm", "--prompt", "x"), "workload.prompt_tokens: expected token, got 'x'"),
    (("predict", "qwen3-8b", "--on", "h100-sxm", "--prompt", "99999999"), "expected a context of at most 40960 tokens"),
    (("predict", "qwen3-8b", "--on", "gaudi-3"), "--runtime: expected a runtime: none is usual for gaudi-3"),
    (("predict", "qwen3-8b", "--on", "h100-sxm", "--kv-cache", "q4_k_m"), "kv_cache: expected a cache format, got q4_k_m"),
    (("explain", "zzz"), "no such scenario"),
    (("compare", LAPTOP), "joulesim compare: expected two scenarios or more, got 1"),
    (("compare", LAPTOP, "zzz"), "no such scenario"),
    (("model", "zzz"), "model 'zzz': no such model"),
    (("model", "qwen3-8b", "--context", "x"), "--context: expected a whole number of tokens, got 'x'"),
    (("model", "qwen3-8b", "--context", "²"), "--context: expected a whole number of tokens, got '²'"),
    (("model", "qwen3-8b", "--context", "99999999"), "--context: expected at most 40960 tokens"),
    (("model", "qwen3-8b", "--kv-format", "q4_k_m"), "--kv-format: expected a cache format"),
    (("hardware", "h100"), "Did you mean h100-"),
    (("formats", "q4"), "format 'q4': no such format"),
    (("scenarios", "zzz"), "no such scenario"),
])
def test_arguments_that_are_wrong(refused, arguments, message):
    lines = refused(*arguments)
    assert message in lines[0], lines


def test_a_plot_that_cannot_be_written(refused, tmp_path):
    pytest.importorskip("matplotlib")
    for name, message in (("", "expected a file name ending in"), ("x.doc", "expected a file name ending in .png, .svg or .pdf"), ("no/x.png", "cannot be written")):
        for command in ("predict", "explain"):
            (line,) = refused(command, LAPTOP, "--plot", tmp_path / name)
            assert message in line


def test_a_library_that_is_not_installed(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    (line,) = refused("optimise", LAPTOP, "--over", "batch=1:9")
    assert line == "joulesim: scipy is not installed; pip install 'joulesim[sweep]'"


LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
         "max_position_embeddings": 256}


def broken_configs():
    whole = json.dumps(LLAMA)
    yield "empty", b"", "config.json"
    yield "truncated", whole[: len(whole) // 2].encode(), "config.json"
    yield "not JSON", b"hello", "config.json"
    yield "a list", b"[1, 2]", "config.json"
    yield "duplicate keys", whole.replace('"hidden_size"', '"vocab_size": 7, "hidden_size"').encode(), "vocab_size"
    yield "nonsense of 5 MB", json.dumps({f"k{i}": "x" * 20 for i in range(150_000)}).encode(), "config.json"
    yield "binary", bytes(range(256)) * 10, "config.json"
    yield "deep", b"[" * 100_000, "config.json"
    yield "deep objects", b'{"a":' * 50_000, "config.json"
    yield "encoder", json.dumps({**LLAMA, "architectures": ["BertModel"], "model_type": "bert"}).encode(), "encoder"
    yield "no layers", json.dumps({k: v for k, v in LLAMA.items() if k != "num_hidden_layers"}).encode(), "num_hidden_layers"
    yield "null layers", json.dumps({**LLAMA, "num_hidden_layers": None}).encode(), "num_hidden_layers"
    yield "negative", json.dumps({**LLAMA, "hidden_size": -64}).encode(), "hidden_size"
    yield "zero", json.dumps({**LLAMA, "num_attention_heads": 0}).encode(), "num_attention_heads"
    yield "text", json.dumps({**LLAMA, "hidden_size": "64x"}).encode(), "hidden_size"
    yield "infinite", json.dumps({**LLAMA, "hidden_size": 1}).replace('"hidden_size": 1', '"hidden_size": Infinity').encode(), "config.json"
    yield "not a number", json.dumps({**LLAMA, "hidden_size": 1}).replace('"hidden_size": 1', '"hidden_size": NaN').encode(), "config.json"
    yield "2^60 layers", json.dumps({**LLAMA, "num_hidden_layers": 2**60}).encode(), "num_hidden_layers"


@pytest.mark.parametrize("name, content, message", list(broken_configs()), ids=[n for n, *_ in broken_configs()])
def test_a_broken_config(refused, tmp_path, name, content, message):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    started = time.process_time()
    for arguments in (("model", path), ("predict", path, "--on", "h100-sxm")):
        lines = refused(*arguments)
        assert any(message in line for line in lines), lines
        assert all(len(line) < 600 for line in lines)
    assert time.process_time() - started < 3


def gguf(tensors=0, keys=0, body=b"", version=3):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + body


@pytest.mark.parametrize("content", [
    b"", b"GGUF", b"GGU", gguf()[:12], gguf(tensors=2**60), gguf(keys=2**60), gguf(tensors=2**60, keys=2**60), gguf(version=99),
    gguf(keys=1, body=struct.pack("<Q", 2**60)), gguf(keys=1, body=struct.pack("<Q", 3) + b"abc" + struct.pack("<I", 99)),
    gguf(keys=1, body=struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 9, 2**60)), b"PK\x03\x04" + bytes(100),
], ids=range(12))
def test_a_broken_gguf(refused, tmp_path, content):
    pytest.importorskip("gguf")
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    started = time.process_time()
    for arguments in (("model", path), ("predict", path, "--on", "rtx-4090")):
        lines = refused(*arguments)
        assert len(lines) == 1 and "model.gguf" in lines[0]
    assert time.process_time() - started < 3


def test_a_folder_without_a_config(refused, tmp_path):
    assert "found none" in refused("model", f"{tmp_path}/")[0]


def test_files_of_the_wrong_kind(refused, tmp_path):
    """A profile where a scenario is asked for, and the other way round, name fields rather than crash."""
    hardware, scenario = (catalogue.folder(kind) / f"{name}.yaml" for kind, name in (("hardware", "h100-sxm"), ("scenario", LAPTOP)))
    assert any("no such field" in line for line in refused("predict", hardware))
    assert any("no such field" in line for line in refused("hardware", scenario))
    assert refused("predict", catalogue.folder("scenario") / "grid.yaml")
    assert refused("model", scenario)
    assert refused("formats", scenario)


def test_a_file_that_may_not_be_read(refused, tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("hardware: h100-sxm\n", "utf-8")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("running as a user who may read everything")
    assert "cannot be read (Permission denied)" in refused("predict", path)[0]


VALUES = st.one_of(st.text(max_size=20), st.integers().map(str), st.floats().map(str), st.sampled_from(
    ["null", "{}", "[]", "true", "nan", "1 GB/s", "1 Gb/s", "-3 W", "0", "1e400", "*x", "&x", "!!set {}", "{base: h100-sxm}", "@", "50 %"]))
FIELDS = st.one_of(st.text(max_size=15), st.sampled_from([
    "hardware", "hardware.memory_bandwidth", "hardware.compute_rate.fp16", "hardware.power_modes.ac.power_limit", "hardware.unknown",
    "hardware.sources", "hardware.base", "hardware.name", "runtime", "runtime.memory.utilisation", "runtime.prefill_chunk", "runtime.kv_formats",
    "runtime.expert_kernels", "model", "model.config", "weights", "weights.block_bytes", "weights.recipe", "kv_cache", "workload",
    "workload.prompt_tokens", "prompt", "output", "batch", "serving", "serving.context", "serving.utilisation", "serving.parallelism", "task",
    "task.correct", "task.samples", "task.method", "prices", "prices.country", "prices.electricity", "prices.pue", "sources", "boundary",
    "power_mode", "power_cap", "name", "title"]))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(changes=st.lists(st.tuples(FIELDS, VALUES), min_size=1, max_size=3))
def test_any_change_is_predicted_or_refused(changes, capsys):
    arguments = [piece for field, value in changes for piece in ("--set", f"{field}={value}")]
    status = main(["predict", LAPTOP, "-o", "json", *arguments])
    out, err = capsys.readouterr()
    assert status in (0, 2)
    if status == 0:
        json.loads(out, parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
        assert not err
    else:
        assert out == "" and all(line.startswith("joulesim: ") for line in err.splitlines())


# --- as a program -------------------------------------------------------------------------------------------


def program(*arguments, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-m", "joulesim", *arguments], capture_output=True, text=True, timeout=60,
                          env=environment, **options)


def test_status_and_lines_of_the_program(tmp_path):
    fine = program("predict", LAPTOP, cwd=tmp_path)
    assert fine.returncode == 0 and fine.stderr == "" and "energy per correct answer" in fine.stdout
    wrong = program("predict", LAPTOP, "--set", "batch=0", cwd=tmp_path)
    assert wrong.returncode == 2 and wrong.stdout == "" and wrong.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_reader_that_goes_away_is_no_error():
    command = f"{sys.executable} -m joulesim explain {LAPTOP} -o json | head -c 10"
    run = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, timeout=60,
                         env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert run.stderr == ""


def test_a_full_disk_is_one_line():
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with open("/dev/full", "w") as full:
        run = subprocess.run([sys.executable, "-m", "joulesim", "formats"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                             env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert run.returncode != 0 and "Traceback" not in run.stderr


def test_output_in_a_terminal_that_knows_no_unicode():
    run = program("predict", LAPTOP)
    ascii_only = subprocess.run([sys.executable, "-m", "joulesim", "predict", LAPTOP], capture_output=True, timeout=60,
                                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"})
    assert run.returncode == 0
    assert ascii_only.returncode == 0, ascii_only.stderr.decode()[-300:]
