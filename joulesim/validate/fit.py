"""
Fit of a runtime's constants on points: a hierarchical least-squares problem in logarithms. The door of scipy.

Every constant is shared by all devices, times a deviation of each device that a prior holds near one, so that a
device without records starts from what is shared and from its own datasheet.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from joulesim import catalogue, units
from joulesim.constants import UNITS, constants, full_power, idle_power
from joulesim.errors import Fault, InputError, did_you_mean
from joulesim.validate import evaluate
from joulesim.validate.evaluate import Group, Predicted
from joulesim.validate.points import Point

_STEP = 1e-2
"""Step of derivatives in a logarithm: wide beside the jumps of whole blocks and tiles, small beside what bends the chain."""
_HUBER = 1.5
"""Residuals beyond so many standard deviations count linearly."""


def scipy(part: str):
    """A part of scipy, which only fits need."""
    from importlib import import_module

    try:
        return import_module(f"scipy.{part}")
    except ImportError:
        raise InputError(Fault("scipy", "is not installed, and fits need it", "pip install 'joulesim[fit]'")) from None


class Parameter(NamedTuple):
    """One constant that a fit may move."""

    name: str
    experts: str | None
    """Kernel class it belongs to; ``None``: every model."""
    value: float
    spread: float
    device_spread: float
    low: float
    high: float
    relative: bool = False
    """Whether it multiplies the constant that a device starts from."""

    @property
    def label(self) -> str:
        """Name with its kernel class."""
        return f"{self.name} [{self.experts}]" if self.experts else self.name


class Plan(NamedTuple):
    """A declared fit: priors, noise, and which rows are left out by which rule."""

    runtime: str
    tables: tuple[str, ...]
    source: str
    """What the constants rest on, in a few words."""
    noise: dict[str, float]
    parameters: tuple[Parameter, ...]
    fixed: dict[str, float]
    rules: dict[str, str]
    downweighted: dict[str, dict[str, float]]
    """Weight of some quantities in classes of points, where it is not 1."""
    series_correlation: float = 0.0
    """Correlation of the noise of rows that were measured in one go (:meth:`Point.series`)."""

    def exclusion(self, point: Point) -> str | None:
        """Rule by which a point is left out of the fit and reported as a class of its own."""
        return next((name for name in self.rules if _RULES[name](point)), None)

    def weight(self, point: Point, quantity: str) -> float:
        """Weight of a quantity of a point."""
        return next((w.get(quantity, 1.0) for name, w in self.downweighted.items() if _JITTERY[name](point)), 1.0)


_RULES = {
    "flagged": lambda p: bool(p.flag),
    "over-committed": lambda p: p.max_batch is not None and p.batch < 0.95 * p.max_batch,
    "host-bound": lambda p: p.hardware == "b200-sxm" and p.devices == 1 and p.task == "gpqa"
    and p.model.startswith(("qwen3", "nemotron")),
}
_JITTERY = {"single B200": lambda p: p.hardware == "b200-sxm" and p.devices == 1}


def jittery(point: Point) -> bool:
    """Whether the step time of a point belongs to a class that is reported but not counted."""
    return any(rule(point) for rule in _JITTERY.values())


def _plans() -> Path:
    return catalogue.data_root() / "validation" / "fits"


def fitted_runtimes() -> list[str]:
    """Runtimes with a declared fit."""
    return sorted(path.stem for path in _plans().glob("*.yaml"))


@cache
def plan(runtime: str) -> Plan:
    """Declared fit of a runtime, from ``validation/fits``."""
    known = fitted_runtimes()
    if runtime not in known:
        raise InputError(Fault("--runtime", f"no fit of {runtime!r}", did_you_mean(runtime, known) or ", ".join(known)))
    table = catalogue.read_yaml(_plans() / f"{runtime}.yaml")
    bounds = table.get("bounds", {})

    def parameter(name: str, rule: Mapping[str, Any], experts: str | None) -> Parameter:
        low, high = bounds.get(name, (0.0, np.inf)) if experts is None else (0.0, np.inf)
        relative = bool(rule.get("relative"))
        value = float(rule["value"]) if relative else _number(name, rule["value"])
        return Parameter(name, experts, value, rule["spread"], rule.get("device_spread", 0.0), low, high, relative)

    declared = [parameter(name, rule, None) for name, rule in table["parameters"].items()]
    declared += [parameter(name, rule, kernel) for kernel, rules in table.get("experts", {}).items()
                 for name, rule in rules.items()]
    return Plan(
        table["runtime"], tuple(table["tables"]), table["source"], table["noise"], tuple(declared),
        {name: _number(name, rule["value"]) for name, rule in table.get("fixed", {}).items()},
        table.get("excluded", {}), table.get("downweighted", {}), table.get("series_correlation", 0.0),
    )


def _number(name: str, value) -> float:
    return units.parse(value, UNITS.get(name, "")) if isinstance(value, str) else float(value)


@dataclass(frozen=True)
class FitResult:
    """Fitted constants, how well they are known, and what the data could not tell."""

    plan: Plan
    devices: tuple[str, ...]
    shared: np.ndarray
    """Logarithm of each parameter, shared over devices."""
    deviations: np.ndarray
    """Logarithm of each device's deviation, device by parameter; 0 where a parameter has none."""
    covariance: np.ndarray
    """Covariance of the free logarithms, in the order of :meth:`free`."""
    records_hash: str
    cost: float
    evaluations: int

    def values(self, group: Group) -> dict[str, float]:
        """Chain constants of a group."""
        return {name: float(np.atleast_1d(column)[0]) for name, column in columns(self, group, derivatives=False).items()}

    def free(self) -> list[str]:
        """Labels of the free logarithms: shared parameters, then deviations."""
        labels = [p.label for p in self.plan.parameters]
        return labels + [f"{p.label} @ {device}" for device in self.devices for p in self.plan.parameters if p.device_spread]

    def errors(self) -> np.ndarray:
        """Standard error of each free logarithm."""
        return np.sqrt(np.diag(self.covariance))

    def notes(self) -> list[str]:
        """What is at a bound, what the data leave at its prior, and which parameters they cannot tell apart."""
        lines = []
        errors = self.errors()
        for i, p in enumerate(self.plan.parameters):
            value = np.exp(self.shared[i])
            if value <= p.low * 1.001 or value >= p.high * 0.999:
                lines.append(f"{p.label}: at its bound {value:.3g}")
            elif abs(self.shared[i] - np.log(p.value)) > 2.9 * p.spread:
                lines.append(f"{p.label}: three prior spreads from its prior ({value:.3g} against {p.value:.3g})")
            if errors[i] > 0.9 * p.spread:
                lines.append(f"{p.label}: the data do not identify it; it keeps its prior")
        scale = np.outer(errors, errors)
        correlation = self.covariance / np.where(scale > 0, scale, 1.0)
        labels = self.free()
        count = len(self.plan.parameters)
        for i in range(count):
            for j in range(i):
                if abs(correlation[i, j]) > 0.8:
                    lines.append(f"{labels[j]} and {labels[i]}: correlated {correlation[i, j]:+.2f}")
        return lines


def records_hash(points: Sequence[Point]) -> str:
    """Hash of the points that a fit read, order included."""
    text = json.dumps([list(p) for p in points], default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def columns(result: FitResult, group: Group, derivatives: bool = True) -> dict[str, np.ndarray]:
    """
    Chain constants of a group: the fitted value first, then one column a parameter with that parameter raised.

    A deviation raises a constant just as the shared parameter does, so its derivative is the same column.
    """
    plan_ = result.plan
    device = group.scenario.hardware.name
    row = result.deviations[result.devices.index(device)] if device in result.devices else 0.0
    logs = result.shared + row
    count = len(logs) if derivatives else 0
    stacked: dict[str, np.ndarray] = {name: np.array([value]) for name, value in plan_.fixed.items()}
    shift = np.zeros((len(logs), 1 + count))
    if derivatives:
        shift[np.arange(count), 1 + np.arange(count)] = _STEP
    starting = _start(group.scenario)
    for i, p in enumerate(plan_.parameters):
        if p.experts is None or p.experts == group.expert_class:
            stacked[p.name] = np.exp(logs[i] + shift[i]) * (starting[p.name].value if p.relative else 1.0)
    return _chain_constants(group, stacked, starting)


def _chain_constants(group: Group, stacked: dict[str, np.ndarray], starting) -> dict[str, np.ndarray]:
    """Constants as the chain takes them: shares turned into watts with the datasheet, the rest as they start."""
    found: dict[str, Any] = {name: c.value for name, c in starting.items()} | stacked
    idle = idle_power(group.scenario.hardware).value
    if "static_share" in stacked:
        found["static_power"] = stacked["static_share"] * idle
    if "active_share" in stacked:
        found["active_power"] = stacked["active_share"] * (full_power(group.scenario.hardware) - idle)
    found["time_residual"] = found["power_residual"] = 1.0
    return found


def _start(scenario):
    return constants(scenario.hardware, scenario.runtime, None, use_fitted=False)


def fit(points: Sequence[Point], plan_: Plan, start: FitResult | None = None, frozen: Mapping[str, float] | None = None,
        evaluations: int = 40) -> FitResult:
    """
    Constants that explain points best, given their priors.

    Parameters
    ----------
    points : sequence of Point
        What was measured; rows that a rule of the plan excludes must not be among them.
    plan_ : Plan
        Priors, noise and weights.
    start : FitResult, optional
        Where to start from.
    frozen : mapping, optional
        Labels of parameters held at a value.
    evaluations : int
        Most evaluations of the chain.

    Notes
    -----
    Minimises pseudo-Huber residuals of the logarithms of step time, energy and power against their noise, and the
    priors. Rows of one series share part of their error (one node, one server), so that ten of them do not say ten
    times as much: :class:`_Series`.

    References
    ----------
    .. [1] A. Gelman and J. Hill, "Data Analysis Using Regression and Multilevel/Hierarchical Models," Cambridge, 2006.
    """
    least_squares = scipy("optimize").least_squares
    groups = evaluate.gather(points)
    devices = tuple(dict.fromkeys(p.hardware for p in points))
    problem = _Problem(points, groups, plan_, devices, frozen or {})
    first = problem.start(start)
    solution = least_squares(problem.residuals, first, jac=problem.jacobian, bounds=(problem.low, problem.high),
                             max_nfev=evaluations, x_scale=problem.scale, xtol=1e-6, ftol=1e-6)
    jacobian = problem.jacobian(solution.x)
    covariance = np.linalg.pinv(jacobian.T @ jacobian)
    shared, deviations = problem.split(solution.x)
    return FitResult(plan_, devices, shared, deviations, covariance, records_hash(points), float(solution.cost),
                     int(solution.nfev))


class _Problem:
    """Residuals and their derivatives in the free logarithms."""

    def __init__(self, points, groups, plan_: Plan, devices, frozen):
        self.points, self.groups, self.plan, self.devices = points, groups, plan_, devices
        self.count = len(plan_.parameters)
        self.varying = [i for i, p in enumerate(plan_.parameters) if p.device_spread]
        prior = np.log([frozen.get(p.label, p.value) for p in plan_.parameters])
        spread = np.array([1e-3 if p.label in frozen else p.spread for p in plan_.parameters])
        device_spread = np.array([plan_.parameters[i].device_spread for i in self.varying])
        self.mean = np.concatenate([prior, np.zeros(len(devices) * len(self.varying))])
        self.scale = np.concatenate([spread, np.tile(device_spread, len(devices))])
        self.low, self.high = self.mean - 3 * self.scale, self.mean + 3 * self.scale
        for i, p in enumerate(plan_.parameters):
            self.low[i] = max(self.low[i], np.log(p.low) if p.low > 0 else -np.inf)
            self.high[i] = min(self.high[i], np.log(p.high) if np.isfinite(p.high) else np.inf)
        weight = {q: np.array([plan_.weight(p, q) for p in points]) / noise for q, noise in plan_.noise.items()}
        self.weights = np.stack([weight["time"], 0.8 * weight["energy"], 0.8 * weight["power"]])
        measured = np.array([[p.batch / (p.output_throughput or np.nan), p.energy_per_token, p.power] for p in points], float)
        self.measured = np.log(measured.T)
        self.weights = np.where(np.isnan(self.measured), 0.0, self.weights)  # what a row does not say weighs nothing
        self.measured = np.nan_to_num(self.measured)
        self.series = _Series([p.series() for p in points], self.weights > 0, plan_.series_correlation)
        self._at: np.ndarray | None = None

    def start(self, result: FitResult | None) -> np.ndarray:
        first = self.mean.copy()
        if result is not None:
            first[: self.count] = result.shared
            for d, device in enumerate(self.devices):
                if device in result.devices:
                    at = self.count + d * len(self.varying)
                    first[at: at + len(self.varying)] = result.deviations[result.devices.index(device)][self.varying]
        return np.clip(first, self.low + 1e-6, self.high - 1e-6)

    def split(self, theta) -> tuple[np.ndarray, np.ndarray]:
        deviations = np.zeros((len(self.devices), self.count))
        deviations[:, self.varying] = theta[self.count:].reshape(len(self.devices), len(self.varying))
        return theta[: self.count], deviations

    def _evaluate(self, theta) -> None:
        if self._at is not None and np.array_equal(theta, self._at):
            return
        shared, deviations = self.split(theta)
        result = FitResult(self.plan, self.devices, shared, deviations, np.empty((0, 0)), "", 0.0, 0)
        rows = len(self.points)
        logs = np.empty((3, rows))
        slopes = np.zeros((3, rows, len(theta)))
        for group in self.groups:
            found = evaluate.predict(group, columns(result, group))
            device = self.devices.index(group.scenario.hardware.name)
            for k, value in enumerate((group.inputs.batch / found.throughput, found.energy, found.power)):
                table = np.log(value)
                logs[k, group.rows] = table[:, 0]
                slope = (table[:, 1:] - table[:, :1]) / _STEP
                slopes[k][group.rows, : self.count] = slope
                at = self.count + device * len(self.varying)
                slopes[k][group.rows, at: at + len(self.varying)] = slope[:, self.varying]
        bent, bend = _pseudo_huber(self.series.whitened((logs - self.measured) * self.weights))
        jacobian = self.series.whitened(slopes * self.weights[:, :, None]) * bend[:, :, None]
        self._residuals = np.concatenate([bent.ravel(), (theta - self.mean) / self.scale])
        self._jacobian = np.vstack([jacobian.reshape(-1, len(theta)), np.diag(1.0 / self.scale)])
        self._at = theta.copy()

    def residuals(self, theta) -> np.ndarray:
        self._evaluate(theta)
        return self._residuals

    def jacobian(self, theta) -> np.ndarray:
        self._evaluate(theta)
        return self._jacobian


class _Series:
    r"""
    Rows whose noise is correlated, whitened.

    With correlation :math:`\rho` between any two rows of a series of :math:`n`, what is left of a row after taking
    :math:`1 - \sqrt{(1 - \rho) / (1 - \rho + n \rho)}` of its series' mean from it is uncorrelated, with variance
    :math:`1 - \rho`.

    References
    ----------
    .. [1] W. A. Fuller and G. E. Battese, "Transformations for estimation of linear models with nested-error
       structure," J. Am. Stat. Assoc. 68(343), 1973.
    """

    def __init__(self, keys: Sequence[tuple], present: np.ndarray, correlation: float):
        numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        self.member = np.eye(len(numbers))[[numbers[key] for key in keys]]
        self.present = present
        count, own = present @ self.member, 1.0 - correlation
        self.taken = (1.0 - np.sqrt(own / (own + count * correlation))) / np.maximum(count, 1.0)
        self.scale = np.sqrt(own)

    def whitened(self, values: np.ndarray) -> np.ndarray:
        """Values (quantity, row, any more) with the noise of the rows that are present uncorrelated."""
        tail = (1,) * (values.ndim - 2)
        sums = np.einsum("rs,qr...->qs...", self.member, values, optimize=True)
        shared = np.einsum("rs,qs...->qr...", self.member, sums * self.taken.reshape(*self.taken.shape, *tail), optimize=True)
        return (values - shared) * self.present.reshape(*self.present.shape, *tail) / self.scale


def _pseudo_huber(z):
    """Residual whose square is the pseudo-Huber loss, and its derivative."""
    root = np.sqrt(1.0 + (z / _HUBER) ** 2)
    bent = np.sign(z) * _HUBER * np.sqrt(2.0 * (root - 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(np.abs(z) > 1e-9, z / (root * bent), 1.0)
    return bent, slope


def predict_points(result: FitResult, points: Sequence[Point]) -> Predicted:
    """Predictions of points under fitted constants."""
    found = np.full((4, len(points)), np.nan)
    for group in evaluate.gather(points):
        values = evaluate.predict(group, columns(result, group, derivatives=False))
        for k, value in enumerate(values):
            found[k, group.rows] = value[:, 0]
    return Predicted(*found)
