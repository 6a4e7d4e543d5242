"""Formats: exact blocks, and mixes that choose a block per tensor."""

import pytest

import joulesim as js
from joulesim.errors import InputError

BLOCKS = [  # name, bytes, weights: ggml-common.h and the OCP MX specification
    ("q4_0", 18, 32), ("q4_1", 20, 32), ("q5_0", 22, 32), ("q5_1", 24, 32), ("q8_0", 34, 32), ("q2_k", None, None),
    ("q6_k", 210, 256), ("q4_k", 144, 256), ("q5_k", 176, 256), ("iq4_nl", 18, 32), ("iq4_xs", 136, 256), ("mxfp4", 17, 32),
    ("nvfp4", 9, 16), ("bf16", 2, 1), ("f16", 2, 1), ("f32", 4, 1), ("fp8_e4m3", 1, 1), ("int8", None, None),
]


@pytest.mark.parametrize("name, size, weights", [b for b in BLOCKS if b[1]])
def test_block_layouts(name, size, weights):
    spec = js.load_format(name)
    assert spec.bytes_per_weight == size / weights


@pytest.mark.parametrize("name, bits", [("q4_0", 4.5), ("q8_0", 8.5), ("q6_k", 6.5625), ("mxfp4", 4.25), ("nvfp4", 4.5)])
def test_bits_a_weight(name, bits):
    assert 8 * js.load_format(name).bytes_per_weight == bits


@pytest.mark.parametrize("data, message", [
    ({"name": "x"}, "expected block_bytes with block_weights, or a recipe; give one of the two or both"),
    ({"name": "x", "block_bytes": "3 B"}, "expected block_bytes with block_weights"),
    ({"name": "x", "block_bytes": 3, "block_weights": 2}, "block_bytes: expected byte, got the bare number 3; write it as e.g. '12 GiB'"),
    ({"name": "x", "block_bytes": "3 B", "block_weights": 0}, "block_weights: expected a whole number of at least 1, got 0"),
    ({"name": "x", "block_bytes": "3 b", "block_weights": 2}, "is in bits"),
])
def test_a_wrong_format(data, message):
    with pytest.raises(InputError, match=".") as caught:
        js.load_format(data)
    assert message in str(caught.value)
