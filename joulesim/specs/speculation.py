"""How tokens are drafted, and how many of them the target accepts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import InstanceOf, model_validator

from joulesim.specs.base import Count, Spec, Whole, fraction, named
from joulesim.specs.format import FormatSpec
from joulesim.specs.model import ModelSpec
from joulesim.specs.runtime import Framing


class ConfidenceBin(Spec):
    """Drafted tokens by the probability that the draft model itself gave them."""

    confidence: fraction()
    """Lower edge of the bin; the next bin's edge, or 1, ends it."""
    drafted: Whole
    accepted: Whole


class AcceptanceSpec(Spec):
    """
    Counts of a run: ``accepted`` of the ``verified`` positions (probability), of the ``drafted`` tokens (rate).

    A position is verified when every one before it in its draft was accepted.
    """

    accepted: Whole | None = None
    verified: Whole | None = None
    drafted: Whole | None = None
    draft_length: Count | None = None
    """Tokens that each round of that run drafted; needed to turn a rate into a probability. [token]"""
    framing: Framing = "batched"
    """How the target saw the drafted tokens: in one call (``batched``), or each alone (``uniform``)."""
    by_position: tuple[fraction(), ...] = ()
    """Acceptance probability at each position, given that those before it were accepted."""
    confidence_curve: tuple[ConfidenceBin, ...] = ()
    """Rising bins, the first at 0."""

    @model_validator(mode="after")
    def _counts(self):
        counts = {name: getattr(self, name) for name in ("accepted", "verified", "drafted")}
        known = [(name, count) for name, count in counts.items() if count is not None]
        for (low, few), (high, many) in zip(known, known[1:], strict=False):
            if few > many:
                raise ValueError(f"expected {low} of at most {high}, got {few} of {many}")
        edges = [b.confidence for b in self.confidence_curve]
        if edges and (edges[0] != 0 or any(b <= a for a, b in zip(edges, edges[1:], strict=False))):
            raise ValueError(f"confidence_curve: expected rising edges from 0, got {edges}")
        for b in self.confidence_curve:
            if b.accepted > b.drafted:
                raise ValueError(
                    f"confidence_curve: expected accepted of at most drafted, got {b.accepted} of {b.drafted}"
                )
        return self


class SpeculationSpec(Spec):
    """Speculative decoding: a draft is proposed, the target verifies it in one call and keeps what it agrees with."""

    method: Literal["none", "draft", "ngram"] = "none"
    """``draft``: a smaller model proposes; ``ngram``: what followed the last tokens earlier in the text is copied."""
    draft_model: Annotated[InstanceOf[ModelSpec], named("model")] | None = None
    draft_weights: Annotated[InstanceOf[FormatSpec], named("format")] | None = None
    """Weight format of the draft; ``None``: as its checkpoint stores them."""
    draft_kv_cache: Annotated[InstanceOf[FormatSpec], named("format")] | None = None
    """Cache format of the draft; ``None``: the target's."""
    draft_length: Count = 4
    """Most tokens drafted in a round. [token]"""
    confidence_threshold: fraction() = 0.0
    """Least confidence at which drafting goes on; 0: the whole draft length."""
    match_rate: fraction() = 1.0
    """Share of the rounds in which copying finds something to copy."""
    kv_carry: bool = True
    """Whether the cache is kept between rounds; without it each round reads the whole text again."""
    acceptance: AcceptanceSpec = AcceptanceSpec()
    text: str = ""
    """What is generated (code, prose, an edit): acceptance belongs to it."""
    accept_framing_mismatch: bool = False
    """Use counts of another framing all the same, and say so."""

    @model_validator(mode="after")
    def _complete(self):
        if self.method == "none":
            return self
        if self.method == "draft" and self.draft_model is None:
            raise ValueError("draft_model: expected a model with method draft, got nothing; add it")
        given = self.acceptance
        if given.accepted is None and not given.by_position and not given.confidence_curve:
            raise ValueError(
                "acceptance: expected counts, by_position or confidence_curve, got nothing; "
                "acceptance is measured, it has no default"
            )
        if self.confidence_threshold > 0 and not given.confidence_curve:
            raise ValueError(
                "confidence_threshold: expected acceptance.confidence_curve with a threshold, got none; "
                "measure it, or set the threshold to 0"
            )
        if given.by_position and len(given.by_position) < self.draft_length:
            raise ValueError(
                f"draft_length: expected at most the {len(given.by_position)} positions of "
                f"acceptance.by_position, got {self.draft_length}"
            )
        if (
            given.accepted is not None
            and given.verified is None
            and not given.by_position
            and not given.confidence_curve
            and (given.drafted is None or given.draft_length is None)
        ):
            raise ValueError("acceptance: expected accepted with verified, or with drafted and draft_length; add them")
        return self
