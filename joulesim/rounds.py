"""
Speculative decoding as rounds: what is drafted, verified and kept, and the calls it takes.

A round is the draft's calls and one call of the target over all drafted tokens; it yields what was accepted and one
token more. Used by :mod:`joulesim.chain` in place of plain decode steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from joulesim.attending import Looked, look, looked, unpacked
from joulesim.calls import head, layers, sample
from joulesim.errors import Fault, InputError
from joulesim.formulas import speculation
from joulesim.inputs import mean
from joulesim.specs.speculation import SpeculationSpec
from joulesim.work import Stretch, Work, with_host

_NODES = ((0.5 - np.sqrt(0.15), 5 / 18), (0.5, 8 / 18), (0.5 + np.sqrt(0.15), 5 / 18))
"""Gauss-Legendre nodes and weights on 0 .. 1: exact for the cost of reading a text again after every round."""


class Round(NamedTuple):
    """Expectations of one round of one sequence."""

    offered: tuple[float, ...]
    """Probability of 0, 1, .. drafted tokens offered for verification. [1]"""
    draft_calls: float
    """Calls of the draft model. [1]"""
    verified: float
    """Drafted tokens looked at before the first rejection, that one included. [token]"""
    accepted: float
    """Drafted tokens kept. [token]"""

    @property
    def drafted(self) -> float:
        """Tokens offered for verification. [token]"""
        return sum(length * share for length, share in enumerate(self.offered))

    @property
    def tokens(self) -> float:
        """Tokens that a round yields, the target's own included. [token]"""
        return 1.0 + self.accepted

    @property
    def wasted(self) -> float:
        """Tokens offered and thrown away. [token]"""
        return self.drafted - self.accepted


class Plan(NamedTuple):
    """Speculation of a scenario as numbers."""

    round: Round
    draft: Any
    """Inputs of the draft model; ``None`` when tokens are copied."""
    kv_carry: bool


def expected_round(spec: SpeculationSpec, draft_length: int | None = None, threshold: float | None = None) -> Round:
    """
    Round of a declared speculation.

    Parameters
    ----------
    spec : SpeculationSpec
        With counts, positions or a confidence curve.
    draft_length, threshold : optional
        Instead of the declared ones.
    """
    k = draft_length or spec.draft_length
    threshold = spec.confidence_threshold if threshold is None else threshold
    given, passing = spec.acceptance, 1.0
    if given.by_position and not threshold:
        chances = np.asarray(given.by_position[:k])
    else:
        alpha = acceptance_probability(spec)
        if given.confidence_curve:
            bins = given.confidence_curve
            passing, alpha = speculation.passing(
                [b.confidence for b in bins], [b.drafted for b in bins], [b.accepted for b in bins], threshold
            )
        chances = np.full(k, float(alpha))
    offered = speculation.lengths_drafted(k, float(passing))
    if spec.method == "ngram":
        offered = offered * spec.match_rate + np.eye(1, k + 1)[0] * (1.0 - spec.match_rate)
    reached = 1.0 - np.cumsum(offered)[:-1]  # probability that a draft is at least 1, 2, .. tokens long
    kept = np.cumprod(chances)
    calls = float(speculation.draft_calls(k, float(passing))) if spec.method == "draft" else 0.0
    return Round(
        tuple(float(p) for p in offered),
        calls,
        float(np.sum(reached * np.append(1.0, kept[:-1]))),
        float(np.sum(reached * kept)),
    )


def acceptance_probability(spec: SpeculationSpec) -> float:
    """Probability that a verified token is accepted, the same at every position."""
    given = spec.acceptance
    if given.accepted is not None and given.verified:
        return given.accepted / given.verified
    if given.accepted is not None and given.drafted and given.draft_length:
        return float(speculation.probability_of_rate(given.accepted / given.drafted, given.draft_length))
    if given.confidence_curve:
        return sum(b.accepted for b in given.confidence_curve) / max(sum(b.drafted for b in given.confidence_curve), 1)
    return float(np.mean(given.by_position))


def refuse(scenario, assumptions: list[str]) -> None:
    """Combinations that have no meaning, together; what is taken on trust goes to ``assumptions``."""
    spec, runtime, faults = scenario.speculation, scenario.runtime, []
    if runtime.scheduler == "continuous":
        faults.append(
            Fault(
                "speculation.method",
                f"expected none with {runtime.name}: speculation is modelled for static batches",
                "use a llama.cpp runtime",
            )
        )
    if spec.draft_model is not None and abs(spec.draft_model.vocabulary - scenario.model.vocabulary) > 128:
        faults.append(
            Fault(
                "speculation.draft_model",
                f"expected the vocabulary of {scenario.model.name} "
                f"({scenario.model.vocabulary} entries), got {spec.draft_model.vocabulary} of "
                f"{spec.draft_model.name}",
                "draft with a model of the same family",
            )
        )
    framing, needed = spec.acceptance.framing, "batched"
    if framing != needed and runtime.activation_framing == "per-tensor":
        if spec.accept_framing_mismatch:
            assumptions.append(
                f"speculation.acceptance: measured under {framing} framing, used for a {needed} verify on "
                f"{runtime.name}, which scales activations per fed tensor (--accept-framing-mismatch)"
            )
        else:
            faults.append(
                Fault(
                    "speculation.acceptance.framing",
                    f"expected {needed}: {runtime.name} scales activations "
                    f"per fed tensor, so tokens fed together decode differently, got {framing}",
                    "measure acceptance as the runtime verifies, or pass --accept-framing-mismatch",
                )
            )
    if faults:
        raise InputError(faults)


def decode(x, c: dict[str, Any], steps) -> Stretch:
    """Decode of a batch in rounds instead of steps; ``steps`` tokens of each sequence."""
    plan, batch = x.speculation, x.call_batch
    rounds = mean(steps, x) / plan.round.tokens
    average = looked(x, x.prompt, x.prompt + steps, 1.0).times(1.0 / np.maximum(mean(steps, x), 1.0))
    stretch = Stretch(Work(), 0.0, 0.0)
    for drafted, share in enumerate(plan.round.offered):
        if share > 1e-9:
            call = (
                _verify(x, c, batch, drafted + 1.0, average)
                if plan.kv_carry
                else _again(x, c, batch, drafted + 1.0, steps)
            )
            stretch = stretch.plus(call.times(rounds * share))
    if plan.draft is None:
        return stretch
    d = plan.draft
    if plan.kv_carry:
        seen = looked(d, d.prompt, d.prompt + steps, 1.0).times(1.0 / np.maximum(mean(steps, d), 1.0))
        drafting = _verify(d, c, batch, 1.0, seen)
    else:
        drafting = _again(d, c, batch, 1.0, steps)
    return stretch.plus(drafting.times(rounds * plan.round.draft_calls))


def _verify(x, c, batch, rows, average: Looked) -> Stretch:
    """One call of ``rows`` tokens a sequence at its average context; the rows share one read of the cache."""
    what = average._replace(
        seen=tuple(s * rows for s in average.seen), earlier=average.earlier * rows, tokens=average.tokens * rows
    )
    work = layers(x, c, batch * rows).plus(head(x, c, batch * rows)).plus(sample(x, c, batch * rows))
    work = work.plus(look(x, c, what, unpacked(x, c), c["attention_instructions"]).times(batch))
    return with_host(c, work, c["host_per_step"] + c["host_per_sequence"] * batch)


def _again(x, c, batch, rows, steps) -> Stretch:
    """One call that reads the whole text again, averaged over the growing answer."""
    total = Stretch(Work(), 0.0, 0.0)
    for node, weight in _NODES:
        text = mean(x.prompt + node * steps, x) + rows
        work = (
            layers(x, c, batch * text).plus(head(x, c, batch * rows)).plus(sample(x, c, batch * rows))
        )
        what = looked(x._replace(weight=None), 0.0, text, np.minimum(x.prefill_chunk, text))
        work = work.plus(look(x, c, what, unpacked(x, c)).times(batch))
        call = with_host(c, work, c["host_per_step"] + c["host_per_sequence"] * batch)
        total = total.plus(call.times(weight))
    return total
