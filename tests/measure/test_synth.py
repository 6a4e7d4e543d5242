"""Synthetic models: right sizes, sane numbers, readable by others, whole or absent."""

import json

import numpy as np
import pytest

from joulesim.cli import main
from joulesim.errors import InputError
from joulesim.measure import synth
from joulesim.models.gguf_file import read_gguf
from joulesim.validate.local_points import _of_shape

gguf = pytest.importorskip("gguf")
TINY = synth.Shape(width=256, layers=2, heads=4, kv_heads=2, ffn=512, vocabulary=512)


@pytest.mark.parametrize("weights", synth.FORMATS)
def test_products_keep_the_size_of_their_input_in_every_format(tmp_path, weights):
    path = synth.write(tmp_path / "m.gguf", TINY, weights)
    tensor = next(t for t in gguf.GGUFReader(path).tensors if t.name == "blk.1.ffn_down.weight")
    values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    assert values.shape == (256, 512)
    assert np.isfinite(values).all()
    assert values.std() * 512**0.5 == pytest.approx(1.0, abs=0.3)  # MXFP4 scales are powers of two
    assert abs(values.mean()) < 0.5 * values.std()  # -8 to 7 and -1 to 2 are off centre


def test_the_reader_of_models_sees_the_declared_shape(tmp_path):
    path = synth.write(tmp_path / "m.gguf", TINY, "q4_k")
    model = read_gguf(path)
    assert sum(mixer.layers for mixer in model.mixers) == 2
    assert path.stat().st_size == pytest.approx((TINY.parameters - 5 * 256) * 144 / 256 + 5 * 256 * 4, rel=0.1)


def test_matrices_are_counted_where_they_are_used(tmp_path):
    path = synth.write(tmp_path / "m.gguf", TINY, "q8_0")
    found = {(m.place, m.rows, m.columns): (m.format, m.count) for m in synth.matrices(path)}
    assert found[("output", 512, 256)] == found[("embedding", 512, 256)] == ("q8_0", 1)
    assert found[("layer", 512, 256)] == found[("last", 512, 256)] == ("q8_0", 2)  # gate and up of two layers
    assert found[("layer", 256, 512)] == found[("last", 256, 512)] == ("q8_0", 1)
    assert found[("layer", 128, 256)] == ("q8_0", 4)
    untied = synth.write(tmp_path / "u.gguf", TINY.model_copy(update={"tied": False}), "f16")
    assert {m.place for m in synth.matrices(untied)} == {"output", "embedding", "layer", "last"}


def test_experts(tmp_path):
    shape = TINY.model_copy(update={"experts": 4, "experts_used": 2})
    found = synth.matrices(synth.write(tmp_path / "m.gguf", shape, "q4_0"))
    assert ("layer", 4, 256, "f32", 1) in found and ("last", 4, 256, "f32", 1) in found  # routers
    assert ("expert", 512, 256, "q4_0", 16) in found and ("expert", 256, 512, "q4_0", 8) in found


@pytest.mark.parametrize(("family", "norms", "gate"), [("llama", 2 * 256, "silu"), ("gemma3", 4 * 256 + 6 * 32, "gelu")])
def test_what_stands_around_the_matrices_is_described(tmp_path, family, norms, gate):
    shape = TINY.model_copy(update={"family": family, "head_dim": 32})
    found = synth.description(synth.write(tmp_path / "m.gguf", shape, "q8_0"))
    assert (found["architecture"], found["norm_channels"], found["gate_channels"], found["activation"]) == (family, norms, 512, gate)
    plain = shape.model_dump(exclude={"sources"}) | {"weights": "q8_0"}
    of_shape = _of_shape(plain, "q8_0")
    assert all(of_shape[key] == found[key] for key in ("norm_channels", "gate_channels", "activation", "head_dim"))


def test_the_gates_of_all_experts_of_a_token_count(tmp_path):
    shape = TINY.model_copy(update={"experts": 4, "experts_used": 2})
    assert synth.description(synth.write(tmp_path / "m.gguf", shape, "q8_0"))["gate_channels"] == 2 * 512


def test_a_matrix_larger_than_a_tile_repeats_it(tmp_path, monkeypatch):
    monkeypatch.setattr(synth, "TILE_BYTES", 4096)
    synth._TILES.clear()
    path = synth.write(tmp_path / "m.gguf", TINY, "f16")
    tensor = next(t for t in gguf.GGUFReader(path).tensors if t.name == "token_embd.weight")
    assert np.array_equal(tensor.data[:8], tensor.data[8:16])
    assert tensor.data.shape == (512, 256)
    synth._TILES.clear()


def test_rows_that_a_format_cannot_hold(tmp_path):
    shape = synth.Shape(width=640, layers=1, heads=4, kv_heads=1, ffn=2048, vocabulary=512)
    with pytest.raises(InputError, match="expected rows of a multiple of 256 for q4_k, got 640; change width"):
        synth.write(tmp_path / "m.gguf", shape, "q4_k")
    assert not list(tmp_path.iterdir())


def test_disk_full_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(synth, "_write_tensor", full)
    with pytest.raises(InputError, match="expected room for the file, got No space left on device"):
        synth.write(tmp_path / "m.gguf", TINY, "q4_0")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("change", "message"), [
    ({"heads": 3}, "expected a width divisible by heads, got 256 and 3"),
    ({"kv_heads": 3}, "expected heads divisible by kv_heads, got 4 and 3"),
    ({"vocabulary": 100}, "expected a vocabulary of more than 259, got 100"),
    ({"experts": 4}, "expected experts_used of experts, got None of 4"),
    ({"family": "gemma3", "experts": 4, "experts_used": 2}, "expected no experts in a gemma3"),
    ({"heads": 256, "kv_heads": 1}, "expected an even head_dim"),
])
def test_shapes_that_no_engine_runs(change, message):
    with pytest.raises(ValueError, match=message):
        synth.Shape.model_validate(TINY.model_dump() | change)


def test_numbers_layer_by_layer_are_read_and_long_lists_passed_over(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "openelm")
    writer.add_array("openelm.attention.head_count", [12, 16, 20])
    writer.add_array("tokenizer.ggml.scores", [0.5] * 2000)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    keys = synth.read_table(tmp_path / "m.gguf").keys
    assert keys["openelm.attention.head_count"] == [12, 16, 20]
    assert "tokenizer.ggml.scores" not in keys and "tokenizer.ggml.tokens" not in keys


def test_damaged_file(tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + bytes(20))
    with pytest.raises(InputError, match="expected a .gguf, got one that cannot be read"):
        synth.matrices(tmp_path / "m.gguf")


def test_command(tmp_path, capsys):
    path = str(tmp_path / "m.gguf")
    assert main(["synth", path, "--shape", "s13", "--layers", "1", "--weights", "Q4_K", "-o", "json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["bytes"] == (tmp_path / "m.gguf").stat().st_size
    assert main(["synth", path]) == 2
    assert "the file exists; --force replaces it" in capsys.readouterr().err
    assert main(["synth", path, "--force", "--weights", "q4_x"]) == 2
    assert "expected a format that can be written, got 'q4_x'" in capsys.readouterr().err
    assert main(["synth", path, "--shape", "s151"]) == 2
    assert "no shape 's151'. Did you mean s150?" in capsys.readouterr().err
    assert main(["synth", path, "--force", "--seed", "-1"]) == 2
    assert "--seed: expected 0 or more, got -1; any such number will do" in capsys.readouterr().err
    for name in ("", str(tmp_path)):
        assert main(["synth", name]) == 2
        assert f"file: expected the name of a file, got {name!r}; such as model.gguf" in capsys.readouterr().err
    assert main(["synth", path, "--force", "--shape", "s13", "--layers", "1", "--family", "gemma3", "-o", "json"]) == 0
    assert synth.description(path)["architecture"] == "gemma3"


@pytest.mark.parametrize(("family", "activation"), [("falcon", "gelu"), ("falcon-h1", "silu"), ("grok", "gelu"), ("qwen3", "silu")])
def test_gates_by_architecture_layers_apart_and_shared_experts(monkeypatch, family, activation):
    said = {"block_count": 2, "embedding_length": 64, "attention.head_count": [4, 8], "attention.head_count_kv": [2, 2],
            "feed_forward_length": [100, 300], "expert_used_count": None}
    seen = {"general.architecture": family} | {f"{family}.{key}": value for key, value in said.items()}
    monkeypatch.setattr(synth, "read_table", lambda _: synth.Table(seen, []))
    found = synth.description("some.gguf")
    assert (found["heads"], found["kv_heads"], found["gate_channels"], found["activation"]) == (6, 2, 200, activation)
    seen |= {f"{family}.expert_used_count": 4, f"{family}.expert_feed_forward_length": 50,
             f"{family}.expert_shared_feed_forward_length": 70}
    assert synth.description("some.gguf")["gate_channels"] == 4 * 50 + 70
