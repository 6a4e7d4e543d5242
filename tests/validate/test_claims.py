"""Findings of the source studies: how claims are read and judged, and the capabilities that method claims name."""

import json

import numpy as np
import pytest

from joulesim import load_scenario, predict
from joulesim.errors import InputError
from joulesim.measure import repeats
from joulesim.scenario import build
from joulesim.validate import claims, expressions, numbers, refit
from joulesim.validate.cases import Case, gathered
from joulesim.validate.mechanisms import SWITCHES
from joulesim.validate.unpacking import residuals

CLAIMS = {c.id: c for c in claims.load()}
FINDINGS = {name: claims.check(c) for name, c in CLAIMS.items()}


def template(name: str, **changes):
    """A scenario of ``validation/claims/scenarios.yaml``."""
    return claims.templates()[name].replace(changes)


# --- what is promised -------------------------------------------------------------------------------------


def test_every_finding_is_a_claim_and_most_are_supported():
    assert len(CLAIMS) == 47
    supported = [name for name, f in FINDINGS.items() if f.verdict == "supported"]
    assert len(supported) >= 40


def test_enough_supported_claims_rest_on_no_fitted_number():
    tests = [name for name, f in FINDINGS.items() if f.verdict == "supported" and numbers.role(CLAIMS[name]) == "test"]
    assert len(tests) >= 15, tests


def test_few_numbers_carry_the_others():
    carrying = {
        n.name
        for name, f in FINDINGS.items()
        if f.verdict == "supported" and CLAIMS[name].kind != "method"
        for n in numbers.rests_on(CLAIMS[name])
    }
    assert len(carrying) <= 24, sorted(carrying)


@pytest.mark.parametrize("name", SWITCHES)
def test_each_mechanism_carries_a_claim(name):
    switch = SWITCHES[name][1]
    flipped = [
        c.id for c in CLAIMS.values() if claims.check(c, lambda s, x, k: switch(x, k)).verdict != FINDINGS[c.id].verdict
    ]
    assert flipped


def test_a_number_that_only_its_own_note_knows_is_no_evidence_for_it():
    finding = refit._without(FINDINGS["speculation.copy-on-edit"], {"x"})
    assert finding.verdict == "no evidence" and "nothing else says what x is" in finding.why


def test_a_claim_rests_on_the_numbers_it_was_fitted_on():
    names = {n.field for n in numbers.rests_on(CLAIMS["kernel-energy.q4_k-unpack"])}
    assert "energy_per_instruction" in names
    assert numbers.role(CLAIMS["kernel-energy.q4_k-unpack"]) == "fit"
    assert numbers.role(CLAIMS["batching.second-request-rtx"]) == "test"


# --- how claims are judged --------------------------------------------------------------------------------


def test_an_order_needs_more_than_one_percent():
    claim = CLAIMS["width.rtx-order"]._replace(rows={}, values={"margin": "1.009 - 1"})
    assert claims.check(claim).verdict == "not supported"
    assert claims.check(claim._replace(values={"margin": "1.02 - 1"})).verdict == "supported"


def test_every_value_of_a_row_must_lie_inside():
    claim = CLAIMS["power-mode.ac-vs-battery-speed"]
    assert claims.check(claim._replace(accept=[0.0, 0.44])).verdict == "not supported"


def test_an_unknown_number_is_no_evidence():
    claim = CLAIMS["batching.second-request-rtx"]
    unknown = claims.check(claim, lambda s, x, c: (x, c | {"energy_per_byte": np.nan}))
    assert unknown.verdict == "no evidence"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__import__('os')", "expected names, numbers"),
        ("one.__class__", "expected names, numbers"),
        ("1 +", "not an expression"),
        ("unknown.energy", "expected names, numbers"),
    ],
)
def test_expressions_are_arithmetic_alone(text, message):
    with pytest.raises(InputError, match=message):
        expressions.evaluate(text, {"one": 1.0})


# --- capabilities that method claims name -----------------------------------------------------------------


def test_format_residuals_isolate_unpacking():
    """A roofline with energies per byte leaves what unpacking costs, format by format, and nothing for f16."""
    scenarios = [template("m5-pro").replace({"weights": name}) for name in ("f16", "q8_0", "q4_0", "q4_k", "q2_k")]
    found = residuals((s, Case([gathered(s)], ()).decode_energy) for s in scenarios)
    per_weight = {r.format: r.per_weight for r in found}
    assert per_weight["f16"] == pytest.approx(0.0, abs=1e-15)
    assert per_weight["f16"] < per_weight["q8_0"] < per_weight["q4_0"] < per_weight["q4_k"] < per_weight["q2_k"]
    for r in found[1:]:  # the residual is the energy of the format's instructions, and little else
        assert r.per_weight / r.instructions == pytest.approx(40e-12, rel=0.1)


def test_a_scenario_runs_on_a_second_runtime_and_repeats_must_agree():
    """The order of formats survives a change of engine; repeats that scatter are said not to be known well enough."""
    for runtime in ("llama.cpp-metal", "llama-server-metal"):
        energy = [
            predict(
                build(
                    {
                        "hardware": "m5-pro",
                        "runtime": runtime,
                        "model": "qwen2.5-7b-instruct",
                        "weights": w,
                        "workload": {"prompt_tokens": 64, "output_tokens": 64},
                    },
                    "x",
                )
            ).energy_per_output_token
            for w in ("q4_0", "q8_0", "q5_k_m", "f16")
        ]
        assert energy == sorted(energy)
    assert repeats.enough([1.00, 1.01, 1.00, 0.99, 1.00, 1.01, 1.00])
    assert not repeats.enough([1.00, 1.10, 0.90, 1.20, 1.00, 0.85, 1.05])


def test_speculation_findings_hold_through_llama_server():
    """Faster and dearer without a threshold, no dearer with one: the server's own runtime says the same."""
    plain = template("m5-pro-plain", runtime="llama-server-metal")
    prose = template("m5-pro-prose", runtime="llama-server-metal")
    of = {
        name: Case([gathered(s)], ())
        for name, s in {
            "plain": plain,
            "prose": prose,
            "threshold": prose.replace({"speculation.confidence_threshold": 0.5}),
        }.items()
    }
    assert of["prose"].decode_time < of["plain"].decode_time and of["prose"].decode_energy > of["plain"].decode_energy
    assert of["threshold"].decode_energy <= 1.02 * of["plain"].decode_energy
    from joulesim.measure import runtimes

    assert "llama_server" in runtimes.RUNTIMES


def test_acceptance_of_another_framing_is_refused_unless_accepted(joulesim, tmp_path):
    """Counts of tokens fed one by one are no counts of a batched verify where activations are scaled per fed tensor."""
    path = tmp_path / "interscript.yaml"
    path.write_text(
        json.dumps(
            {
                "hardware": "raspberry-pi-5",
                "runtime": "interscript-cpu",
                "model": "qwen2.5-1.5b-instruct",
                "weights": "q8_0",
                "workload": {"prompt_tokens": 32, "output_tokens": 64},
                "speculation": {
                    "method": "draft",
                    "draft_model": "qwen2.5-0.5b-instruct",
                    "draft_weights": "q4_0",
                    "acceptance": {"accepted": 9886, "verified": 10000, "framing": "uniform"},
                },
            }
        )
    )
    refused = joulesim("predict", path)
    assert refused.status == 2 and refused.err.count("\n") == 1
    assert (
        "speculation.acceptance.framing: expected batched" in refused.err and "--accept-framing-mismatch" in refused.err
    )
    taken = joulesim("predict", path, "--accept-framing-mismatch")
    assert taken.status == 0 and "measured under uniform framing" in taken.out
    elsewhere = load_scenario(path).replace({"runtime": "llama.cpp-cpu"})
    assert predict(elsewhere).tpot > 0


# --- the command ------------------------------------------------------------------------------------------


def test_json_of_the_command(joulesim):
    ran = joulesim("validate", "claims", "memory", "prefill.ratio", "-o", "json")
    found = {entry["id"]: entry for entry in json.loads(ran.out)}
    entry = found["memory.12gb-fits-8"]
    assert {"id", "kind", "role", "published", "predicted", "accept", "verdict"} <= set(entry)
    assert entry["predicted"] == 8 and entry["verdict"] == "supported" and entry["role"] == "test"


def test_without_prints_what_flips(joulesim):
    ran = joulesim("validate", "claims", "memory", "--without", "kv_dequant")
    assert ran.status == 0 and "memory.q8-penalty" in ran.out and "claims flip" in ran.out
    wrong = joulesim("validate", "claims", "--without", "unpacking")
    assert wrong.status == 2 and "expected a mechanism" in wrong.err
    assert joulesim("validate", "claims", "nothing").status == 2
