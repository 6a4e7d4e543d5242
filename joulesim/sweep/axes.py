"""What is swept: dimensions, the fields along each, and their values in canonical units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from joulesim import catalogue, units
from joulesim.constants import UNITS
from joulesim.errors import Fault, InputError, did_you_mean
from joulesim.scenario import SHORTCUTS, Scenario
from joulesim.specs.base import Spec, fields_at, unit_of

_LENGTHS = ("workload.prompt_tokens", "workload.output_tokens", "workload.shared_prefix_tokens",
            "workload.thinking_tokens")
_COUNTS = ("serving.batch", "task.correct")
_PRICES = ("prices.carbon", "prices.pue", "prices.lifetime", "prices.embodied")
_LOADERS = {
    "hardware": catalogue.load_hardware, "runtime": catalogue.load_runtime, "model": catalogue.load_model,
    "weights": catalogue.load_format, "kv_cache": catalogue.load_format,
}


@dataclass(frozen=True)
class Axis:
    """One dimension of a sweep."""

    name: str
    size: int
    numeric: dict[str, np.ndarray] = field(default_factory=dict)
    """Values of fields that go through the chain as arrays. [SI]"""
    discrete: dict[str, list] = field(default_factory=dict)
    """Values of fields that are resolved one by one."""
    labels: dict[str, list] = field(default_factory=dict)
    """Those values as they were written."""

    def part(self, at: slice) -> Axis:
        """A piece of the dimension."""
        return Axis(self.name, at.stop - at.start, {f: v[at] for f, v in self.numeric.items()},
                    {f: v[at] for f, v in self.discrete.items()}, {f: v[at] for f, v in self.labels.items()})

    def runs(self) -> list[tuple[int, int, dict[str, Any]]]:
        """Stretches of the dimension over which every discrete field keeps its value."""
        if not self.discrete:
            return [(0, self.size, {})]
        rows = list(zip(*self.discrete.values(), strict=True))
        starts = [i for i in range(self.size) if i == 0 or any(a is not b and (isinstance(a, Spec) or a != b)
                                                              for a, b in zip(rows[i - 1], rows[i], strict=True))]
        return [(start, stop, dict(zip(self.discrete, rows[start], strict=True)))
                for start, stop in zip(starts, [*starts[1:], self.size], strict=True)]


def id_of(value: Any) -> str:
    """Text that tells a swept value from another: the name of a spec, else the value as written."""
    return value.name if hasattr(value, "name") else str(value)


def _label(value: Any) -> Any:
    return "as stored" if value is None else value if isinstance(value, (int, float)) else id_of(value)


def unit(name: str) -> str | None:
    """Canonical unit of a field whose values go through the chain as an array; ``None`` for any other field."""
    head, _, rest = name.partition(".")
    if head == "constants":
        return UNITS.get(rest)
    if name in _COUNTS:
        return ""
    if name in _LENGTHS:
        return "token"
    if head == "hardware" or name in ("power_cap", "serving.utilisation", "task.attempts_per_answer", *_PRICES):
        return "" if name == "prices.pue" else unit_of(Scenario, name)
    return unit_of(Scenario, name) if name.startswith("runtime.overheads.") else None


def read(over: Mapping[str, Any], scenario: Scenario, text: bool = False) -> list[Axis]:
    """
    Dimensions of a sweep.

    Parameters
    ----------
    over : mapping
        Field to values; or a name of your own to a mapping of fields that change together along one dimension.
    scenario : Scenario
        The rest of the deployment.
    text : bool
        Whether values come from text, where a quantity needs its unit.

    Raises
    ------
    InputError
        With one line for each field that does not exist or does not take one of its values.
    """
    if not isinstance(over, Mapping) or not over:
        raise InputError(Fault("over", "expected a mapping of fields to values, got nothing to sweep",
                               'e.g. over={"serving.batch": [1, 8]}'))
    faults, found, seen = [], [], set()
    for name, values in over.items():
        fields = values if isinstance(values, Mapping) else {name: values}
        columns, labels = {}, {}
        for given, column in fields.items():
            try:
                full = _field(given)
                if full in seen:
                    raise InputError(Fault(given, "expected each field once, got it along two dimensions"))
                seen.add(full)
                column = _listed(given, column)
                columns[full] = _values(given, full, column, scenario, text)
                labels[full] = list(map(_label, column)) if isinstance(columns[full], list) else []
            except InputError as error:
                faults += error.faults
        sizes = {full: len(column) for full, column in columns.items()}
        if len(set(sizes.values())) > 1:
            counts = ", ".join(f"{n} of {full}" for full, n in sizes.items())
            faults.append(Fault(name, f"expected as many values of each field along one dimension, got {counts}"))
        elif sizes:
            numeric = {f: v for f, v in columns.items() if isinstance(v, np.ndarray)}
            discrete = {f: v for f, v in columns.items() if f not in numeric}
            found.append(Axis(name, next(iter(sizes.values())), numeric, discrete, {f: labels[f] for f in discrete}))
    if faults:
        raise InputError(faults)
    return _with_distributions(found, scenario)


def _exists(name: str) -> bool:
    head = SHORTCUTS.get(name, name).partition(".")[0]
    return head in Scenario.model_fields or head == "constants"


def _field(given: str) -> str:
    """Full name of a field."""
    full = SHORTCUTS.get(given, given)
    head, _, rest = full.partition(".")
    if head == "constants" and rest not in UNITS:
        raise InputError(Fault(given, "no such constant", did_you_mean(rest, UNITS)))
    if not _exists(given):
        raise InputError(Fault(given, "no such field", did_you_mean(given, [*Scenario.model_fields, *SHORTCUTS])))
    *parents, last = full.split(".")
    known = fields_at(Scenario, parents) if head != "constants" else []
    if known and last not in known:
        raise InputError(Fault(given, "no such field", did_you_mean(last, known)))
    return full


def _listed(given: str, values: Any):
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        raise InputError(Fault(given, f"expected a list of values, got {values!r}"))
    values = values if isinstance(values, np.ndarray) else list(values)
    if len(values) == 0:
        raise InputError(Fault(given, "expected at least one value, got an empty range"))
    return values


def _values(given: str, full: str, values: Any, scenario: Scenario, text: bool):
    """Array of a numeric field, list of any other; numbers are known to be ones that the field takes."""
    wanted = unit(full)
    numbers = isinstance(values, np.ndarray) or not any(v is None or isinstance(v, (Mapping, Spec)) for v in values)
    if wanted is None or not numbers:
        load = cache(lambda v: _loaded(full, v, scenario, text))
        return [load(v) if isinstance(v, str) else _loaded(full, v, scenario, text) for v in values]
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiu":
        column = values.astype(float)
    else:
        text_only = text and wanted not in ("", "token")
        column = np.array([_number(v, wanted, given, text_only) for v in values])
    if not full.startswith("constants."):
        try:
            for value in _telling(column):
                scenario.replace({full: value})
        except InputError as error:
            raise InputError([Fault(given, fault.what, fault.remedy) for fault in error.faults]) from None
    elif not np.all(np.isfinite(column)):
        raise InputError(Fault(given, "expected finite values"))
    return column


def _number(value: Any, wanted: str, where: str, text_only: bool) -> float:
    if wanted == "token" and isinstance(value, str) and value.strip().isdigit():
        return float(value)
    return units.quantity(value, wanted, where, text_only)


def _telling(column: np.ndarray) -> list[float]:
    """Values that break a rule of the field if any of the column does."""
    odd = column[column != np.floor(column)][:1]
    return [float(v) for v in (*odd, np.min(column), np.max(column))]


def _loaded(full: str, value: Any, scenario: Scenario, text: bool) -> Any:
    load = _LOADERS.get(full)
    return value if load is None or value is None else load(value, base=scenario._base, text=text)


def _with_distributions(axes: list[Axis], scenario: Scenario) -> list[Axis]:
    """Distributed lengths are integrated request by request, so what meets them is resolved one by one."""
    swept = {f: values for axis in axes for f, values in axis.discrete.items()}
    distributed = any(isinstance(v, (Mapping, Spec)) for f in _LENGTHS for v in
                      (swept[f] if f in swept else [getattr(scenario.workload, f.partition(".")[2])]))
    if not distributed:
        return axes
    meets = (*_LENGTHS, "serving.batch")
    return [Axis(a.name, a.size, {f: v for f, v in a.numeric.items() if f not in meets},
                 a.discrete | (whole := {f: v.tolist() for f, v in a.numeric.items() if f in meets}), a.labels | whole)
            for a in axes]
