"""Commands about drafting, sensitivity and claims."""

import json

SCENARIO = "qwen2.5-7b-speculative-code-m5-pro"


def test_speculate_prints_a_front_and_a_verdict(joulesim):
    ran = joulesim("speculate", SCENARIO, "--lengths", "1..8")
    assert ran.status == 0 and "cheapest: draft length" in ran.out and "wasted" in ran.out
    best = json.loads(joulesim("speculate", SCENARIO, "--for", "energy", "-o", "json").out)
    assert len(best["options"]) == 1 and best["options"][0]["energy"] < best["plain"]["energy"]


def test_speculate_says_when_a_drafter_cannot_pay(joulesim):
    ran = joulesim("speculate", SCENARIO, "--set", "speculation.draft_model=qwen2.5-7b-instruct", "--set",
                   "speculation.draft_weights=f16", "--lengths", "1..4")
    assert ran.status == 0 and "can't pay at any acceptance" in ran.out and "plain" in ran.out


def test_speculate_needs_a_declared_speculation(joulesim):
    ran = joulesim("speculate", "qwen2.5-7b-q4_0-m5-pro")
    assert ran.status == 2 and ran.err.count("\n") == 1 and "expected draft or ngram, got none" in ran.err
    ran = joulesim("speculate", SCENARIO, "--lengths", "8..1")
    assert ran.status == 2 and "--lengths: expected FROM..TO between 1 and 64, got '8..1'" in ran.err


def test_sensitivity_is_sorted_and_advises(joulesim, tmp_path):
    ran = joulesim("sensitivity", "qwen2.5-7b-q4_0-laptop-b8", "-o", "json")
    effects = json.loads(ran.out)
    sizes = [abs(e["elasticity"]) for e in effects]
    assert sizes == sorted(sizes, reverse=True)
    of = {e["name"]: e["elasticity"] for e in effects}
    assert of["task.correct"] < -0.9  # right answers divide the energy
    assert of["energy_per_byte"] > 0 and of["hardware.memory_bandwidth"] < 0
    picture = tmp_path / "tornado.png"
    text = joulesim("sensitivity", "qwen2.5-7b-q4_0-laptop-b8", "--plot", picture).out
    assert "Measure" in text and picture.stat().st_size > 1000


def test_a_step_into_another_kernel_is_no_slope(joulesim):
    of = {e["name"]: e["elasticity"] for e in json.loads(joulesim("sensitivity", "qwen2.5-7b-q4_0-laptop-b8", "-o", "json").out)}
    assert -1 < of["serving.batch"] < 0  # at nine rows llama.cpp leaves its vector lanes


def test_sensitivity_of_an_unknown_energy_is_refused(joulesim):
    ran = joulesim("sensitivity", "qwen2.5-7b-q4_0-laptop-b8", "--set", "serving.batch=4000")
    assert ran.status == 2 and "expected a known energy per answer, got none: does not fit" in ran.err
    assert "change that with --set" in ran.err


def test_sensitivity_reaches_into_an_acceptance_curve(joulesim, tmp_path):
    path = tmp_path / "curve.yaml"
    path.write_text(json.dumps({
        "hardware": "m5-pro", "runtime": "llama.cpp-metal", "model": "qwen2.5-7b-instruct", "weights": "q4_0",
        "workload": {"prompt_tokens": 100, "output_tokens": 100},
        "speculation": {"method": "draft", "draft_model": "qwen2.5-0.5b-instruct", "draft_weights": "q4_0", "draft_length": 7,
                        "confidence_threshold": 0.5, "acceptance": {"confidence_curve": [
                            {"confidence": 0, "drafted": 100, "accepted": 10},
                            {"confidence": 0.5, "drafted": 900, "accepted": 900}]}}}))
    of = {e["name"]: e["elasticity"] for e in json.loads(joulesim("sensitivity", path, "-o", "json").out)}
    assert of["speculation.acceptance.confidence_curve.1.accepted"] < 0  # moved down: one more is not possible


def test_the_page_of_claims_has_every_claim(joulesim, tmp_path):
    page = tmp_path / "claims.md"
    ran = joulesim("validate", "claims", "framing", "--page", page)
    assert ran.status == 0 and "framing.verdict" in page.read_text("utf-8")
    assert joulesim("validate", "claims", "framing", "--page", tmp_path).status == 2
