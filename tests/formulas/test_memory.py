"""Whether a deployment fits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim.formulas import memory

BYTES = st.integers(0, 10**12)


@given(usable=BYTES, weights=BYTES, buffers=BYTES, shared=BYTES, each=st.integers(1, 10**11))
def test_the_largest_batch_fits_and_one_more_does_not(usable, weights, buffers, shared, each):
    batch = memory.largest_batch(float(usable), float(weights), float(buffers), float(shared), float(each))
    held = weights + buffers + shared
    if batch > 0:
        assert held + batch * each <= usable
    assert held + (batch + 1) * each > usable


def test_it_is_zero_when_weights_do_not_fit_and_unbounded_when_nothing_is_kept():
    assert memory.largest_batch(1e9, 2e9, 0.0, 0.0, 1e6) == 0
    assert memory.largest_batch(3e9, 2e9, 0.0, 0.0, 0.0) == np.inf
    assert memory.largest_batch(1e9, 2e9, 0.0, 0.0, 0.0) == 0


def test_logits_of_a_chunk():
    """llama.cpp's log of Qwen2.5-7B: CUDA0 compute buffer size = 304.00 MiB, of which logits are 297 MiB."""
    assert memory.logits_bytes(512, 152064) / 2**20 == pytest.approx(297)
