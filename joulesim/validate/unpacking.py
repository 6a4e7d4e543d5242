"""What is left of an energy per token once bytes, clocks and gaps are paid: the cost of unpacking, by format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from joulesim import chain
from joulesim.scenario import Scenario
from joulesim.validate.cases import gathered, phase_energy
from joulesim.validate.mechanisms import SWITCHES


class Residual(NamedTuple):
    """Unexplained energy of a format."""

    format: str
    measured: float
    """Energy of a generated token. [J/token]"""
    roofline: float
    """The model's, from bandwidth and energy per byte, with unpacking for free. [J/token]"""
    per_weight: float
    """What is left, for each weight. [J/weight]"""
    instructions: float
    """Lane instructions that the format's kernels spend on each weight. [instruction/weight]"""


def residuals(measured: Iterable[tuple[Scenario, float]]) -> list[Residual]:
    """
    Residual per format of measured decode energies.

    Parameters
    ----------
    measured : iterable of tuple
        Scenario and energy of a generated token after the first, at the scenario's boundary. [J/token]
    """
    found = []
    for scenario, energy in measured:
        row = gathered(scenario)
        x, c = SWITCHES["unpack"][1](row.inputs, row.constants)
        outcome = chain.run(x, c)
        explained = float(phase_energy(x, outcome, scenario.boundary, "decode") / (x.batch * outcome.steps))
        weights = sum(m.flops_per_row + m.narrow_flops_per_row for m in (x.dense, x.output)) / 2.0
        instructions = (row.inputs.dense.instructions + row.inputs.output.instructions) / weights
        name = scenario.weights.name if scenario.weights else "checkpoint"
        found.append(Residual(name, energy, explained, (energy - explained) / weights, instructions))
    return found
