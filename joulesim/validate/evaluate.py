"""Predictions of many points at once: rows that share everything discrete go through the chain as arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from joulesim import capacity, chain, cost, inputs
from joulesim.constants import Constant, constants, starting_rule
from joulesim.scenario import Scenario, build
from joulesim.specs.hardware import HardwareSpec
from joulesim.validate import workloads
from joulesim.validate.points import Point


class Group(NamedTuple):
    """Points that differ in numbers alone."""

    rows: np.ndarray
    """Their positions in the list of points."""
    scenario: Scenario
    inputs: inputs.Inputs
    """Numbers as columns, one row a point."""
    phase: str
    expert_class: str | None
    admitted: np.ndarray
    """Prompt tokens of each point before any prefix cache. [token]"""
    points: tuple[Point, ...]


class Predicted(NamedTuple):
    """What the chain says of points; rows by columns of perturbed constants."""

    step_time: np.ndarray
    """Time between tokens in most steps, or of a prompt where the phase is prefill. [s]"""
    throughput: np.ndarray
    """Tokens of all devices: output tokens, or prompt tokens where the phase is prefill. [token/s]"""
    power: np.ndarray
    energy: np.ndarray
    """Energy of a token. [J/token]"""


def gather(points: Sequence[Point]) -> list[Group]:
    """Points grouped by model, device, runtime, formats, parallelism and phase."""
    return [_group(np.array(rows), [points[row] for row in rows]) for rows in alike(points)]


def alike(points: Sequence[Point]) -> list[list[int]]:
    """Positions of points that share everything discrete."""
    found: dict[tuple, list[int]] = defaultdict(list)
    for position, p in enumerate(points):
        key = (p.hardware, p.model, p.runtime, p.weights, p.kv_cache, p.tensor, p.expert, p.data, p.phase, p.boundary,
               p.gross)
        found[key].append(position)
    return list(found.values())


def _group(rows: np.ndarray, points: list[Point]) -> Group:
    first = points[0]
    document = {
        "hardware": first.hardware, "model": first.model, "runtime": first.runtime, "weights": first.weights,
        "kv_cache": first.kv_cache, "workload": {"prompt_tokens": 1, "output_tokens": 1},
        "serving": {"parallelism": {"tensor": first.tensor, "expert": first.expert, "data": first.data}},
    }
    scenario = build(document, f"{first.table}: row {first.row}")
    x, _, _ = inputs.gather(scenario)

    def column(values) -> np.ndarray:
        return np.array([float(value) for value in values])[:, None]

    prompt = column(max(p.prompt_tokens, 1.0) for p in points)  # a request has at least its start of sequence
    output = column(p.output_tokens for p in points)
    steps_only = 1.0 if first.phase == "decode" else 0.0  # tokens of a decode benchmark are all decoded
    x = x._replace(
        batch=column(p.batch for p in points), prompt=prompt, cached=0.0 * prompt, new_tokens=output + steps_only,
        power_limit=column(p.power_cap or x.power_limit for p in points), context=prompt + output,
        continuous=x.continuous and first.phase == "serving",
    )
    if x.continuous:
        windows = [workloads.window(p) for p in points]
        lists = [workloads.tasks().get(p.task, workloads.Task()) for p in points]
        x = x._replace(running_context=prompt + column(age for age, _ in windows),
                       steps_per_request=column(steps for _, steps in windows),
                       length_spread=column(t.prompt_spread for t in lists),
                       short_rows=column(t.short_prompt for t in lists))
    return Group(rows, scenario, x, first.phase, inputs.expert_class(scenario), prompt, tuple(points))


def predict(group: Group, c: dict[str, Any]) -> Predicted:
    """Time, throughput, power and energy of a group under constants, floats or arrays along columns."""
    x = _with_prefix_cache(group, c)
    outcome = chain.run(x, c)
    batch = x.batch
    about, _, rated = group.phase.partition(", ")
    phases, tokens = _part(about, x, outcome)
    rate_phases, rate_tokens = _part("decode", x, outcome) if rated else (phases, tokens)
    time, rate_time = sum(p.time for p in phases), sum(p.time for p in rate_phases)
    gross = _outwards(group, sum(sum(_energies(group, p)) for p in phases), time)
    energy = gross if group.points[0].gross else gross - sum(p.energy.static for p in phases)
    steps = tokens / batch if x.steps_per_request is None else x.steps_per_request
    if x.continuous and x.steps_per_request is not None:  # over a finite run a request takes more steps than tokens
        tokens = rate_tokens = batch * x.steps_per_request
    rows = np.broadcast_shapes(np.shape(time), np.shape(energy), np.shape(tokens))
    between = outcome.decode.time / np.maximum(steps, 1e-300) if about != "prefill" else time
    shaped = [np.broadcast_to(v, rows) for v in (between, rate_tokens / rate_time, gross / time, energy / tokens)]
    return Predicted(*shaped)


def _part(about: str, x: inputs.Inputs, outcome: chain.Outcome):
    """Phases that a point is about, and the tokens that its energy is shared between."""
    if about == "prefill":
        return (outcome.prefill,), x.batch * x.prompt
    if about == "decode":
        return (outcome.decode,), x.batch * np.maximum(outcome.steps, 1e-300)
    return (outcome.prefill, outcome.decode), x.batch * outcome.output_tokens


def _energies(group: Group, p: cost.Phase) -> cost.Energy:
    """Energy of a phase at the boundary of the group."""
    boundary = group.points[0].boundary
    if boundary != "chip":
        return p.energy
    share = group.inputs.chip_share_of_memory_energy
    return p.energy._replace(memory=p.energy.memory * (chip_share(group.scenario.hardware) if np.isnan(share) else share))


def _with_prefix_cache(group: Group, c) -> inputs.Inputs:
    """Inputs with the prompt tokens that a prefix cache holds."""
    x = group.inputs
    if not (x.shares_prefix and group.phase == "serving"):
        return x
    recurrent = any(m.state_bytes for m in x.mixers)
    parts = capacity.memory_parts(x._replace(batch=np.array(1.0)))
    per_token = np.maximum(capacity.growing_bytes(x, 65536.0) / 65536.0, 1e-300)
    pool = np.broadcast_to(
        (parts["usable"] - parts["weights"] - parts["buffers"]) / per_token * x.data, group.admitted.shape)
    history = np.atleast_1d(c["history_share"])
    shares = np.array([
        [workloads.new_share(p, float(room), float(h), not recurrent) for h in history]
        for p, room in zip(group.points, pool[:, 0], strict=True)
    ])
    return x._replace(cached=group.admitted * (1.0 - shares))


def _outwards(group: Group, energy, time):
    """Energy with the host and the supply, where the boundary of the group takes them in."""
    x, boundary = group.inputs, group.points[0].boundary
    if boundary in ("host", "wall"):
        energy = energy + x.host_power * x.devices * time
    return energy / x.psu_efficiency if boundary == "wall" else energy


def chip_share(hardware: HardwareSpec) -> float:
    """Share of the energy per byte that a counter of a chip sees, where its profile does not say."""
    return starting_rule("chip_share_of_memory_energy", hardware.memory_kind).value


def known(group: Group) -> dict[str, Constant]:
    """Shipped constants of a group."""
    return constants(group.scenario.hardware, group.scenario.runtime, group.expert_class)
