"""Reason codes: why an energy is missing, and how far a measured point may be believed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, field_validator

from joulesim.errors import did_you_mean

Verdict = Literal["valid", "suspect", "invalid"]
"""``valid``: use it. ``suspect``: use it with the reasons in view. ``invalid``: keep it, never use it."""

REASONS: dict[str, tuple[Verdict, str]] = {
    # Why there is no energy. The rest of the point still counts.
    "no-meter": ("valid", "no energy meter answers on this machine"),
    "no-permission": ("valid", "the meter is there and may not be read"),
    "no-power-in-file": ("valid", "the source holds no power or energy"),
    "not-published": ("valid", "the source states ratios, no energy of a whole run"),
    "missing-values": ("valid", "the meter answered without a value"),
    "window-too-short": ("valid", "the window is shorter than 100 update periods of the meter"),
    "window-not-bracketed": ("valid", "no sample on both sides of the window"),
    "device-lost": ("valid", "a measured device disappeared"),
    "driver-error": ("valid", "the driver failed while measuring"),
    "mig-instance": ("valid", "the counter belongs to the whole GPU, not to this MIG instance"),
    "stuck-counter": ("valid", "the energy counter did not move"),
    "counter-went-back": ("valid", "the energy counter fell, and what passed is lost"),
    "counter-implausible": ("valid", "the energy counter moved faster than the device can draw"),
    # What happened on the way to an energy that stands.
    "counter-wrapped": ("valid", "the counter passed its range; the range was added"),
    "power-integrated": ("valid", "energy is the integral of sampled power, not a counter difference"),
    "module-scope": ("valid", "the device meters CPU, GPU and memory together"),
    "silent-die": ("valid", "a die without a counter of its own is counted by its sibling"),
    "samples-dropped": ("valid", "single samples could not be read"),
    "zone-assumed": ("valid", "time stamps without a zone were read in the zone that the caller named"),
    # What casts doubt.
    "counter-disagrees": ("suspect", "counter and integrated power differ by more than 5 %"),
    "power-averaged": ("suspect", "the power field is a trailing average that lags behind the load"),
    "sampling-gap": ("suspect", "a gap between samples is long"),
    "few-samples": ("suspect", "the window holds fewer than 100 samples"),
    "rails-disagree": ("suspect", "the rails do not add up to the total that was reported"),
    "throttled": ("suspect", "clocks were lowered by heat or power"),
    "mig-whole-gpu": ("suspect", "power is that of the whole GPU, which MIG instances may share"),
    "length-differs": ("suspect", "the output is not as long as was asked for"),
    "on-battery": ("suspect", "the machine ran on battery"),
    "background-load": ("suspect", "other processes were busy"),
    "drift": ("suspect", "the same point measured later came out differently"),
    "high-variation": ("suspect", "repeats vary by more than 5 % (coefficient of variation)"),
    "few-repeats": ("suspect", "the interval of the median is wider than wanted"),
    "counts-disagree": ("suspect", "two token counts of the same text differ"),
    "requests-failed": ("suspect", "some requests failed"),
    "replayed": ("suspect", "energy comes from a recorded trace, not from this run"),
    # What forbids use.
    "mixed-rate": ("invalid", "prompt and output tokens share one rate; it is neither prefill nor decode"),
    "device-count": ("invalid", "the meter saw another number of devices than took part"),
    "clock-jump": ("invalid", "the clock jumped inside the window"),
    "first-run": ("invalid", "the samples hold a first run (compilation, warm-up)"),
    "run-failed": ("invalid", "the run ended with an error"),
    "do-not-fit": ("invalid", "the source says that this row is not usable"),
}
"""Code -> (weight on the verdict, what it says)."""

_WORSE = ("valid", "suspect", "invalid")


class Reason(BaseModel):
    """A code of :data:`REASONS` with what was seen."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str
    detail: str = ""

    @field_validator("code")
    @classmethod
    def _known(cls, code: str) -> str:
        if code not in REASONS:
            hint = did_you_mean(code, REASONS)
            raise ValueError(f"expected a reason code, got {code!r}; {hint}".rstrip("; "))
        return code

    def __str__(self) -> str:
        return f"{self.code}: {self.detail or REASONS[self.code][1]}"


class Validity(BaseModel):
    """Verdict on a point, the worst of its reasons."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verdict: Verdict = "valid"
    reasons: tuple[Reason, ...] = ()

    @classmethod
    def of(cls, reasons: Iterable[Reason]) -> Validity:
        """Validity that follows from reasons; each code once."""
        unique = {(reason.code, reason.detail): reason for reason in reasons}
        weights = (REASONS[reason.code][0] for reason in unique.values())
        verdict = max(weights, key=_WORSE.index, default="valid")
        return cls(verdict=verdict, reasons=tuple(unique.values()))

    def plus(self, *reasons: Reason) -> Validity:
        """This validity with more reasons."""
        return Validity.of((*self.reasons, *reasons))

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(reason.code for reason in self.reasons)
