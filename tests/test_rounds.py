"""Speculative decoding: laws of a round, a simulation of it, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joulesim import chain, constants, drafting, inputs, load_scenario, predict, rounds
from joulesim.errors import InputError
from joulesim.specs.speculation import SpeculationSpec

BASE = load_scenario("qwen2.5-7b-speculative-code-m5-pro")
PROBABILITY = st.floats(0, 1)


def spec(**fields) -> SpeculationSpec:
    """A copying speculation, so that no draft model is needed, unless one is."""
    return SpeculationSpec(**{"method": "ngram", **fields})


def curve(*bins):
    """Confidence curve of (edge, drafted, accepted)."""
    return {"confidence_curve": [{"confidence": c, "drafted": d, "accepted": a} for c, d, a in bins]}


def simulated(k: int, passing: float, chances, rng, n: int = 20_000):
    """Rounds drawn one by one: drafted, looked at, kept."""
    drafted = np.zeros(n, int)
    running = np.ones(n, bool)
    for _ in range(k):
        running &= rng.random(n) < passing
        drafted += running
    verified, accepted = np.zeros(n, int), np.zeros(n, int)
    agreeing = np.ones(n, bool)
    for position in range(k):
        here = agreeing & (position < drafted)
        verified += here
        agreeing = here & (rng.random(n) < chances[position])
        accepted += agreeing
    return drafted, verified, accepted


@settings(max_examples=20, deadline=None)
@given(
    k=st.integers(1, 12),
    low=st.integers(0, 100),
    high=st.integers(0, 100),
    share=st.integers(1, 99),
    threshold=st.sampled_from([0.0, 0.3, 0.5, 0.8]),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_simulation_of_rounds_agrees_with_the_closed_form(k, low, high, share, threshold, seed):
    bins = ((0.0, share, share * low // 100), (0.5, 100 - share, (100 - share) * high // 100))
    s = spec(method="ngram", draft_length=k, acceptance=curve(*bins), confidence_threshold=threshold)
    expected = rounds.expected_round(s)
    edges, drafted_counts, accepted_counts = zip(*bins, strict=True)
    passing, alpha = rounds.speculation.passing(edges, drafted_counts, accepted_counts, threshold)
    draws = simulated(k, float(passing), [float(alpha)] * k, np.random.default_rng(seed))
    for value, drawn in zip((expected.drafted, expected.verified, expected.accepted), draws, strict=True):
        assert value == pytest.approx(drawn.mean(), abs=5 * drawn.std() / np.sqrt(drawn.size) + 1e-3)


@settings(max_examples=20, deadline=None)
@given(positions=st.lists(PROBABILITY, min_size=1, max_size=10), seed=st.integers(0, 2**32 - 1))
def test_a_simulation_by_position_agrees(positions, seed):
    expected = rounds.expected_round(spec(draft_length=len(positions), acceptance={"by_position": positions}))
    _, verified, accepted = simulated(len(positions), 1.0, positions, np.random.default_rng(seed))
    assert expected.accepted == pytest.approx(accepted.mean(), abs=5 * accepted.std() / np.sqrt(20_000) + 1e-3)
    assert expected.verified == pytest.approx(verified.mean(), abs=5 * verified.std() / np.sqrt(20_000) + 1e-3)
    assert expected.drafted == len(positions) and expected.wasted == pytest.approx(len(positions) - expected.accepted)


def test_no_acceptance_is_one_token_a_round_and_full_acceptance_all():
    assert rounds.expected_round(spec(draft_length=5, acceptance={"accepted": 0, "verified": 9})).tokens == 1
    assert rounds.expected_round(spec(draft_length=5, acceptance={"accepted": 9, "verified": 9})).tokens == 6


def test_a_rate_of_drafts_is_no_probability():
    by_rate = spec(draft_length=4, acceptance={"accepted": 5904, "drafted": 10000, "draft_length": 4})
    assert rounds.acceptance_probability(by_rate) == pytest.approx(0.8, abs=1e-4)


def test_nothing_accepted_never_pays():
    refused = BASE.replace({"speculation.acceptance": {"accepted": 0, "verified": 100}})
    plain = BASE.replace({"speculation.method": "none"})
    assert predict(refused).tpot > predict(plain).tpot
    assert predict(refused).energy_per_output_token > predict(plain).energy_per_output_token


def test_where_a_call_costs_its_tokens_no_acceptance_is_faster():
    """A runtime that passes over the weights for every row: c(k + 1) = (k + 1) c(1)."""
    every = BASE.replace(
        {
            "runtime": {"base": "llama.cpp-metal", "repeat_rows": 64, "lane_rows": 64},
            "prompt": 1,
            "output": 4,
            "speculation.method": "ngram",
            "speculation.acceptance": {"accepted": 100, "verified": 100},
        }
    )
    plain = every.replace({"speculation.method": "none"})
    gaps = {"layer_overhead": 0.0, "host_per_step": 0.0, "host_per_sequence": 0.0}
    for k in (1, 4, 16):
        assert decode_time(every.replace({"speculation.draft_length": k}), **gaps) >= 0.999 * decode_time(plain, **gaps)


def test_a_drafter_dearer_than_its_verifier_is_said_never_to_pay():
    dear = BASE.replace({"speculation.draft_model": "qwen2.5-7b-instruct", "speculation.draft_weights": "f16"})
    assert drafting.study(dear, (1, 2, 4, 7)).verdict.startswith("this drafter can't pay at any acceptance")


def decode_time(scenario, **changed) -> float:
    known = {name: c.value for name, c in constants.constants(scenario.hardware, scenario.runtime).items()}
    return float(chain.run(inputs.gather(scenario)[0], known | changed).decode.time)


def test_without_the_cache_carried_time_grows_with_the_square_of_the_answer():
    without = BASE.replace({"speculation.kv_carry": False, "workload.prompt_tokens": 1})
    with_it = without.replace({"speculation.kv_carry": True})

    def slope(scenario, tokens):
        return np.log2(
            decode_time(scenario.replace({"output": 2 * tokens})) / decode_time(scenario.replace({"output": tokens}))
        )

    assert slope(without, 2000) == pytest.approx(2, abs=0.15)
    assert abs(slope(without, 2000) - 2) < abs(slope(without, 200) - 2) + 0.05
    assert slope(with_it, 500) == pytest.approx(1, abs=0.1)


def test_verification_competes_with_batching():
    """A batch already fills the call that a verify step would: drafting gains less, then nothing."""
    gains = []
    for batch in (1, 4, 16, 64):
        drafted = BASE.replace({"serving.batch": batch})
        plain = drafted.replace({"speculation.method": "none"})
        gains.append(decode_time(plain) / decode_time(drafted))
    assert gains[0] > 2 and gains[0] > gains[-1] and gains[-1] < 1.1


def test_the_draft_is_counted_beside_the_target():
    alone = BASE.replace({"speculation.method": "none"})
    both, one = predict(BASE).memory, predict(alone).memory
    assert both["weights"] > one["weights"] and both["kv_cache"] > one["kv_cache"]


def test_study_finds_the_front_and_a_threshold_when_there_is_a_curve():
    found = drafting.study(
        BASE.replace({"speculation.acceptance": {**curve((0.0, 300, 60), (0.5, 700, 560))}}), range(1, 8)
    )
    front = found.front()
    assert [o.time for o in front] == sorted(o.time for o in front)
    assert [o.energy for o in front] == sorted((o.energy for o in front), reverse=True)
    assert {o.threshold for o in found.options} == set(drafting.THRESHOLDS)


# --- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"speculation.acceptance": {"by_position": [1.2]}},
            "speculation.acceptance.by_position.0: expected at most 1, got 1.2",
        ),
        (
            {"speculation.acceptance": {"accepted": 12, "verified": 10}},
            "expected accepted of at most verified, got 12 of 10",
        ),
        (
            {"speculation.acceptance": {"accepted": 12, "verified": 20, "drafted": 15}},
            "expected verified of at most drafted, got 20 of 15",
        ),
        ({"speculation.acceptance": {}}, "acceptance: expected counts, by_position or confidence_curve, got nothing"),
        (
            {"speculation.acceptance": {"accepted": 5, "drafted": 10}},
            "expected accepted with verified, or with drafted and draft_length",
        ),
        ({"speculation.acceptance": {"by_position": [0.8, 0.7]}}, "draft_length: expected at most the 2 positions"),
        ({"speculation.acceptance": curve((0.2, 10, 5))}, "expected rising edges from 0"),
        (
            {"speculation.acceptance": curve((0.0, 10, 11))},
            "confidence_curve: expected accepted of at most drafted, got 11 of 10",
        ),
        ({"speculation.confidence_threshold": 0.5}, "expected acceptance.confidence_curve with a threshold, got none"),
        ({"speculation.confidence_threshold": 1.5}, "confidence_threshold: expected at most 1"),
        ({"speculation.draft_model": None}, "draft_model: expected a model with method draft, got nothing"),
        ({"speculation.draft_lenght": 4}, "Did you mean draft_length?"),
    ],
)
def test_faults_of_a_declared_speculation(changes, message):
    with pytest.raises(
        InputError, match="(?s).*" + message.replace("?", r"\?").replace(".", r"\.").replace("[", r"\[")
    ):
        BASE.replace(changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"speculation.draft_model": "llama-3.2-1b-instruct"}, "expected the vocabulary of qwen2.5-7b-instruct"),
        (
            {
                "hardware": "rtx-5070-ti-laptop",
                "runtime": "llama.cpp-cuda",
                "speculation.draft_model": "qwen2.5-7b-instruct",
                "speculation.draft_weights": "f16",
            },
            "expected a draft that fits beside qwen2.5-7b-instruct, got one that needs",
        ),
        (
            {"hardware": "h100-sxm", "runtime": "vllm"},
            "expected none with vllm: speculation is modelled for static batches",
        ),
    ],
)
def test_faults_of_a_speculation_that_cannot_run(changes, message):
    with pytest.raises(InputError, match=message):
        predict(BASE.replace(changes))


def test_a_study_needs_a_declared_speculation():
    with pytest.raises(InputError, match="speculation.method: expected draft or ngram, got none"):
        drafting.study(BASE.replace({"speculation.method": "none"}))


def test_a_prediction_states_its_round():
    s = predict(BASE.replace({"speculation.draft_length": 4, "speculation.acceptance": {"accepted": 80, "verified": 100}})).speculation
    assert round(s["draft_acceptance_rate"], 2) == 0.59 and round(s["mean_acceptance_length"], 2) == 3.36
    assert s["acceptance_probability"] == pytest.approx(0.8)
    assert predict(BASE.replace({"speculation.method": "none"})).speculation is None
