"""The best deployment over mixed fields, how far the runner-up is, and what stands in the way of a better one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from joulesim import design, units
from joulesim.errors import Fault, InputError
from joulesim.predict import predict
from joulesim.prediction import Prediction
from joulesim.scenario import SHORTCUTS, Scenario, load_scenario
from joulesim.sweep import axes, points, prepare, views
from joulesim.sweep.plan import unit_of
from joulesim.sweep.views import Constraint

_SAMPLES = 512
"""Sobol points of the ranges for each combination of choices, before any is refined."""
_REFINED = 6
"""Most combinations that are refined: the best by their samples."""
_NEAR = 0.02
"""Share of a range within which two points are the same deployment, when a runner-up is looked for."""
_BINDS = 1e-3
"""Slack, as a share of the limit, below which a constraint binds."""
_PENALTY = 1e30


class Candidate(NamedTuple):
    """A deployment and what it costs."""

    fields: dict[str, Any]
    value: float
    """Of the minimised quantity. [SI]"""


class Optimum(NamedTuple):
    """What :func:`optimise` finds."""

    minimised: str
    best: Candidate
    runner_up: Candidate | None
    """Best deployment with other choices; where there are none, the best one that differs in a range."""
    binding: tuple[str, ...]
    """Constraints, ends of ranges and memory limit that a better deployment would have to cross."""
    prediction: Prediction
    evaluated: int
    """Points that were predicted on the way."""

    @property
    def distance(self) -> float | None:
        """How much worse the runner-up is, as a share. [1]"""
        return None if self.runner_up is None else abs(self.runner_up.value / self.best.value - 1.0)


class Search(NamedTuple):
    """Ranges of one combination of choices."""

    scenario: Scenario
    choice: dict[str, Any]
    ranges: dict[str, tuple[float, float]]
    quantity: str
    sign: float
    constraints: tuple[Constraint, ...]

    def costs(self, x: np.ndarray) -> np.ndarray:
        """Cost of points, a column each; beyond a limit it is the distance to it, on top of a wall."""
        with np.errstate(all="ignore"):
            found = points.evaluate(points.replace(self.scenario, dict(zip(self.ranges, x, strict=True))), {}, {})
        shape = x.shape[1:]
        value = self.sign * np.broadcast_to(found.values[self.quantity], shape)
        headroom = found.values["memory.headroom"] / found.values["memory.usable"]
        beyond = np.maximum(0.0, -np.broadcast_to(headroom, shape))
        for c in self.constraints:
            slack = c.slack(np.broadcast_to(found.values[c.quantity], shape))
            beyond = beyond + np.maximum(0.0, -np.nan_to_num(slack, nan=-1.0))
        void = np.broadcast_to(found.void, shape) | ~np.isfinite(value)
        return np.where(void | (beyond > 0), _PENALTY * (1.0 + np.nan_to_num(beyond, nan=1.0, posinf=1.0)), value)


def optimise(
    scenario: Scenario | str,
    over: Mapping[str, Any],
    minimise: str = "energy_per_correct_answer",
    subject_to: Sequence[str] = (),
    seed: int = 0,
) -> Optimum:
    """
    Best deployment over choices and ranges.

    Parameters
    ----------
    scenario : Scenario or str
        The rest of the deployment.
    over : mapping
        Field to a list of choices, or to a range ``(low, high)`` of a number.
    minimise : str
        Predicted quantity to make small; with a minus in front, to make large.
    subject_to : sequence of str
        Constraints such as ``"ttft <= 0.5 s"``.
    seed : int
        Of the search.

    Raises
    ------
    InputError
        When nothing satisfies the constraints: how many of the sampled points each excludes.

    Notes
    -----
    Every combination of choices is sampled with the same Sobol points; the most promising are refined by differential
    evolution, all of a generation in one pass of the chain.

    References
    ----------
    .. [1] R. Storn and K. Price, "Differential evolution: a simple and efficient heuristic for global optimization over
       continuous spaces," J. Global Optim., vol. 11, pp. 341-359, 1997. doi:10.1023/A:1008202821328
    """
    scenario = load_scenario(scenario)
    quantity, sign = (minimise[1:], -1.0) if minimise.startswith("-") else (minimise, 1.0)
    ranges = {SHORTCUTS.get(f, f): _range(f, v) for f, v in over.items() if isinstance(v, tuple)}
    choices = {SHORTCUTS.get(f, f): v for f, v in over.items() if not isinstance(v, tuple)}
    sampled = dict(choices)
    if ranges:
        sampled["point"] = design.sobol(_SAMPLES, ranges, seed)
    plan = prepare(scenario, sampled)
    views.check(quantity, plan.variables, "minimise")
    constraints = tuple(views.constraint(text, plan.variables) for text in subject_to)

    arrays = plan.allocate()
    plan.fill(arrays)
    allowed = views.allowed(arrays, quantity, constraints, "optimise")
    costs = np.where(allowed, sign * arrays[quantity], np.inf).reshape(*(a.size for a in plan.axes[:len(choices)]), -1)
    best_of = costs.min(axis=-1)
    ranked = [np.unravel_index(i, best_of.shape) for i in np.argsort(best_of, axis=None)]
    ranked = [index for index in ranked if np.isfinite(best_of[index])]

    candidates, evaluated = [], plan.size
    for index in ranked[:_REFINED] if ranges else ranked[:2]:
        choice = {name: list(values)[i] for (name, values), i in zip(choices.items(), index, strict=True)}
        if not ranges:
            candidates.append(Candidate(choice, sign * float(best_of[index])))
            continue
        search = Search(_chosen(scenario, choice), choice, ranges, quantity, sign, constraints)
        start = np.argsort(costs[index], kind="stable")[:_POPULATION]
        refined, count = _refine(search, np.array([sampled["point"][f][start] for f in ranges]), seed)
        candidates.append(refined)
        evaluated += count
    candidates.sort(key=lambda c: sign * c.value)
    best, runner_up = candidates[0], candidates[1] if len(candidates) > 1 else None
    if runner_up is None and ranges:
        runner_up = _another(plan, costs, best, ranges, sign)
    prediction = predict(_chosen(scenario, best.fields))
    return Optimum(minimise, best, runner_up, _binding(scenario, best, prediction, ranges, constraints, quantity, sign),
                   prediction, evaluated)


_POPULATION = 40


def _range(field: str, given: tuple) -> tuple[float, float]:
    wanted = axes.unit(SHORTCUTS.get(field, field))
    if wanted is None or len(given) != 2:
        raise InputError(Fault(field, f"expected a range (low, high) of a number, got {given!r}",
                               "give choices as a list"))
    low, high = (units.quantity(value, wanted, field) for value in given)
    if not low < high:
        raise InputError(Fault(field, f"expected low < high, got {given!r}"))
    return low, high


def _whole(field: str) -> bool:
    return field == "serving.batch" or axes.unit(field) == "token"


def _chosen(scenario: Scenario, fields: Mapping[str, Any]) -> Scenario:
    return scenario.replace(dict(sorted(fields.items(), key=lambda item: item[0].count("."))))


def _refine(search: Search, start: np.ndarray, seed: int) -> tuple[Candidate, int]:
    """Best point of a combination's ranges, from its best samples."""
    from scipy.optimize import differential_evolution

    whole = [_whole(field) for field in search.ranges]
    found = differential_evolution(search.costs, list(search.ranges.values()), init=_at_least(start.T, search, seed),
                                   integrality=whole, vectorized=True, updating="deferred", polish=False, rng=seed,
                                   tol=1e-9, atol=0.0, maxiter=300)
    fields = {f: int(v) if w else float(v) for f, v, w in zip(search.ranges, found.x, whole, strict=True)}
    return Candidate(search.choice | fields, search.sign * float(found.fun)), found.nfev * start.shape[1]


def _at_least(start: np.ndarray, search: Search, seed: int) -> np.ndarray:
    """A population: the given points, filled up at random."""
    missing = _POPULATION - len(start)
    low, high = np.array(list(search.ranges.values())).T
    return np.vstack([start, low + (high - low) * np.random.default_rng(seed).random((missing, len(low)))])


def _another(plan, costs: np.ndarray, best: Candidate, ranges, sign: float) -> Candidate | None:
    """Best sample that is another deployment than the best one."""
    at = {f: values for f, values in plan.axes[-1].numeric.items()}
    apart = np.zeros(costs.shape[-1], bool)
    for f, (low, high) in ranges.items():
        apart |= np.abs(at[f] - best.fields[f]) > (0.5 if _whole(f) else _NEAR * (high - low))
    cost = np.where(apart, costs.reshape(-1, costs.shape[-1])[0], np.inf)
    i = int(np.argmin(cost))
    if not np.isfinite(cost[i]):
        return None
    return Candidate({f: int(v[i]) if _whole(f) else float(v[i]) for f, v in at.items()}, sign * float(cost[i]))


def _binding(scenario: Scenario, best: Candidate, p: Prediction, ranges, constraints, quantity: str, sign: float,
             ) -> tuple[str, ...]:
    """What a better deployment would have to cross; for whole numbers, what stops the next one."""
    values = dict(_flat(p.to_dict()))
    found = {c.text: "" for c in constraints if c.slack(values[c.quantity]) < _BINDS}
    for field, (low, high) in ranges.items():
        for end, name in ((low, "lowest"), (high, "highest")):
            if abs(best.fields[field] - end) <= 1e-6 * (high - low):
                found[f"{field} is at its {name}, {units.show(end, axes.unit(field) or '')}"] = ""
        if _whole(field):
            for value in (best.fields[field] + 1, best.fields[field] - 1):
                if low <= value <= high:
                    _stopped(scenario, best, field, value, constraints, quantity, sign, found)
    return tuple(f"{what}{where}" for what, where in found.items())


def _stopped(scenario, best: Candidate, field: str, value: int, constraints, quantity: str, sign: float, found) -> None:
    """Note what keeps a whole number from its neighbour, if the neighbour were better or does not fit."""
    try:
        p = predict(_chosen(scenario, best.fields | {field: value}))
    except InputError:
        return
    values = dict(_flat(p.to_dict()))
    if p.feasible is False:
        found[f"memory does not hold {field} {value}"] = ""
    elif sign * values.get(quantity, np.inf) < sign * best.value:
        for c in constraints:
            if not c.holds(values[c.quantity]):
                found.setdefault(c.text, f" at {field} {value}")


def _flat(plain: Mapping[str, Any], path: str = ""):
    for name, value in plain.items():
        full = f"{path}.{name}" if path and name != "value" else path or name
        if isinstance(value, Mapping):
            yield from _flat(value, full)
        elif isinstance(value, (int, float)):
            yield full, value


def shown(name: str, value: float, currency: str | None = None) -> str:
    """Value of a predicted quantity as text."""
    unit = unit_of(name, currency)
    return units.show(value, "" if unit == "1" else unit)


