"""What a sequence keeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim.formulas import kv_cache


@given(context=st.integers(0, 10**6), window=st.one_of(st.integers(1, 10**5), st.just(np.inf)), block=st.integers(1, 256))
def test_cells_are_whole_blocks_that_hold_the_context(context, window, block):
    cells = kv_cache.cells(context, window, block)
    assert cells % block == 0
    assert min(context, window) <= cells < min(context, window) + block


@pytest.mark.parametrize("case, elements, size, tokens, expected", [
    ("kv_config-01 Llama-3.1-8B", 32 * 8 * 2 * 128, 2, 1, 131072),
    ("kv_config-04 Llama-2-7B, true MHA", 32 * 32 * 2 * 128, 2, 1, 524288),
    ("kv_config-20 DeepSeek-V3.1", 61 * 576, 2, 163840, 11513364480),
    ("kv_config-33 Qwen3.6-27B, a block of 64", 16 * 4 * 2 * 256, 2, 64, 4 * 2**20),
    ("kv_config-46 DeepSeek MLA in 4 bit", 61 * 576, 0.5, 65536, 576 * 61 * 65536 * 0.5),
    ("engine_log-01 Qwen3.6-27B", 16 * 4 * 2 * 256, 2, 262144, 16384 * 2**20),
])
def test_published_caches(case, elements, size, tokens, expected):
    assert kv_cache.resident_bytes(kv_cache.cells(tokens, np.inf, 1), elements, size) == expected


def test_case_engine_log_04_q8_0_is_34_bytes_for_32_elements():
    """engine_log-04: 576 x 61 x 32768 elements in q8_0 are 1166.62 MiB."""
    size = kv_cache.resident_bytes(32768, 61 * 576, 34 / 32) / 2**20
    assert round(size, 2) == 1166.62
