"""Draft lengths and thresholds of a speculative scenario: what each costs, and whether drafting can pay at all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from joulesim import chain, constants, inputs, rounds
from joulesim.errors import Fault, InputError
from joulesim.predict import accuracy, quantities
from joulesim.scenario import Scenario

LENGTHS = tuple(range(1, 17))
"""Draft lengths that are tried. [token]"""
THRESHOLDS = tuple(round(0.1 * step, 1) for step in range(10))
"""Confidence thresholds that are tried where acceptance is known by confidence. [1]"""


class Option(NamedTuple):
    """One way to speculate; length 0 is plain decoding."""

    draft_length: int
    threshold: float
    round: rounds.Round | None
    time: float
    """Time of a request. [s]"""
    energy: float
    """Energy per correct answer; per answer where accuracy is unknown. [J]"""
    speed_up: float
    """Decode speed over plain decoding. [1]"""
    energy_ratio: float
    """Decode energy over plain decoding. [1]"""


class Study(NamedTuple):
    """All options of a scenario."""

    plain: Option
    options: tuple[Option, ...]
    best_time: float
    """Decode time over plain with every drafted token accepted, at the best length. [1]"""
    best_energy: float
    per: str

    @property
    def verdict(self) -> str:
        """Whether drafting can pay, in one line."""
        if min(self.best_time, self.best_energy) >= 1:
            return (
                "this drafter can't pay at any acceptance: with every token accepted decoding still takes "
                f"{self.best_time:.2f} times the time and {self.best_energy:.2f} times the energy of plain decoding"
            )
        if self.best_time >= 1:
            return f"no acceptance makes this drafter save time ({self.best_time:.2f} of plain at best), only energy"
        if self.best_energy >= 1:
            return f"no acceptance makes this drafter save energy ({self.best_energy:.2f} of plain at best), only time"
        cheapest = min(self.options, key=lambda o: o.energy)
        if cheapest.energy >= self.plain.energy:
            return "plain decoding is cheapest at the declared acceptance"
        return (
            f"cheapest: {_named(cheapest)}, {cheapest.energy_ratio:.2f} of the energy and {cheapest.speed_up:.2f} "
            "times the speed of plain decoding"
        )

    def front(self) -> list[Option]:
        """Options that no other beats in both time and energy, plain decoding among them, fastest first."""
        kept, least = [], np.inf
        for option in sorted((self.plain, *self.options), key=lambda o: (o.time, o.energy)):
            if option.energy < least:
                kept.append(option)
                least = option.energy
        return kept


def _named(option: Option) -> str:
    if option.draft_length == 0:
        return "plain decoding"
    return f"draft length {option.draft_length}" + (f", threshold {option.threshold:g}" if option.threshold else "")


def study(scenario: Scenario, lengths=LENGTHS, thresholds=None) -> Study:
    """
    Time and energy of every draft length and threshold.

    Raises
    ------
    InputError
        When the scenario declares no speculation, or positions only up to a shorter length.
    """
    spec = scenario.speculation
    if spec.method == "none":
        raise InputError(
            Fault("speculation.method", "expected draft or ngram, got none", "declare how tokens are drafted")
        )
    x, _, _ = inputs.gather(scenario)
    known = constants.constants(scenario.hardware, scenario.runtime, inputs.expert_format(scenario))
    c = {name: constant.value for name, constant in known.items()}
    known_positions = len(spec.acceptance.by_position) or max(lengths)
    lengths = [k for k in lengths if k <= known_positions]
    if thresholds is None:
        thresholds = THRESHOLDS if spec.acceptance.confidence_curve else (0.0,)
    right = accuracy(scenario.task, 0.8).value
    plain_run = chain.run(x._replace(speculation=None), c)

    def option(length, threshold, plan):
        run = chain.run(x._replace(speculation=plan), c) if plan else plain_run
        energy = float(quantities(x, run, scenario)["energy_per_answer"])
        return Option(
            length,
            threshold,
            plan.round if plan else None,
            float(run.prefill.time + run.decode.time),
            energy / right if right else energy,
            float(plain_run.decode.time / run.decode.time),
            float(sum(run.decode.energy) / sum(plain_run.decode.energy)),
        )

    found = [
        option(k, t, x.speculation._replace(round=rounds.expected_round(spec, k, t)))
        for k in lengths
        for t in thresholds
    ]
    best = [_best_case(x, c, plain_run, k) for k in lengths]
    return Study(
        option(0, 0.0, None),
        tuple(found),
        min(time for time, _ in best),
        min(energy for _, energy in best),
        "correct answer" if right else "answer",
    )


def _best_case(x, c, plain_run, length: int) -> tuple[float, float]:
    """Decode time and energy over plain decoding with every drafted token accepted."""
    calls = x.speculation.round.draft_calls
    every = rounds.Round((0.0,) * length + (1.0,), float(length) if calls else 0.0, float(length), float(length))
    run = chain.run(x._replace(speculation=x.speculation._replace(round=every)), c)
    return (
        float(run.decode.time / plain_run.decode.time),
        float(sum(run.decode.energy) / sum(plain_run.decode.energy)),
    )
