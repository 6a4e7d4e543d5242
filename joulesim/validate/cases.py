"""The quantities of a claim: a scenario, or a row of scenarios, run through the chain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from joulesim import calls, chain, constants, cost, inputs
from joulesim.inputs import Inputs
from joulesim.predict import accuracy, components
from joulesim.scenario import Scenario
from joulesim.work import Stretch

Tweak = Callable[[Scenario, Inputs, dict[str, Any]], tuple[Inputs, dict[str, Any]]]
"""Changes inputs and constants of a scenario before the chain runs."""


def unchanged(scenario: Scenario, x: Inputs, c: dict[str, Any]) -> tuple[Inputs, dict[str, Any]]:
    """The tweak that does nothing."""
    return x, c


class Gathered(NamedTuple):
    """A scenario with its inputs and constants, kept so that tweaks need not read it again."""

    scenario: Scenario
    inputs: Inputs
    constants: dict[str, Any]


def gathered(scenario: Scenario) -> Gathered:
    """Inputs and central constants of a scenario."""
    known = constants.constants(scenario.hardware, scenario.runtime, inputs.expert_format(scenario))
    return Gathered(scenario, inputs.gather(scenario)[0], {name: c.value for name, c in known.items()})


class Case:
    """Scenarios of a claim by name; every quantity is an array over them, or a number for a single one."""

    def __init__(self, rows: Iterable[Gathered], shape: tuple[int, ...], tweak: Tweak = unchanged):
        self._rows, self._shape, self._tweak = list(rows), shape, tweak

    @cached_property
    def _runs(self) -> list[tuple[Scenario, Inputs, dict[str, Any], chain.Outcome]]:
        found = []
        for row in self._rows:
            x, c = self._tweak(row.scenario, row.inputs, dict(row.constants))
            found.append((row.scenario, x, c, chain.run(x, c)))
        return found

    def _each(self, function):
        values = np.array([float(function(*run)) for run in self._runs]).reshape(self._shape)
        return values if self._shape else float(values)

    @property
    def decode_energy(self):
        """Energy of a generated token after the first, at the scenario's boundary. [J/token]"""
        return self._each(lambda s, x, c, o: phase_energy(x, o, s.boundary, "decode") / (x.batch * o.steps))

    @property
    def decode_time(self):
        """Time of a generated token after the first; all sequences of a batch advance in it. [s/token]"""
        return self._each(lambda s, x, c, o: o.decode.time / o.steps)

    @property
    def prefill_energy(self):
        """Energy of reading the prompt. [J/request]"""
        return self._each(lambda s, x, c, o: phase_energy(x, o, s.boundary, "prefill") / x.batch)

    @property
    def prompt_tokens(self):
        """Tokens of the prompt. [token]"""
        return self._each(lambda s, x, c, o: o.prompt_tokens)

    @property
    def output_tokens(self):
        """Tokens of the answer. [token]"""
        return self._each(lambda s, x, c, o: o.output_tokens)

    @property
    def request_energy(self):
        """Energy of a request. [J/request]"""
        return self._each(lambda s, x, c, o: sum(components(x, o, s.boundary).values()) / x.batch)

    @property
    def request_time(self):
        """Time of a round of requests. [s]"""
        return self._each(lambda s, x, c, o: o.prefill.time + o.decode.time)

    @property
    def accuracy(self):
        """Correct over attempted answers. [1]"""
        return self._each(lambda s, x, c, o: accuracy(s.task, 0.8).value)

    @property
    def tokens_per_joule(self):
        """Generated tokens per joule. [token/J]"""
        return self._each(lambda s, x, c, o: x.batch * o.output_tokens / sum(components(x, o, s.boundary).values()))

    @property
    def throughput(self):
        """Generated tokens per second of the whole batch. [token/s]"""
        return self._each(lambda s, x, c, o: x.batch * o.output_tokens / (o.prefill.time + o.decode.time))

    @property
    def draft_calls(self):
        """Calls of the draft model in a round; 0 without one. [1]"""
        return self._each(lambda s, x, c, o: x.speculation.round.draft_calls if x.speculation else 0.0)

    @property
    def max_batch(self):
        """Most sequences that fit."""
        return self._each(lambda s, x, c, o: o.max_batch)

    @property
    def parameters(self):
        """Weights of the model."""
        return self._each(lambda s, x, c, o: s.model.parameters)

    @property
    def weight_bytes(self):
        """Weights that a step reads. [B]"""
        return self._each(lambda s, x, c, o: x.dense.bytes + x.output.bytes + x.routed.bytes)

    @property
    def batch(self):
        """Sequences decoded together."""
        return self._each(lambda s, x, c, o: x.batch)

    @property
    def memory_bandwidth(self):
        """Datasheet bandwidth of the device. [B/s]"""
        return self._each(lambda s, x, c, o: x.memory_bandwidth)

    @property
    def bandwidth_share(self):
        """Weight traffic of decode over datasheet bandwidth. [1]"""
        return self._each(
            lambda s, x, c, o: (x.dense.bytes + x.output.bytes) * o.steps / o.decode.time / x.memory_bandwidth
        )

    @property
    def matrix_vector_time(self):
        """Time of the layers' matrix products for one row, nothing else. [s]"""
        return self._each(lambda s, x, c, o: calls.dense_product(x, c, x.dense, 1.0).busy)

    @property
    def matrix_vector_energy(self):
        """Energy of the layers' matrix products for one row, nothing else. [J]"""
        return self._each(_matrix_vector_energy)


def _matrix_vector_energy(s: Scenario, x: Inputs, c, o):
    work = calls.dense_product(x, c, x.dense, 1.0)
    alone = cost.phase(x, c, Stretch(work, 0.0, work.busy), 1.0)
    return phase_energy(x, o._replace(decode=alone), s.boundary, "decode")


def phase_energy(x: Inputs, o: chain.Outcome, boundary: str, phase: str):
    """Energy of one phase of a round at a boundary. [J]"""
    other = "prefill" if phase == "decode" else "decode"
    nothing = getattr(o, other)._replace(time=0.0, energy=cost.Energy(*(0.0 for _ in cost.Energy._fields)))
    return sum(components(x, o._replace(**{other: nothing}), boundary).values())


def rows_of(
    base: Scenario, changes: Mapping[str, Any], over: Mapping[str, list]
) -> tuple[list[Scenario], tuple[int, ...]]:
    """Scenarios of a case, and the shape of the grid that ``over`` spans."""
    start = base.replace(dict(changes), text=True) if changes else base
    if not over:
        return [start], ()
    grid = [start.replace(dict(zip(over, values, strict=True)), text=True) for values in product(*over.values())]
    return grid, tuple(len(values) for values in over.values())
