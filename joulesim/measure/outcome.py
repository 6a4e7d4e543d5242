"""What came out of a point beside its energy: tokens, rates, latencies, answers."""

from __future__ import annotations

from pydantic import Field, model_validator

from joulesim.measure.reading import Count, NonNegative, Observed


class Tokens(Observed):
    """What went in and came out, over the whole window. [token]"""

    prompt: NonNegative | None = None
    cached: NonNegative | None = None
    """Prompt tokens that came from a prefix cache."""
    output: NonNegative | None = None
    drafted: NonNegative | None = None
    verified: NonNegative | None = None
    accepted: NonNegative | None = None
    requests: Count | None = None
    """Requests completed. [request]"""
    failed: Count | None = None
    """Requests that failed; their energy is in, their tokens are not. [request]"""
    counted_by: str = ""
    """Who counted: the engine, or a tokenizer afterwards."""
    output_recounted: NonNegative | None = None
    """The other count of the same output."""


class Throughput(Observed):
    """Rates over the window; the field says what was counted."""

    prompt: NonNegative | None = None
    """Prefill rate. [token/s]"""
    output: NonNegative | None = None
    """Decode or serving rate, output tokens only. [token/s]"""
    mixed: NonNegative | None = None
    """Prompt and output tokens together. [token/s]"""
    requests: NonNegative | None = None
    """[request/s]"""
    goodput: NonNegative | None = None
    """Requests that kept the declared latency limits. [request/s]"""
    sd: NonNegative | None = None
    """Standard deviation of the repeats, in the unit of the rate. [token/s]"""
    samples: tuple[NonNegative, ...] = ()
    """The rate of each repeat. [token/s]"""


class Spread(Observed):
    """A latency over requests or tokens. [s]"""

    mean: NonNegative | None = None
    median: NonNegative | None = None
    sd: NonNegative | None = None
    percentiles: dict[str, NonNegative] = Field(default_factory=dict)
    """By percent, e.g. ``{"99": 0.61}``."""
    n: Count | None = None


class Latency(Observed):
    """Times as a client sees them."""

    ttft: Spread | None = None
    tpot: Spread | None = None
    itl: Spread | None = None
    e2e_latency: Spread | None = None


class Correctness(Observed):
    """Answers checked. Failed, empty and truncated ones are attempts and are not correct."""

    correct: Count
    attempted: Count
    truncated: Count = 0
    empty: Count = 0
    failed: Count = 0

    @model_validator(mode="after")
    def _no_more_than_attempted(self):
        if self.correct > self.attempted:
            got = f"{self.correct} of {self.attempted}"
            raise ValueError(f"expected at most as many correct answers as attempts, got {got}")
        return self


class Question(Observed):
    """One question of a task: what went in and came out, what it took, and whether the answer was right."""

    prompt: Count | None = None
    """[token]"""
    cached: Count = 0
    """Prompt tokens that came from a prefix cache. [token]"""
    output: Count = 0
    """[token]"""
    calls: Count | None = None
    """Calls after the prompt; ``None`` where the engine does not say. [call]"""
    time: NonNegative
    """On the wall clock, from request to end. [s]"""
    cpu_time: NonNegative | None = None
    """[s]"""
    core_probe: NonNegative | None = None
    """CPU time of a fixed piece of work between the calls, over their time: how fast the core was. [s]"""
    memory_probe: NonNegative | None = None
    """That of its part that waits for memory. [s]"""
    correct: bool
    failed: bool = False


class Ratios(Observed):
    """Energies that a source states by unit of work, when it states no energy of a whole run."""

    energy_per_output_token: NonNegative | None = None
    """[J/token]"""
    energy_per_prompt_token: NonNegative | None = None
    """[J/token]"""
    energy_per_total_token: NonNegative | None = None
    """[J/token]"""
    energy_per_request: NonNegative | None = None
    """[J/request]"""
    energy_per_correct_answer: NonNegative | None = None
    """[J/answer]"""
