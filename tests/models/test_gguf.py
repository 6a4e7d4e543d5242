"""GGUF headers written with the gguf package and read back without it."""

import struct
import sys

import pytest

from joulesim.errors import InputError
from joulesim.models import read_model
from joulesim.models.gguf_header import read_header
from joulesim.models.mixes import weight_table

gguf = pytest.importorskip("gguf")
np = pytest.importorskip("numpy")

LLAMA = {
    "block_count": 4,
    "embedding_length": 256,
    "context_length": 4096,
    "attention.head_count": 8,
    "attention.head_count_kv": 2,
}
TENSORS = {"token_embd.weight": ((100, 256), "Q6_K"), "output_norm.weight": ((256,), "F32")}


@pytest.fixture
def write(tmp_path):
    """Writer of a small file: architecture, keys after it, tensors by shape and type."""

    def write(architecture="llama", keys=LLAMA, tensors=TENSORS, tokens=0, name="model.gguf", plain=()):
        path = tmp_path / name
        writer = gguf.GGUFWriter(path, architecture)
        for key, value in keys.items():
            add = {bool: writer.add_bool, int: writer.add_uint32, list: writer.add_array}[type(value)]
            add(f"{architecture}.{key}", value)
        for key, value in plain:
            writer.add_uint16(key, value)
        if tokens:
            writer.add_token_list([f"token {i}" for i in range(tokens)])
        for tensor, (shape, kind) in tensors.items():
            kind = gguf.GGMLQuantizationType[kind]
            block, size = gguf.GGML_QUANT_SIZES[kind]
            data = np.zeros((*shape[:-1], shape[-1] // block * size), np.uint8)
            writer.add_tensor(tensor, data.view(np.float32) if kind.name == "F32" else data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write


def layers(**tensors):
    return TENSORS | {f"blk.{i}.{name.replace('__', '.')}.weight": t for i in range(4) for name, t in tensors.items()}


def test_tensors_and_their_types_come_from_the_table(write, formats):
    tensors = layers(attn_q=((256, 256), "Q4_K"), ffn_down=((256, 512), "Q6_K"), attn_norm=((256,), "F32"))
    model = read_model(write(tensors=tensors, tokens=100))
    found = {t.name: (t.role, t.rows, t.columns, t.layers, t.format) for t in model.tensors}
    assert found["blk.{}.attn_q"] == ("attention", 256, 256, (0, 1, 2, 3), "q4_k")
    assert found["blk.{}.ffn_down"] == ("dense_ffn", 256, 512, (0, 1, 2, 3), "q6_k")
    assert found["blk.{}.attn_norm"] == ("vector", 1, 256, (0, 1, 2, 3), "f32")
    assert model.tied_embeddings and found["token_embd"][0] == "output"
    assert model.weight_format == "q6_k"
    assert sum(row.bytes for row in weight_table(model, None, formats)) == sum(
        t.bytes for t in read_header(write(tensors=tensors)).tensors
    )


def test_header_agrees_with_the_library(write):
    path = write(tensors=layers(ffn_down_exps=((8, 256, 512), "Q4_0")), tokens=10)
    ours, theirs = read_header(path), gguf.GGUFReader(path)
    assert {t.name: (t.format, t.bytes) for t in ours.tensors} == {
        t.name: (t.tensor_type.name.lower(), int(t.n_bytes)) for t in theirs.tensors
    }
    assert ours.keys["llama.block_count"] == int(theirs.fields["llama.block_count"].contents())


@pytest.mark.parametrize("heads, expected", [(2, [(4, 2)]), ([2, 2, 1, 1], [(2, 2), (2, 1)])])
def test_kv_heads_are_a_number_or_one_a_layer(write, heads, expected):
    model = read_model(write(keys=LLAMA | {"attention.head_count_kv": heads}))
    assert [(m.layers, m.kv_heads) for m in model.mixers] == expected


def test_long_arrays_are_read_whole(write):
    keys = LLAMA | {"block_count": 88, "attention.head_count_kv": [2] * 80 + [1] * 8}
    assert [(m.layers, m.kv_heads) for m in read_model(write(keys=keys)).mixers] == [(80, 2), (8, 1)]


def test_key_length_overrides_embedding_over_heads(write):
    model = read_model(write(keys=LLAMA | {"attention.key_length": 128, "attention.value_length": 64}))
    assert (model.mixers[0].key_width, model.mixers[0].cache_elements) == (128, 2 * (128 + 64))


def test_missing_head_count_is_refused(write):
    keys = {key: value for key, value in LLAMA.items() if key != "attention.head_count"}
    with pytest.raises(InputError, match=r"llama.attention.head_count: expected a whole number, got nothing; convert"):
        read_model(write(keys=keys))


def test_experts_have_the_prefix_of_the_architecture(write):
    tensors = layers(ffn_down_exps=((8, 256, 512), "Q4_0"), ffn_gate_inp=((8, 256), "F32"))
    model = read_model(write(keys=LLAMA | {"expert_count": 8, "expert_used_count": 2}, tensors=tensors))
    assert model.experts == (8, 2, 0, 4)
    expert = next(t for t in model.tensors if t.role == "routed_expert")
    assert (expert.rows, expert.columns, expert.copies) == (256, 512, 8)
    assert next(t for t in model.tensors if t.role == "router").format == "f32"


def test_interval_of_full_attention(write):
    keys = LLAMA | {
        "full_attention_interval": 4,
        "ssm.conv_kernel": 4,
        "ssm.inner_size": 512,
        "ssm.state_size": 32,
        "ssm.time_step_rank": 8,
        "ssm.group_count": 4,
    }
    full, linear = read_model(write("qwen35moe", keys)).mixers
    assert (full.kind, full.layers) == ("full", 1)
    assert (linear.kind, linear.layers) == ("linear", 3)
    assert linear.state_bytes == 4 * (8 * 32 * 64 + 3 * (2 * 4 * 32 + 8 * 64))


@pytest.mark.parametrize(
    "architecture, keys, expected",
    [
        ("gemma3", {"attention.sliding_window": 1024, "block_count": 34}, [("sliding", 29, 1024), ("full", 5, None)]),
        (
            "gemma4",
            {"attention.sliding_window": 512, "attention.sliding_window_pattern": [True, True, True, False]},
            [("sliding", 3, 512), ("full", 1, None)],
        ),
        ("llama4", {}, [("chunked", 3, 8192), ("full", 1, None)]),
        ("qwen2", {"attention.sliding_window": 4096}, [("full", 4, None)]),
    ],
)
def test_windows(write, architecture, keys, expected):
    model = read_model(write(architecture, LLAMA | keys))
    assert [(m.kind, m.layers, m.window) for m in model.mixers] == expected


def test_cache_of_gemma3_4b_as_ollama_logs_it(write):
    """Ollama pull request 17037: 2560 MiB for 5 global layers and 174 MiB for 29 x 1536 cells at 131072 tokens."""
    keys = {"block_count": 34, "attention.head_count_kv": 4, "attention.key_length": 256, "attention.value_length": 256}
    model = read_model(write("gemma3", LLAMA | keys | {"attention.sliding_window": 1024}))
    cells = {"sliding": 1024 + 512, "full": 131072}
    found = {m.kind: m.layers * m.cache_elements * 2 * cells[m.kind] / 2**20 for m in model.mixers}
    assert found == {"sliding": 174.0, "full": 2560.0}


MLA = {
    "block_count": 5,
    "attention.head_count_kv": 1,
    "attention.key_length": 576,
    "attention.value_length": 512,
    "attention.key_length_mla": 192,
    "attention.value_length_mla": 128,
    "attention.kv_lora_rank": 512,
    "rope.dimension_count": 64,
}


def test_latent_attention_and_prediction_layers(write):
    extra = {"blk.4.nextn.eh_proj.weight": ((256, 512), "Q4_K"), "blk.4.attn_q.weight": ((256, 256), "Q4_K")}
    model = read_model(write("deepseek2", LLAMA | MLA | {"nextn_predict_layers": 1}, TENSORS | extra))
    assert [(m.kind, m.layers, m.cache_elements) for m in model.mixers] == [("mla", 4, 576)]
    assert model.layers == 4
    assert model.left_out == {"multi-token prediction": 256 * 512 + 256 * 256}


def test_file_converted_before_latent_attention_keeps_full_keys(write):
    keys = LLAMA | {"attention.head_count_kv": 8, "attention.key_length": 192, "attention.value_length": 128}
    model = read_model(write("deepseek2", keys | {"attention.kv_lora_rank": 512}))
    assert (model.mixers[0].kind, model.mixers[0].cache_elements) == ("full", 8 * (192 + 128))
    assert any("converted before latent attention" in note for note in model.notes)


def test_layers_without_attention(write):
    keys = LLAMA | {"attention.head_count_kv": [0, 2, 0, 2], "ssm.conv_kernel": 4, "ssm.inner_size": 512}
    keys |= {"ssm.state_size": 16, "ssm.time_step_rank": 8, "ssm.group_count": 1}
    model = read_model(write("granitehybrid", keys))
    assert [(m.kind, m.layers) for m in model.mixers] == [("full", 2), ("mamba", 2)]


def test_recurrent_model_keeps_no_cache(write):
    keys = {"block_count": 24, "embedding_length": 2048, "wkv.head_size": 64, "token_shift_count": 2}
    (mixer,) = read_model(write("rwkv7", keys)).mixers
    assert (mixer.kind, mixer.layers, mixer.cache_elements) == ("linear", 24, 0)
    assert mixer.state_bytes == 4 * (2048 * 64 + 2 * 2048)


@pytest.mark.parametrize(
    "architecture, keys", [("bert", {}), ("nomic-bert", {}), ("gemma-embedding", {"attention.causal": False})]
)
def test_encoders_are_refused(write, architecture, keys):
    with pytest.raises(InputError, match=f"'{architecture}' is an encoder"):
        read_model(write(architecture, LLAMA | keys))


def test_parts_of_a_split_file_are_read_together(write):
    split = (("split.count", 2),)
    first = write(name="m-00001-of-00002.gguf", plain=(*split, ("split.no", 0)))
    with pytest.raises(InputError, match="m-00002-of-00002.gguf: cannot be read"):
        read_model(first)
    write(
        name="m-00002-of-00002.gguf",
        tensors=layers(attn_q=((256, 256), "Q4_K")),
        plain=(*split, ("split.no", 1)),
        keys={},
    )
    assert any(t.name == "blk.{}.attn_q" for t in read_model(first).tensors)


def test_every_cut_of_a_file_is_refused(write):
    path = write(tokens=50)
    whole = path.read_bytes()
    for end in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:end])
        with pytest.raises(InputError, match="model.gguf: "):
            read_model(path)


def header(tensors=0, keys=0, body=b"", version=3):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + body


def key(name, kind, body):
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + body


@pytest.mark.parametrize(
    "content, message",
    [
        (header(tensors=2**60), "claims 1152921504606846976 tensors, more than a file of 24 bytes can hold"),
        (header(keys=2**60), "claims 1152921504606846976 keys"),
        (header(keys=1, body=key(b"a", 9, struct.pack("<IQ", 8, 2**60))), "claims 1152921504606846976 items of 'a'"),
        (header(keys=1, body=key(b"a", 9, struct.pack("<IQ", 4, 2**60))), "claims 1152921504606846976 items of 'a'"),
        (header(keys=1, body=key(b"a", 8, struct.pack("<Q", 2**60))), "more bytes of header, the file has"),
        (header(keys=1, body=struct.pack("<Q", 2**60) + bytes(9)), "expected a name of at most 65535 bytes"),
        (header(keys=1, body=key(b"a", 99, bytes(8))), "the key 'a' has a value of unknown type 99"),
        (header(keys=1, body=key(b"a", 9, struct.pack("<IQ", 9, 1))), "is an array of unknown type 9"),
        (header(keys=2, body=key(b"a", 0, b"1") * 2), "the key 'a' stands twice"),
        (header(version=1), "expected GGUF version 2 or 3, got 1"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(16), "is a big-endian GGUF"),
        (header(), "general.architecture: expected a name, got None"),
    ],
    ids=range(12),
)
def test_header_that_claims_too_much(tmp_path, content, message):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_model(path)


def test_missing_package_says_how_to_install_it(write, monkeypatch):
    path = write()
    monkeypatch.setitem(sys.modules, "gguf.constants", None)
    with pytest.raises(InputError, match=r"reading a .gguf needs the gguf package; pip install joulesim\[gguf\]"):
        read_model(path)
