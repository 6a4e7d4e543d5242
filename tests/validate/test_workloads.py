"""Finite runs tend to their steady state; prefix caches hold what fits."""

import pytest

from joulesim.validate import workloads
from joulesim.validate.points import Point


def point(**changes):
    given = dict(table="t", row=1, source="", hardware="h100-sxm", model="qwen3-8b", runtime="vllm", batch=16.0,
                 requests=1024.0, prompt_tokens=500.0, output_tokens=400.0, output_spread=2.0, task="lm-arena-chat")
    return Point(**(given | changes))


def test_an_endless_stream_is_length_biased():
    age, steps = workloads.window(point(requests=None))
    assert age == pytest.approx(400.0)  # E[L^2] / 2 E[L] with spread 2
    assert steps == 400.0


def test_a_long_run_tends_to_the_endless_one():
    age, steps = workloads.window(point(batch=4.0, requests=4.0 * 60))
    assert age == pytest.approx(400.0, rel=0.05)
    assert steps == pytest.approx(400.0, rel=0.05)


def test_a_short_run_is_younger():
    short, _ = workloads.window(point(batch=512.0, requests=1024.0))
    long, _ = workloads.window(point(batch=16.0, requests=1024.0))
    assert short < long


def test_new_share():
    once = point(task="gpqa", requests=198.0)
    again = point(task="gpqa", requests=792.0, batch=64.0, prompt_tokens=225.0)
    assert workloads.new_share(once, 1e9, 0.2, True) == 1.0
    assert workloads.new_share(again, 1e9, 0.2, True) == pytest.approx((198 - 64) / (792 - 64), rel=1e-3)
    assert workloads.new_share(again, 1e3, 0.2, True) == pytest.approx(1.0, abs=1e-3)  # the pool cannot hold the list
    assert workloads.new_share(again, 1e9, 0.2, False) == 1.0  # recurrent state is not cached
    assert workloads.new_share(point(), 1e9, 0.2, True) == pytest.approx(0.2)


def test_answers_take_room_in_the_prefix_cache():
    """198 prompts of 225 tokens fit into 120 000 tokens, but not with 1000 tokens of answer each."""
    brief, long_winded = (point(task="gpqa", requests=792.0, batch=64.0, prompt_tokens=225.0, output_tokens=tokens)
                          for tokens in (10.0, 1000.0))
    assert workloads.new_share(brief, 120_000, 0.2, True) == pytest.approx((198 - 64) / (792 - 64), rel=1e-3)
    assert workloads.new_share(long_winded, 120_000, 0.2, True) == pytest.approx(1.0, abs=0.01)
