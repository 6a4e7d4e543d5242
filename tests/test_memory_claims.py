"""
Memory claims from the shipped laptop profile: which verdicts hold, and by how much.

The reserve (driver context, sourced from ollama's ``cudaMinimumMemory``) and the compute buffer (a llama.cpp log)
were not chosen for them. The window of reserves in which every verdict holds is about 450 MiB wide.
"""

import pytest

from joulesim import capacity, inputs
from joulesim.predict import predict
from joulesim.scenario import load_scenario

MIB = 2.0**20


def headroom(name: str, **changes) -> float:
    """Memory left, or missing when negative. [MiB]"""
    return predict(load_scenario(name).replace(changes)).headroom / MIB


def test_claim_memory_12gb_fits_8():
    """memory.12gb-fits-8: at 16384 tokens of context a 4-bit 7B fits 8 sequences, not 16."""
    at_16k = {"workload": {"prompt_tokens": 16384 - 256, "output_tokens": 256}}
    fits, misses = (headroom("longest-context-laptop-f16", **at_16k, batch=b) for b in (8, 16))
    assert fits > 0 > misses
    print(f"8 x 16384: {fits:+.0f} MiB, 16 x 16384: {misses:+.0f} MiB")
    assert 150 < fits < 700 and misses < -5000
    eight_k = {"workload": {"prompt_tokens": 8192 - 256, "output_tokens": 256}}
    assert headroom("longest-context-laptop-f16", **eight_k, batch=8) > 0


def test_claim_longest_fits_third_sequence():
    """longest.fits-third-sequence: at 65536 tokens an f16 cache fits 2 sequences and a q8_0 cache 3."""
    verdicts = {(kv, b): headroom(f"longest-context-laptop-{kv}", batch=b) for kv in ("f16", "q8_0") for b in (2, 3, 4)}
    print({f"{kv} x {b}": f"{mib:+.0f} MiB" for (kv, b), mib in verdicts.items()})
    assert verdicts["f16", 2] > 0 > verdicts["f16", 3]
    assert verdicts["q8_0", 3] > 0 > verdicts["q8_0", 4]
    assert [predict(load_scenario(f"longest-context-laptop-{kv}")).max_batch for kv in ("f16", "q8_0")] == [2, 3]


def test_how_safe_the_verdicts_are():
    """The reserve may grow by the smallest headroom and shrink by the smallest shortfall before a verdict flips."""
    grow = min(headroom("longest-context-laptop-f16", batch=2), headroom("longest-context-laptop-q8_0", batch=3),
               headroom("longest-context-laptop-f16", batch=8, workload={"prompt_tokens": 16128, "output_tokens": 256}))
    shrink = -max(headroom("longest-context-laptop-f16", batch=3), headroom("longest-context-laptop-q8_0", batch=4))
    print(f"the reserve may grow by {grow:.0f} MiB or shrink by {shrink:.0f} MiB")
    assert grow > 50 and shrink > 50
    assert 380 < grow + shrink < 520


def test_the_same_cache_three_ways():
    """2 x 65536, 8 x 16384 and 16 x 8192 tokens are the same 7168 MiB of f16 cache."""
    for batch, context in ((2, 65536), (8, 16384), (16, 8192)):
        s = load_scenario("longest-context-laptop-f16").replace(
            {"batch": batch, "workload": {"prompt_tokens": context - 256, "output_tokens": 256}})
        assert float(capacity.memory_parts(inputs.gather(s)[0])["kv_cache"]) == pytest.approx(7168 * MIB)


@pytest.mark.parametrize("kv, batch", [("f16", 2), ("q8_0", 3)])
def test_the_arithmetic_is_shown(kv, batch):
    p = predict(load_scenario(f"longest-context-laptop-{kv}"))
    assert p.batch == batch and p.reason.startswith("fits: ")
    for word in ("weights", "KV cache", "buffers", "MiB usable"):
        assert word in p.reason
