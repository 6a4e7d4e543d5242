"""Runtimes: kernels by expert format, and what is refused."""

import pytest

import joulesim as js
from joulesim.errors import InputError


@pytest.mark.parametrize("changes, message", [
    ({"prefill_chunk": 0}, "prefill_chunk: expected a whole number of at least 1, got 0"),
    ({"memory": {"utilisation": 0}}, "memory.utilisation: expected more than 0, got 0"),
    ({"memory": {"context_reserv": "1 GB"}}, "memory.context_reserv: no such field. Did you mean context_reserve?"),
    ({"memory": {"context_reserve": "1 Gb"}}, "is in bits"),
    ({"overheads": {"kernel_launch": 3}}, "overheads.kernel_launch: expected second, got the bare number 3"),
    ({"scheduler": "sttic"}, "Did you mean static?"),
])
def test_a_wrong_runtime(changes, message):
    with pytest.raises(InputError, match=".") as caught:
        js.load_runtime({"base": "vllm", **changes})
    assert message in str(caught.value)


def test_a_runtime_may_start_from_another():
    spec = js.load_runtime({"base": "llama.cpp-cuda", "prefill_chunk": 256, "memory": {"context_reserve": "500 MiB"}})
    shipped = js.load_runtime("llama.cpp-cuda")
    assert spec.prefill_chunk == 256 and spec.memory.context_reserve == 500 * 2**20
    assert spec.memory.mask_bytes == shipped.memory.mask_bytes


def test_the_kernel_of_an_expert_format_or_the_default():
    spec = js.load_runtime({"base": "vllm", "expert_kernels": {"default": {"tile": 32}, "mxfp4": {"tile": 8}}})
    assert spec.expert_kernel("mxfp4").tile == 8 and spec.expert_kernel("bf16").tile == 32
