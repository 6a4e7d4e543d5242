"""Wrong configs end in one line a fault, all of them together, in bounded time."""

import json

import pytest

from joulesim.errors import InputError
from joulesim.models import from_config, read_model
from joulesim.models.json_file import DEEPEST, LARGEST


def read(tmp_path, content):
    path = tmp_path / "config.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_model(path)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "expected a JSON object, got an empty file; copy the model's config.json again"),
        (b'{"hidden_size": 64, "num_hid', r"expected JSON, got something else \(.*, line 1\); copy the file again"),
        (b"not json at all", "expected JSON, got something else"),
        (b"\xff\xfe\x00", "expected JSON text, got bytes that are not UTF-8"),
        (b"[1, 2]", "expected a JSON object, got list; give the model's config.json"),
        (b'{"a": 1, "a": 2}', "the key 'a' stands twice; remove one of them"),
        (b'{"a": ' + b"[" * 100_000, f"expected at most {DEEPEST} nested brackets, got more"),
        (b"x" * 5_000_000, "expected JSON, got something else"),
        (b'"' * 5_000_001, "expected JSON, got something else"),
        (b'{"hidden_size": ' + b"9" * 5000 + b"}", "a number out of range"),
        (b" " * (LARGEST + 1), f"expected a config of at most {LARGEST} bytes, got a larger file"),
    ],
    ids=range(11),
)
def test_file_that_is_no_config(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, content)


def test_missing_file(tmp_path):
    with pytest.raises(
        InputError, match=r"config.json: cannot be read \(No such file or directory\); give a config.json"
    ):
        read_model(tmp_path)


def test_all_faults_of_a_config_come_together(llama):
    wrong = llama | {"hidden_size": -4, "num_hidden_layers": 1_000_000, "vocab_size": "many"}
    with pytest.raises(InputError) as caught:
        from_config(wrong, "here")
    assert [str(fault) for fault in caught.value.faults] == [
        "here: hidden_size: expected a whole number from 1 to 10000000, got -4",
        "here: num_hidden_layers: expected a whole number from 1 to 2000, got 1000000",
        "here: vocab_size: expected a whole number, got 'many'",
    ]


@pytest.mark.parametrize("name", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"])
@pytest.mark.parametrize("value", [None, -1, 0, 1e9, 3.5, "8", True, [], float("nan"), float("inf")])
def test_sizes_that_are_none(llama, name, value):
    with pytest.raises(InputError, match=f"here: {name}: expected"):
        from_config(llama | {name: value}, "here")


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"num_key_value_heads": 3}, "num_key_value_heads: expected a divisor of the 8 query heads, got 3"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types: expected 8 items, one a layer, got 3"),
        ({"layer_types": 7}, "layer_types: expected a list with one item a layer, got 7"),
        ({"layer_types": ["sliding_attention"] * 8}, "sliding_window: expected a whole number, got nothing; add it"),
        (
            {"num_experts": 8, "num_experts_per_tok": 9},
            "num_experts_per_tok: expected a whole number from 1 to 8, got 9",
        ),
        ({"num_experts": 8}, "num_experts_per_tok: expected a whole number, got nothing"),
        ({"kv_lora_rank": 8}, "qk_rope_head_dim: expected a whole number, got nothing"),
        ({"attention_bias": "yes"}, "attention_bias: expected true or false, got 'yes'"),
        ({"torch_dtype": "int3"}, "torch_dtype: expected bfloat16, .*got 'int3'"),
        ({"model_type": 3}, "model_type: expected text, got 3"),
        ({"num_kv_shared_layers": 9}, "num_kv_shared_layers: expected a whole number from 0 to 8, got 9"),
    ],
)
def test_fields_that_contradict(llama, fields, message):
    with pytest.raises(InputError, match=f"here: {message}"):
        from_config(llama | fields, "here")


@pytest.mark.parametrize("config", [None, [], 3, "config"])
def test_config_that_is_no_mapping(config):
    with pytest.raises(InputError, match="here: expected a mapping of fields"):
        from_config(config, "here")


def test_wrong_modelopt_file_names_itself(tmp_path, llama):
    (tmp_path / "hf_quant_config.json").write_text("{")
    with pytest.raises(InputError, match="hf_quant_config.json: expected JSON"):
        read(tmp_path, json.dumps(llama))
