"""The roofline read backwards."""

import pytest

from joulesim.formulas import inversion

B200 = {"weight_bytes": 70e9 / 2, "bandwidth": 7.7e12}


def test_least_batch_of_the_mlperf_server():
    # MLPerf Inference v5.1 Llama-2-70B Offline, 8 x B200: 102 909 token/s (Lenovo SR680a V3); weights of 4 bit.
    assert inversion.least_batch(102909 / 8, **B200) == pytest.approx(58.5, abs=0.1)


def test_caches_ask_for_more_sequences():
    bare = inversion.least_batch(12863.0, **B200)
    assert inversion.least_batch(12863.0, **B200, cache_bytes=72e6) > bare
    assert inversion.least_batch(12863.0, **B200, cache_bytes=1e9) < 0  # more than the bandwidth


def test_a_share_of_one_is_the_least_batch():
    batch = inversion.least_batch(12863.0, **B200, cache_bytes=72e6)
    assert inversion.bandwidth_share(12863.0, batch, **B200, cache_bytes=72e6) == pytest.approx(1.0)


def test_share_falls_with_the_batch():
    shares = [inversion.bandwidth_share(100.0, b, **B200) for b in (1.0, 2.0, 4.0)]
    assert shares == sorted(shares, reverse=True)
