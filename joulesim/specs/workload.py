"""What is asked of a deployment: lengths, answers, and what electricity costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ValidationInfo, model_validator

from joulesim import units
from joulesim.errors import Fault, InputError, shown
from joulesim.specs.base import Count, Spec, Whole, fraction, non_negative, positive, token_count


class LogNormal(Spec):
    """Lengths whose logarithm is normal; those above ``maximum`` are cut there (a cache has an end)."""

    distribution: Literal["lognormal"] = "lognormal"
    mean: positive("token")
    """Mean before the cut. [token]"""
    sd: positive("token")
    """Standard deviation before the cut. [token]"""
    maximum: positive("token")


class Histogram(Spec):
    """Lengths by bin: one edge more than counts, uniform within a bin."""

    distribution: Literal["histogram"] = "histogram"
    edges: tuple[non_negative(""), ...]
    """Bin edges, rising. [token]"""
    counts: tuple[non_negative(""), ...]
    """Requests in each bin."""

    @model_validator(mode="after")
    def _shape(self):
        if len(self.edges) != len(self.counts) + 1:
            raise ValueError(
                f"expected one edge more than counts, got {len(self.edges)} edges and {len(self.counts)} counts"
            )
        if any(right <= left for left, right in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError("expected rising edges")
        if not sum(self.counts) > 0:
            raise ValueError("expected at least one request, got counts that sum to 0")
        return self


class Trace(Spec):
    """Lengths of recorded requests: a CSV file with one request a row."""

    distribution: Literal["trace"] = "trace"
    file: str
    column: str
    lengths: tuple[non_negative(""), ...] = ()
    """Read from the file by the loader. [token]"""


_DISTRIBUTIONS = {"lognormal": LogNormal, "histogram": Histogram, "trace": Trace}


def _length(low: float):
    def read(value: Any, info: ValidationInfo):
        if isinstance(value, Spec):
            return value
        if isinstance(value, Mapping):
            kind = value.get("distribution")
            if kind not in _DISTRIBUTIONS:
                raise ValueError(f"expected distribution lognormal, histogram or trace, got {shown(kind)}")
            return _DISTRIBUTIONS[kind].model_validate(dict(value), context=info.context)
        try:
            number = units.quantity(token_count(value), "token", "")
        except InputError as error:
            raise ValueError(error.faults[0].what) from None
        if not low <= number < float("inf"):
            raise ValueError(f"expected a finite length of at least {low:g} tokens, got {shown(value)}")
        return number

    return Annotated[float | LogNormal | Histogram | Trace, BeforeValidator(read)]


class WorkloadSpec(Spec):
    """Lengths of a request. Numbers, named distributions, or a trace; integrated, not replaced by a mean."""

    prompt_tokens: _length(0)
    """Tokens of the prompt, shared prefix included. [token]"""
    output_tokens: _length(1)
    """Tokens generated, thinking included. [token]"""
    shared_prefix_tokens: non_negative("token") = 0.0
    """Leading prompt tokens found in a prefix cache. [token]"""
    thinking_tokens: non_negative("token") = 0.0
    """Tokens generated before the answer, in addition to ``output_tokens``. [token]"""
    max_output_tokens: positive("token") | None = None
    """Cut of the output; a request cut there is truncated. [token]"""

    @property
    def longest_prompt(self) -> float:
        """Longest prompt of the declared lengths. [token]"""
        prompt = self.prompt_tokens
        if isinstance(prompt, LogNormal):
            return prompt.maximum
        if isinstance(prompt, Histogram):
            return prompt.edges[-1]
        return max(prompt.lengths) if isinstance(prompt, Trace) else prompt

    def prefix_fault(self) -> Fault | None:
        """A shared prefix that no prompt is long enough for: the prompt includes it."""
        prefix, longest = self.shared_prefix_tokens, self.longest_prompt
        if prefix <= longest:
            return None
        return Fault("workload.shared_prefix_tokens", f"expected at most the longest prompt, {longest:.0f} tokens, got "
                     f"{prefix:.0f}", "workload.prompt_tokens counts the shared prefix too")


class ParallelismSpec(Spec):
    """Devices one model is spread over."""

    tensor: Count = 1
    expert: Count = 1
    pipeline: Count = 1
    data: Count = 1


class ServingSpec(Spec):
    """How requests are run together."""

    batch: Count = 1
    """Sequences decoded together."""
    utilisation: fraction(strict=True) = 1.0
    """Share of the time in which the deployment is busy; it idles with weights resident for the rest."""
    context: Count | None = None
    """Tokens of cache reserved for each sequence; ``None``: the longest request. [token]"""
    flash_attention: bool = True
    parallelism: ParallelismSpec = ParallelismSpec()


_MOST_SAMPLES = 1_000_000


class TaskSpec(Spec):
    """How often an answer is right, as counts, and how many attempts an answer takes."""

    name: str = ""
    correct: Whole | None = None
    attempted: Count | None = None
    """Attempts scored, truncated and empty ones included."""
    attempts_per_answer: positive("") = 1.0
    """Attempts paid for each answer: retries, or votes of a majority. Each costs a whole request."""
    method: Literal["single", "majority", "pass@k"] = "single"
    """What the counts score. ``single``: one attempt. ``majority`` and ``pass@k``: the outcome of ``samples``
    attempts; with counts of single attempts give ``counts_of: attempt`` and pass@k is worked out."""
    counts_of: Literal["answer", "attempt"] = "answer"
    samples: Count = 1
    truncated: fraction() = 0.0
    """Share of attempts cut at ``max_output_tokens``; they cost energy and are among the wrong ones."""

    @model_validator(mode="after")
    def _counts(self):
        if (self.correct is None) != (self.attempted is None):
            raise ValueError("expected correct and attempted together, got only one of them")
        if self.correct is not None and self.correct > self.attempted:
            raise ValueError(f"expected correct of at most attempted, got {self.correct} of {self.attempted}")
        if self.method == "majority" and self.counts_of == "attempt":
            raise ValueError("majority: expected counts of voted answers; single attempts do not determine a vote")
        if self.method == "single" and self.samples != 1:
            raise ValueError(f"expected samples of 1 with method single, got {self.samples}; name the method")
        if self.samples > _MOST_SAMPLES:
            raise ValueError(f"expected samples of at most {_MOST_SAMPLES}, got {self.samples}")
        if self.counts_of == "attempt" and self.attempted is not None and self.samples > self.attempted:
            raise ValueError(f"pass@k: expected samples of at most attempted, got {self.samples} of {self.attempted}")
        return self


class PricesSpec(Spec):
    """What money and carbon are worked out from. Nothing here has a default: what is not given is not used."""

    country: str | None = None
    """Country (ISO 3166 alpha-3 code or English name) whose grid figures stand in for those not given."""
    electricity: Annotated[tuple[float, str] | None, BeforeValidator(lambda v: _money(v, "/joule"))] = None
    """Price of electricity: amount per joule and currency."""
    carbon: non_negative("gCO2e/joule") | None = None
    """Grid intensity. [gCO2e/J]"""
    pue: Annotated[float, BeforeValidator(lambda v: _pue(v))] | None = None
    """Facility energy over equipment energy (ISO/IEC 30134-2)."""
    hardware: Annotated[tuple[float, str] | None, BeforeValidator(lambda v: _money(v, ""))] = None
    """Price of the device: amount and currency."""
    lifetime: positive("second") | None = None
    """Time over which price and embodied carbon are written off. [s]"""
    embodied: non_negative("gCO2e") | None = None
    """Embodied emissions of the device. [gCO2e]"""


def _money(value: Any, per: str):
    if value is None or (isinstance(value, tuple) and len(value) == 2):
        return value
    for currency in ("EUR", "USD"):
        if isinstance(value, str) and (currency in value or {"EUR": "€", "USD": "$"}[currency] in value):
            try:
                amount = units.parse(value, currency + per)
            except units.UnitError as fault:
                raise ValueError(f"{fault.what}; {fault.remedy}") from None
            if not 0 <= amount < float("inf"):
                raise ValueError(f"expected an amount of at least 0, got {shown(value)}")
            return amount, currency
    example = "0.25 EUR/kWh" if per else "1800 EUR"
    raise ValueError(f"expected an amount in EUR or USD, got {shown(value)}; write it as e.g. {example!r}")


def _pue(value: Any):
    try:
        number = units.quantity(value, "", "")
    except InputError as error:
        raise ValueError(error.faults[0].what) from None
    if not 1 <= number < 100:
        raise ValueError(f"expected at least 1, got {shown(value)}")
    return number
