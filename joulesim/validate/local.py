r"""
Constants of the machine in front of you, from records of single calls.

A call of :math:`N` rows takes

.. math::
   t = s^\gamma \Big[t_0 + \ell\,(t_L + N w\,t_w) + \sum_m c_f(N)\,N\,r_m (k_m + k_f)
       + \frac{4\,\ell\,h\,d\,\sum p}{a(n)}\Big] + s^\delta \sigma\,\frac{B^2}{B + B_0}

with layers :math:`\ell` of width :math:`w`, matrices :math:`m` of :math:`r_m` rows and :math:`k_m` columns in format
:math:`f`, weight bytes :math:`B` of which about :math:`B_0` stay in a cache, query heads :math:`h` of :math:`d`
channels and positions :math:`p` looked at. :math:`s` is how much slower than at its best the core was just then, by a
probe beside each repeat (1 with wall time); arithmetic and memory traffic each follow a power of it.
:math:`c_f(N)` is a table over rows a call, :math:`a(n)` one over rows a sequence, both log-log interpolated: kernels
change with the number of rows, so one efficiency a format is off by 14 % in the median where a table is off by 3 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from joulesim.errors import Fault, InputError
from joulesim.measure.record import Record, content_hash

ROWS = (1, 2, 4, 8, 16, 32, 64, 512)
"""Rows of a call at which the table of each format has an entry."""
QUERIES = (1, 8, 32, 64, 512)
"""Rows of a sequence at which the attention rate has an entry."""
_COMMON = ("per_call", "per_layer", "per_layer_row_channel", "per_sequence_layer", "stream", "resident_bytes",
           "core_exponent", "stream_exponent")
BITS = {"f32": 32, "f16": 16, "bf16": 16, "q8_0": 8.5, "q6_k": 6.5625, "q5_k": 5.5, "q5_0": 5.5, "q5_1": 6,
        "q4_k": 4.5, "q4_0": 4.5, "q4_1": 5, "q3_k": 3.4375, "q2_k": 2.625, "iq4_xs": 4.25, "iq4_nl": 4.5}
"""Bits a stored weight takes; another format counts as 8."""
_PRIOR = {"per_call": (2e-5, 1.0), "per_layer": (5e-6, 1.0), "per_layer_row_channel": (5e-10, 2.0),
          "per_sequence_layer": (1e-6, 1.0), "stream": (5e-11, 1.0), "resident_bytes": (2e7, 1.5),
          "table": (3e-11, 2.0), "attention": (8e-11, 2.0),
          "extra_columns": (30.0, 1.5), "core_exponent": (0.8, 0.4), "stream_exponent": (0.3, 0.7)}
"""Start and spread of the logarithm of each constant; wide, and beaten by any record that says something."""
_NOISE = 0.05
"""Scatter of the logarithm that a record is trusted to."""
_NEIGHBOURS = 0.5
"""Spread of the step of a table from one entry to the next, about halving the time a row."""


@dataclass(frozen=True)
class Points:
    """Calls as arrays: one entry a call, and one a matrix of a call."""

    time: np.ndarray
    """Best estimate over the rounds. [s]"""
    rounds: list[list[float]]
    """The same, round by round. [s]"""
    records: list[Record]
    """The first record of each."""
    layers: np.ndarray
    rows: np.ndarray
    sequences: np.ndarray
    queries: np.ndarray
    passes: np.ndarray
    element_work: np.ndarray
    positions: np.ndarray
    """Query heads times channels times positions, over all layers."""
    bytes: np.ndarray
    slowness: np.ndarray
    """Core probe over the best one of all records; 1 without. [1]"""
    owner: np.ndarray
    """Call that a matrix belongs to."""
    matrix_format: np.ndarray
    matrix_rows: np.ndarray
    """Rows of the matrix, times how many there are."""
    matrix_columns: np.ndarray
    matrix_batch: np.ndarray
    """Rows of the call that it multiplies."""

    def __len__(self) -> int:
        return len(self.time)

    def where(self, keep: Sequence[bool]) -> Points:
        """Some of the calls."""
        keep = np.asarray(keep, bool)
        number = np.cumsum(keep) - 1
        mine = keep[self.owner]
        return Points(**{
            name: [v for v, k in zip(value, keep, strict=True) if k] if isinstance(value, list) else value[keep]
            for name, value in vars(self).items() if name != "owner" and not name.startswith("matrix_")
        }, owner=number[self.owner[mine]], **{name: value[mine] for name, value in vars(self).items()
                                              if name.startswith("matrix_")})

    def of(self, test) -> Points:
        """Calls whose record passes a test."""
        return self.where([test(record) for record in self.records])

    @property
    def formats(self) -> list[str]:
        """Formats of their matrices."""
        return sorted(set(self.matrix_format))


def points(records: Iterable[Record]) -> Points:
    """
    Calls in records, the rounds of each joined. Invalid and modelled ones are left out.

    The median of the repeats counts; of several rounds in CPU time the fastest, which a neighbour can only slow down.
    """
    joined: dict[str, list[Record]] = {}
    for record in records:
        usable = "call" in record.scenario and record.validity.verdict != "invalid" and record.latency.e2e_latency
        if usable and record.campaign and record.campaign.role in ("fit", "test"):  # drift and idle are not points
            joined.setdefault(record.campaign.point, []).append(record)
    if not joined:
        fault = Fault("records", "expected calls that were measured, got none", "run `joulesim validate local` first")
        raise InputError(fault)
    columns: dict[str, list] = {name: [] for name in Points.__dataclass_fields__}
    best = min((r.state.core_probe for group in joined.values() for r in group if r.state.core_probe), default=None)
    for group in joined.values():
        _add(columns, group, best)
    return Points(**{name: value if name in ("rounds", "records") else np.array(value)
                     for name, value in columns.items()})


def _add(columns: dict[str, list], group: list[Record], best: float | None) -> None:
    """Append a call to the columns; ``best`` is the shortest core probe."""
    owner, times = len(columns["time"]), [record.latency.e2e_latency.median for record in group]
    first = group[int(np.argmin(times))] if group[0].clock == "cpu" else group[0]
    call, model = first.scenario["call"], first.scenario["model"]
    model = {**_of_shape(model.get("shape"), first.scenario["weights"]), **model}
    rows = call["sequences"] * call["tokens"]
    outputs = rows if call["phase"] == "chunk" else call["sequences"]
    microbatch = first.runtime.settings.get("microbatch") or 512
    passes = -(-rows // microbatch)
    looked = call["sequences"] * call["tokens"] * (call["depth"] + (call["tokens"] + 1) / 2)
    stored = 0.0
    share = (model.get("experts_used") or 1) / (model.get("experts") or 1)
    for place, height, width, kind, count in model["matrices"]:
        if place == "embedding" or kind == "f32":
            continue
        batch = outputs if place == "output" else rows / passes
        times_used = count * (1 if place == "output" else passes) * (share if model.get("experts") else 1)
        columns["owner"].append(owner)
        columns["matrix_format"].append(kind)
        columns["matrix_rows"].append(height * times_used)
        columns["matrix_columns"].append(width)
        columns["matrix_batch"].append(batch)
        stored += height * width * times_used * BITS.get(kind, 8) / 8
    for name, value in (
        ("time", min(times) if first.clock == "cpu" else float(np.median(times))),
        ("slowness", first.state.core_probe / best if best and first.state.core_probe else 1.0),
        ("rounds", times), ("records", first),
        ("layers", model["layers"]), ("rows", rows), ("sequences", call["sequences"]), ("queries", call["tokens"]),
        ("passes", passes), ("element_work", model["layers"] * rows * model["width"]),
        ("positions", model["layers"] * model["heads"] * model["head_dim"] * looked), ("bytes", stored),
    ):
        columns[name].append(value)


def _of_shape(shape: dict[str, Any] | None, weights: str) -> dict[str, Any]:
    """Sizes of a synthetic model of which only the shape is known, as in a dry run."""
    if not shape:
        return {}
    head_dim = shape.get("head_dim") or shape["width"] // shape["heads"]
    width, layers = shape["width"], shape["layers"]
    queries, keys = shape["heads"] * head_dim, shape["kv_heads"] * head_dim
    matrices = [("output", shape["vocabulary"], width, weights, 1), ("layer", queries, width, weights, layers),
                ("layer", keys, width, weights, 2 * layers), ("layer", width, queries, weights, layers),
                ("layer", shape["ffn"], width, weights, 2 * layers), ("layer", width, shape["ffn"], weights, layers)]
    return {**shape, "head_dim": head_dim, "matrices": matrices}


class Constant(NamedTuple):
    """A fitted number."""

    name: str
    value: float
    stderr: float
    """Standard error of the logarithm."""
    identified: bool
    """The records say more about it than the prior."""


@dataclass(frozen=True)
class LocalFit:
    """Constants fitted on calls, and the split they were fitted under."""

    names: list[str]
    logs: np.ndarray
    covariance: np.ndarray
    formats: list[str]
    scatter: float
    """Standard deviation of the logarithm of what is left. [1]"""
    records_hash: str

    def predict(self, calls: Points, strange: str | None = None) -> np.ndarray:
        """Time of calls; a format that was not fitted, or ``strange``, is the geometric mean of the others. [s]"""
        return _times(self.logs, self.names, self.formats, calls, strange)

    def constants(self) -> list[Constant]:
        """Fitted numbers with their errors."""
        errors = np.sqrt(np.diag(self.covariance))
        return [Constant(name, float(np.exp(log)), float(error), bool(error < 0.6 * _prior(name)[1]))
                for name, log, error in zip(self.names, self.logs, errors, strict=True)]


def fit(calls: Points | Iterable[Record], effort: int = 80) -> LocalFit:
    """
    Constants of the machine from calls, or from the records of a campaign without those that it set aside.

    The residual is that of the logarithm, so a small call weighs as much as a large one; a soft loss keeps a few
    disturbed records from pulling. ``effort`` bounds the steps of the search.
    """
    from scipy.optimize import least_squares

    if not isinstance(calls, Points):
        calls = points(calls).of(lambda record: record.campaign.role == "fit")
    formats = calls.formats
    names = [*_COMMON, *(f"attention@{n}" for n in QUERIES),
             *(f"{kind}@{n}" for kind in formats for n in ROWS), *(f"{kind}:extra_columns" for kind in formats)]
    start = np.log([_prior(name)[0] for name in names])
    spread = np.array([_prior(name)[1] for name in names])
    steps = [(names.index(f"{kind}@{a}"), names.index(f"{kind}@{b}"))
             for kind in (*formats, "attention") for a, b in _pairs(QUERIES if kind == "attention" else ROWS)]
    low, high = np.array(steps).T
    design = _design(names, formats, calls)

    def residuals(logs):
        with np.errstate(over="ignore"):  # a step far out is taken back
            modelled = np.log(_evaluate(logs, design, calls) / calls.time) / _NOISE
        return np.concatenate([modelled, (logs - start) / spread, (logs[high] - logs[low]) / _NEIGHBOURS])

    found = least_squares(residuals, start, loss="soft_l1", f_scale=2.0, max_nfev=effort, x_scale="jac")
    left = np.log(_evaluate(found.x, design, calls) / calls.time)
    scatter = float(np.sqrt(np.mean(np.clip(left, -0.5, 0.5) ** 2)))
    jacobian = found.jac.copy()
    jacobian[:len(calls)] *= _NOISE / max(scatter, 0.005)
    covariance = np.linalg.pinv(jacobian.T @ jacobian)
    return LocalFit(names, found.x, covariance, formats, scatter, content_hash([r.hash for r in calls.records]))


def _pairs(knots: Sequence[int]):
    return zip(knots, knots[1:], strict=False)


def _prior(name: str) -> tuple[float, float]:
    kind = "extra_columns" if name.endswith("extra_columns") else "attention" if name.startswith("attention") else name
    return _PRIOR.get(kind, _PRIOR["table"])


class _Design(NamedTuple):
    """Where each call and matrix finds its constants."""

    common: np.ndarray
    attention: tuple[np.ndarray, np.ndarray, np.ndarray]
    table: tuple[np.ndarray, np.ndarray, np.ndarray]
    """Places of the two entries around a matrix's rows [matrix, format], and the weight of the upper."""
    extra: np.ndarray
    """Place of the extra columns. [matrix, format]"""


def _between(knots: Sequence[int], values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Entry below a value and the logarithmic weight of the one above."""
    x = np.log(np.clip(values, knots[0], knots[-1]))
    at = np.clip(np.searchsorted(np.log(knots), x, "right") - 1, 0, len(knots) - 2)
    low, high = np.log(np.array(knots))[at], np.log(np.array(knots))[at + 1]
    return at, (x - low) / (high - low)


def _design(names: list[str], formats: list[str], calls: Points, strange: str | None = None) -> _Design:
    place = {name: i for i, name in enumerate(names)}
    known = [kind for kind in formats if kind != strange]
    of_matrix = [known if kind not in known else [kind] * len(known) for kind in calls.matrix_format]
    at, weight = _between(ROWS, calls.matrix_batch)
    pairs = list(zip(of_matrix, at, strict=True))
    low = np.array([[place[f"{kind}@{ROWS[i]}"] for kind in kinds] for kinds, i in pairs])
    high = np.array([[place[f"{kind}@{ROWS[i + 1]}"] for kind in kinds] for kinds, i in pairs])
    extra = np.array([[place[f"{kind}:extra_columns"] for kind in kinds] for kinds in of_matrix])
    q, q_weight = _between(QUERIES, calls.queries)
    attention = np.array([place[f"attention@{n}"] for n in QUERIES])
    return _Design(np.array([place[name] for name in _COMMON]), (attention[q], attention[q + 1], q_weight),
                   (low, high, weight[:, None]), extra)


def _times(logs, names, formats, calls: Points, strange: str | None) -> np.ndarray:
    return _evaluate(logs, _design(names, formats, calls, strange), calls)


def _evaluate(logs: np.ndarray, design: _Design, calls: Points) -> np.ndarray:
    per_call, per_layer, per_element, per_sequence, stream, resident, core, streaming = np.exp(logs[design.common])
    low, high, weight = design.table
    per_weight = np.exp(((1 - weight) * logs[low] + weight * logs[high]).mean(axis=1))
    columns = calls.matrix_columns + np.exp(logs[design.extra].mean(axis=1))
    products = np.bincount(calls.owner, per_weight * calls.matrix_batch * calls.matrix_rows * columns, len(calls))
    a_low, a_high, a_weight = design.attention
    attention = np.exp((1 - a_weight) * logs[a_low] + a_weight * logs[a_high]) * 4 * calls.positions
    working = (per_call + per_layer * calls.layers * calls.passes + per_element * calls.element_work
               + per_sequence * calls.layers * calls.sequences + products + attention)
    return (calls.slowness**core * working
            + calls.slowness**streaming * stream * calls.bytes**2 / (calls.bytes + resident))
