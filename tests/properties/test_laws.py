"""Laws of the chain on shipped scenarios with random sizes. None of them knows a constant."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from joulesim import attending, calls, capacity, chain, cost, inputs
from joulesim.explain import waterfall
from joulesim.formulas import attention, weights
from joulesim.predict import components, predict

from .deployments import deployments, found, outcome, priced, shipped, values

settings.register_profile("laws", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laws")

TIMES = ("ttft", "tpot", "e2e_latency")
SLACK = 1 + 1e-9


def total(energy: cost.Energy) -> float:
    return float(sum(energy))


# --- speed --------------------------------------------------------------------------------------------------


@given(s=deployments(), factor=st.floats(1.01, 8))
def test_more_bandwidth_is_never_slower(s, factor):
    """On the same device otherwise: the constants stay, so the power limit keeps its meaning."""
    x, c = inputs.gather(s)[0], values(s)
    slow, fast = chain.run(x, c), chain.run(x._replace(memory_bandwidth=x.memory_bandwidth * factor), c)
    assert fast.prefill.time + fast.decode.time <= (slow.prefill.time + slow.decode.time) * SLACK


@given(s=deployments(), factor=st.floats(1.01, 8))
def test_more_bandwidth_of_a_profile_is_never_slower(s, factor):
    bandwidth = s.hardware.memory_bandwidth
    fast = s.replace({"hardware.memory_bandwidth": bandwidth * factor})
    assert found(fast)["e2e_latency"] <= found(s)["e2e_latency"] * SLACK


@given(s=deployments(), cap=st.floats(0.3, 2), more=st.floats(1.0, 3))
def test_a_higher_power_cap_is_never_slower(s, cap, more):
    x, c = inputs.gather(s)[0], values(s)
    limit = cap * (s.hardware.power_limit or 300.0)
    low, high = (chain.run(x._replace(power_limit=w), c) for w in (limit, limit * more))
    before, after = (float(o.prefill.time + o.decode.time) for o in (low, high))
    assert math.isnan(before) or after <= before * SLACK


@given(s=deployments(), cap=st.floats(0.4, 1))
def test_a_power_cap_holds(s, cap):
    """Average power of a phase stays within the cap at the device's own boundary."""
    x, c = inputs.gather(s)[0], values(s)
    limit = cap * (s.hardware.power_limit or 300.0)
    o = chain.run(x._replace(power_limit=limit), c)
    phases = [(o.prefill, o.decode)] if x.continuous else [(o.prefill,), (o.decode,)]
    for parts in phases:
        time = sum(float(p.time) for p in parts)
        assume(math.isfinite(time))
        if time > 0:
            assert sum(total(p.energy) for p in parts) / time <= limit * c["limit_margin"] * (1 + 1e-3)


@given(s=deployments(output=(16, 400)), more=st.integers(1, 2000))
def test_more_context_never_makes_a_token_cheaper_or_faster(s, more):
    x, c = inputs.gather(s)[0], values(s)
    assume(not x.continuous)  # there a longer prompt takes its share of the same step's overlap
    short, long_ = chain.run(x, c), chain.run(inputs.gather(s.replace({"prompt": s.workload.prompt_tokens + more}))[0], c)
    assert total(long_.decode.energy) >= total(short.decode.energy) / SLACK
    assert long_.decode.time >= short.decode.time / SLACK


@given(s=deployments(output=(16, 400)), chunks=st.integers(1, 3))
def test_a_prompt_longer_by_whole_calls_is_never_cheaper_or_faster(s, chunks):
    """By whole calls, because a last call of a few rows may be dearer than one of a few more: kernels change between."""
    longer = s.replace({"prompt": s.workload.prompt_tokens + chunks * s.runtime.prefill_chunk})
    assume(s.model.max_context is None or longer.workload.prompt_tokens + 400 < s.model.max_context)
    before, after = found(s), found(longer)
    assert after["energy_per_answer"] >= before["energy_per_answer"] / SLACK
    assert after["e2e_latency"] >= before["e2e_latency"] / SLACK


@given(s=deployments(output=(16, 400)), more=st.integers(1, 400))
def test_more_output_is_never_cheaper(s, more):
    longer = s.replace({"output": s.workload.output_tokens + more})
    assert found(longer)["energy_per_answer"] >= found(s)["energy_per_answer"] / SLACK


# --- energy -------------------------------------------------------------------------------------------------


@given(s=deployments())
def test_energy_is_the_sum_of_its_components_and_of_the_waterfall(s):
    p = predict(s)
    assume(p.energy_per_answer is not None)
    assert sum(p.breakdown.values()) == pytest.approx(p.energy_per_answer, rel=1e-9)
    assert sum(value for *_, value in waterfall(p)) == pytest.approx(p.energy_per_answer, rel=1e-9)
    assert all(value >= 0 for value in p.breakdown.values())


@given(s=deployments())
def test_energy_over_time_is_power(s):
    q = found(s)
    assert q["energy_per_answer"] / q["device_time_per_answer"] == pytest.approx(q["power"])
    assert q["energy_per_output_token"] * s.workload.output_tokens == pytest.approx(q["energy_per_request"])
    assert q["e2e_latency"] == pytest.approx(q["ttft"] + q["tpot"] * (s.workload.output_tokens - 1)) or math.isnan(q["tpot"])


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(s=deployments(batch=(1, 48)), more=st.sampled_from([1, 2, 4, 7, 8, 16, 32, 48]))
def test_a_larger_batch_never_costs_more_per_token_while_memory_bound_within_one_pass(s, more):
    x, c = inputs.gather(s)[0], values(s)
    larger = x._replace(batch=x.batch + more)
    small, large = chain.run(x, c), chain.run(larger, c)
    one_pass = [weights.weight_passes(n, x.rows_per_pass) == 1 for n in (x.batch, larger.batch)]
    memory_bound = all(max(b := cost.bounds(y, c, o.decode), key=lambda k: float(np.max(b[k]))) == "memory"
                       for y, o in ((x, small), (larger, large)))
    unlimited = all(float(o.decode.clock) >= 1 for o in (small, large))
    on_lanes = [y.batch <= x.lane_rows for y in (x, larger)]  # another kernel, or a tile begun, is a pass of its own
    one_kernel = all(on_lanes) or not any(on_lanes) and larger.batch % x.row_tile == 0
    assume(all(one_pass) and one_kernel and memory_bound and unlimited and s.model.experts is None)
    assert total(large.decode.energy) / larger.batch <= total(small.decode.energy) / x.batch * SLACK


@given(s=deployments())
def test_at_utilisation_one_nothing_is_paid_for_idling(s):
    assert found(s.replace({"serving.utilisation": 1.0}))["idle_energy_per_answer"] == 0


@given(s=deployments(), busy=st.floats(0.05, 1), share=st.floats(0.1, 1))
def test_a_busier_deployment_never_costs_more_per_answer(s, busy, share):
    assume(s.hardware.idle_power.resident is not None)
    idler, busier = (found(s.replace({"serving.utilisation": u})) for u in (busy * share, busy))
    assert idler["energy_per_answer"] >= busier["energy_per_answer"] / SLACK


@given(s=deployments())
def test_boundaries_are_nested(s):
    x, o = inputs.gather(s)[0], outcome(s)
    sums = [float(sum(components(x, o, boundary).values())) for boundary in ("chip", "board", "host", "wall")]
    known = [value for value in sums if not math.isnan(value)]
    assert known == sorted(known)
    assert not math.isnan(sums[1])


@given(s=deployments(), share=st.floats(0, 1), host=st.floats(0, 500), supply=st.floats(0.5, 1))
def test_boundaries_are_nested_where_all_are_known(s, share, host, supply):
    x = inputs.gather(s)[0]._replace(chip_share_of_memory_energy=share, host_power=host, psu_efficiency=supply)
    o = outcome(s, x)
    sums = [float(sum(components(x, o, boundary).values())) for boundary in ("chip", "board", "host", "wall")]
    assert sums == sorted(sums)


# --- prefix cache -------------------------------------------------------------------------------------------


@given(s=deployments(prompt=(2, 3000), output=(2, 300)), share=st.floats(0, 1))
def test_a_prefix_cache_leaves_decode_alone_and_never_costs_more(s, share):
    prefix = math.floor(share * (s.workload.prompt_tokens - 1))
    x, c = inputs.gather(s)[0], values(s)
    cached = inputs.gather(s.replace({"workload.shared_prefix_tokens": prefix}))[0]
    assume((x.prompt - prefix) * x.batch > x.lane_rows)  # fewer rows run on vector lanes, which may cost more
    without, with_ = chain.run(x, c), chain.run(cached, c)
    if not x.continuous:
        assert total(with_.decode.energy) == pytest.approx(total(without.decode.energy))
        assert float(with_.decode.time) == pytest.approx(float(without.decode.time))
    assert with_.decode.work.bytes == pytest.approx(without.decode.work.bytes)
    together = [total(o.prefill.energy) + total(o.decode.energy) for o in (without, with_)]
    assert together[1] <= together[0] * SLACK


@given(s=deployments(batch=(1, 1), output=(2, 100)), chunks=st.integers(1, 4), rest=st.integers(1, 500))
def test_a_cached_prefix_of_whole_chunks_saves_exactly_their_prefill(s, chunks, rest):
    """Work of the prompt less work after the prefix is the work of the prefix's own tokens, one by one."""
    x, c = inputs.gather(s)[0], values(s)
    assume(not x.continuous and x.speculation is None)  # a draft model reads the prompt too
    chunk = int(x.prefill_chunk)
    prompt = chunks * chunk + rest
    assume(prompt + s.workload.output_tokens < (s.model.max_context or math.inf))
    whole, after = (chain.run(inputs.gather(s.replace({"workload": {
        "prompt_tokens": prompt, "output_tokens": 2, "shared_prefix_tokens": prefix}}))[0], c).prefill.work
        for prefix in (0, chunks * chunk))
    prefix = calls.layers(x, c, float(chunk)).times(chunks)
    assert whole.narrow_flops - after.narrow_flops == pytest.approx(prefix.narrow_flops, rel=1e-9, abs=1.0)
    looking = sum(m.layers * attention.flops(attending.token_pairs(m, 0.0, float(chunks * chunk)), m.query_heads, m.key_width,
                                                     m.value_width) + m.layers * m.state_flops * chunks * chunk
                    for m in x.mixers)
    if all(m.index_flops == 0 for m in x.mixers):
        assert whole.flops - after.flops == pytest.approx(prefix.flops + looking, rel=1e-9)


@given(s=deployments(batch=(2, 96), prompt=(2, 3000)), share=st.floats(0.01, 1))
def test_a_shared_prefix_never_lowers_the_largest_batch(s, share):
    prefix = math.floor(share * (s.workload.prompt_tokens - 1))
    x = inputs.gather(s)[0]
    cached = inputs.gather(s.replace({"workload.shared_prefix_tokens": prefix}))[0]
    before, after = capacity.memory_parts(x), capacity.memory_parts(cached)
    assert after["kv_cache"] <= before["kv_cache"] * SLACK
    assert capacity.largest_batch(cached, after) >= capacity.largest_batch(x, before)


# --- memory -------------------------------------------------------------------------------------------------


@given(s=deployments(batch=(1, 1)))
def test_the_largest_batch_fits_and_one_more_does_not(s):
    x = inputs.gather(s)[0]
    largest = float(capacity.largest_batch(x, capacity.memory_parts(x)))
    assume(0 < largest < 1e6)

    def needed(batch):
        parts = capacity.memory_parts(x._replace(batch=batch))
        return float(parts["weights"] + parts["kv_cache"] + parts["buffers"] - parts["usable"])

    assert needed(largest) <= 0 < needed(largest + 1)


@given(s=deployments(), more=st.floats(1.0, 4))
def test_more_memory_never_holds_fewer(s, more):
    x = inputs.gather(s)[0]
    roomier = x._replace(memory_capacity=x.memory_capacity * more)
    before, after = (capacity.largest_batch(y, capacity.memory_parts(y)) for y in (x, roomier))
    assert after >= before


# --- floats and arrays --------------------------------------------------------------------------------------


@given(s=deployments(), batches=st.lists(st.integers(1, 200), min_size=1, max_size=5),
       factors=st.lists(st.floats(0.25, 4), min_size=1, max_size=5))
def test_arrays_agree_with_one_at_a_time(s, batches, factors):
    x, c = inputs.gather(s)[0], values(s)
    rows = np.array(batches, float)[:, None]
    bandwidths = x.memory_bandwidth * np.array(factors)[None, :]
    block = chain.run(x._replace(batch=rows, memory_bandwidth=bandwidths), c)
    shape = (len(batches), len(factors))
    for i, batch in enumerate(batches):
        for j in range(len(factors)):
            one = chain.run(x._replace(batch=float(batch), memory_bandwidth=float(bandwidths[0, j])), c)
            for name in ("prefill", "decode"):
                many, single = getattr(block, name), getattr(one, name)
                assert np.broadcast_to(many.time, shape)[i, j] == pytest.approx(float(single.time), rel=1e-9)
                for many_part, part in zip(many.energy, single.energy, strict=True):
                    assert np.broadcast_to(many_part, shape)[i, j] == pytest.approx(float(part), rel=1e-9, abs=1e-15)
            assert np.broadcast_to(block.max_batch, shape)[i, j] == float(one.max_batch)


# --- answers ------------------------------------------------------------------------------------------------


@given(name=st.sampled_from(priced()), attempted=st.integers(2, 5000), share=st.floats(0.01, 1), more=st.integers(1, 500))
def test_more_correct_answers_cost_less_each(name, attempted, share, more):
    correct = max(1, round(share * (attempted - 1)))
    better = min(attempted, correct + more)
    low, high = (predict(shipped(name).replace({"task": {"correct": n, "attempted": attempted}})).energy_per_correct_answer
                 for n in (correct, better))
    assert high.value <= low.value
    assert low.value == pytest.approx(predict(shipped(name)).energy_per_request * attempted / correct)


@given(name=st.sampled_from(priced()), attempts=st.floats(1, 9), samples=st.integers(1, 9), method=st.sampled_from(["majority", "pass@k"]))
def test_every_attempt_is_paid(name, attempts, samples, method):
    task = {"correct": 50, "attempted": 100, "attempts_per_answer": attempts, "samples": samples, "method": method}
    p = predict(shipped(name).replace({"task": task}))
    assert p.energy_per_answer == pytest.approx(p.energy_per_request * attempts * samples)
    assert p.energy_per_correct_answer.value == pytest.approx(p.energy_per_answer / 0.5)


@given(name=st.sampled_from(priced()), level=st.floats(0.05, 0.99), share=st.floats(0.05, 1), more=st.floats(0.01, 0.9))
def test_intervals_hold_the_value_and_widen_with_the_level(name, level, share, more):
    s = shipped(name).replace({"task": {"correct": max(1, round(100 * share)), "attempted": 100}})
    wide_level = level + (1 - level) * more
    narrow, wide = predict(s, level), predict(s, wide_level)
    for key in ("energy_per_answer", "ttft", "tpot", "output_throughput", "power"):
        a, b = narrow.estimates[key], wide.estimates[key]
        if a.value is not None:
            assert b.low <= a.low <= a.value <= a.high <= b.high
    a, b = narrow.energy_per_correct_answer, wide.energy_per_correct_answer
    assert b.low <= a.low <= a.value * SLACK and a.value <= a.high * SLACK <= b.high * SLACK * SLACK


# --- what is counted ----------------------------------------------------------------------------------------


@given(s=deployments(), more=st.floats(1.5, 4))
def test_sampling_costs_the_energy_of_what_it_moves(s, more):
    """More traffic over the vocabulary is more memory energy by just that traffic, on every device."""
    x, c = inputs.gather(s)[0], values(s)
    assume(x.speculation is None)
    once, again = (calls.sample(x, c | {"sampling_bytes": c["sampling_bytes"] * n}, 3.0) for n in (1.0, more))
    assert again.bytes - once.bytes == pytest.approx(3.0 * x.vocabulary * c["sampling_bytes"] * (more - 1.0))
    assert once.bytes == pytest.approx(once.sampling * x.memory_bandwidth)


def test_a_step_that_carries_a_prompt_replays_no_captured_graph():
    """Launches in mixed steps cost, those of steps that only decode do not, up to the largest captured graph."""
    s = shipped("llama-3.1-8b-h100")
    x, c = inputs.gather(s)[0], values(s)
    assert x.continuous and x.batch <= x.graph_rows
    slow = chain.run(x, c | {"eager_layer_overhead": 10 * c["eager_layer_overhead"]})
    fast = chain.run(x, c)
    assert slow.decode.time == pytest.approx(fast.decode.time)
    assert slow.prefill.time > fast.prefill.time
    beyond = x._replace(graph_rows=x.batch - 1.0)
    assert chain.run(beyond, c).decode.time > fast.decode.time


def test_reductions_wait_only_where_experts_are_spread_out():
    s = shipped("qwen3-30b-a3b-h100")
    x, c = inputs.gather(s)[0], values(s)
    x = x._replace(tensor=2.0)
    waiting = c | {"expert_link_factor": 2.0}
    c = c | {"expert_link_factor": 1.0}
    assert calls.layers(x, waiting, 64.0).link == pytest.approx(calls.layers(x, c, 64.0).link)
    spread = x._replace(expert=2.0)
    assert calls.layers(spread, waiting, 64.0).link > calls.layers(spread, c, 64.0).link


# --- several devices ----------------------------------------------------------------------------------------


@given(s=deployments(), stages=st.integers(2, 4))
def test_a_pipeline_without_seams_and_host_is_as_many_replicas_that_share_the_weights(s, stages):
    """Micro-batches in all stages at once: each stage is busy all the time, as a replica would be."""
    x, c = inputs.gather(s)[0], values(s)
    assume(x.continuous and x.speculation is None and x.expert == 1.0)
    x = x._replace(batch=np.asarray(x.batch) * stages, link_bandwidth=np.inf)
    c = c | {"collective_latency": 0.0, "energy_per_link_byte": 0.0, "host_per_step": 0.0, "host_per_sequence": 0.0}
    piped, copied = chain.run(x._replace(pipeline=float(stages)), c), chain.run(x._replace(data=float(stages)), c)
    for a, b in ((piped.prefill, copied.prefill), (piped.decode, copied.decode)):
        assert a.time == pytest.approx(b.time, nan_ok=True)
        assert total(a.energy) == pytest.approx(total(b.energy), nan_ok=True)
    held = [capacity.memory_parts(x._replace(**way))["weights"] for way in ({"pipeline": float(stages)}, {"data": float(stages)})]
    assert held[0] * stages == pytest.approx(held[1])


@given(s=deployments(), stages=st.integers(2, 4))
def test_stages_that_take_turns_are_one_device_and_others_that_wait(s, stages):
    """An engine that makes call after call has one stage busy: the others draw their static power."""
    x, c = inputs.gather(s)[0], values(s)
    assume(not x.continuous)
    x = x._replace(link_bandwidth=np.inf)
    c = c | {"collective_latency": 0.0, "energy_per_link_byte": 0.0}
    one, several = chain.run(x, c), chain.run(x._replace(pipeline=float(stages)), c)
    for a, b in ((one.prefill, several.prefill), (one.decode, several.decode)):
        assert a.time == pytest.approx(b.time, nan_ok=True)
        assert b.energy.static == pytest.approx(stages * a.energy.static, nan_ok=True)
        assert total(b.energy) - b.energy.static == pytest.approx(total(a.energy) - a.energy.static, nan_ok=True)


@given(s=deployments(), stages=st.integers(2, 4))
def test_seams_cost_time_and_link_energy(s, stages):
    x, c = inputs.gather(s)[0], values(s)
    assume(np.all(np.isfinite(x.link_bandwidth)) and x.speculation is None)
    whole, seamed = calls.layers(x, c, 8.0), calls.layers(x._replace(pipeline=float(stages)), c, 8.0)
    assert seamed.link_bytes - whole.link_bytes == pytest.approx((stages - 1) * 8.0 * x.hidden_size * 2.0)
    assert seamed.link > whole.link


@pytest.mark.parametrize("quantity", ["idle_energy_per_answer", "energy_per_answer", "energy_above_idle_per_answer",
                                      "device_time_per_answer"])
def test_replicas_that_share_nothing_cost_the_same_an_answer(quantity):
    one = shipped("llama-3.1-8b-h100").replace({"serving.utilisation": 0.5})
    two = one.replace({"serving.parallelism.data": 2, "serving.batch": 2 * one.serving.batch})
    assert found(two)[quantity] == pytest.approx(found(one)[quantity])
