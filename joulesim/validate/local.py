r"""
Constants of the machine in front of you, from records of single calls.

A call of :math:`N` rows takes

.. math::
   t = s_a^\alpha s_m^\mu \Big[t_0 + \ell\,(q\,t_L + b\,t_b) + \ell N \sum_e c_e t_e
       + \sum_m W_f(N)\,r_m (k_m + k_f) + \ell\,h\,a_d(n) \sum p\Big]
       + s_m^\delta \Big[\sigma\,\frac{B^2}{B + B_0} + \pi\,h\,b\,q\,\ell C \max\Big(0, 1 - \frac{C_0}{C}\Big)\Big]

with layers :math:`\ell`, sequences :math:`b`, passes :math:`q` of a microbatch each, matrices :math:`m` of :math:`r_m` rows
and :math:`k_m` columns in format :math:`f`, bytes :math:`B` of weights, cache and logits of which about :math:`B_0` stay in a
last-level cache, query heads :math:`h` of :math:`d` channels, positions :math:`p` looked at, and :math:`c_e` channels that a
layer normalises or gates.

A head's keys and values lie between those of other heads, so each head passes over the :math:`C` bytes that a layer has of
a sequence, and beyond the :math:`C_0` of a second-level cache it fetches them again. Step times of five shapes at ten depths
from 16 to 8,192 showed it: with 128 channels and four heads of keys a position took 45 ns a head up to 2 MB a layer and 85
beyond; with one head of keys, which 2 MB hold throughout, always the same.

:math:`s_a` and :math:`s_m` are how much longer than at its best the core took for arithmetic and for streaming just then, by
a probe beside each repeat (1 with wall time); each part follows powers of them.

:math:`W_f(N)` is a table over rows a call, because kernels change with their number: one efficiency a format is off by 14 %
in the median where a table is off by 3 %. Between two entries it is a line; they are close behind four and sixteen rows, the
heights of tiles, and around eight, where another kernel may take over. :math:`a_d(n)` is a table over channels a head and
rows a sequence, log-log between entries: kernels are written for some head widths, and one of llama.cpp's for the CPU took
2.8 times as long a position with 96 channels as with 128; wider and narrower heads than any entry's count as that one's.
From 64 rows a sequence attention takes whole tiles, by another kernel, so 33 to 63 rows count as 32.

What llama.cpp's last layer does behind its attention, with half of its norms, and the output matrix, have the rows whose
logits are wanted. A matrix of several passes has their mean of rows each time; one of routed experts the experts that any row
is sent to, by chance and evenly, each with its part of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from joulesim.errors import Fault, InputError
from joulesim.measure.record import content_hash
from joulesim.measure.runtimes.base import TILE
from joulesim.specs.hardware import HardwareSpec
from joulesim.validate.local_points import Points, pace

ROWS = (1, 2, 4, 5, 7, 8, 16, 20, 32, 64, 512)
"""Rows of a call at which the table of each format has an entry."""
QUERIES = (1, 8, 32, 64, 512)
"""Rows of a sequence at which the time of attention has an entry."""
_UNTILED = max(n for n in QUERIES if n < TILE)
HEADS = (64, 128, 256)
"""Channels of a head at which the time of attention has an entry."""
_PRIOR = {"per_call": (2e-5, 1.0), "per_layer": (5e-6, 1.0), "per_sequence_layer": (1e-6, 1.0),
          "norm": (1e-9, 1.5), "silu": (1e-9, 1.0), "gelu": (3e-9, 1.5),
          "stream": (5e-11, 1.0), "resident_bytes": (2e7, 1.5), "pass": (1e-12, 2.0), "near_cache": (1e6, 0.7),
          "core_exponent": (0.6, 0.5), "memory_exponent": (0.4, 0.7), "stream_exponent": (0.9, 0.5),
          "table": (3e-11, 2.0), "extra_columns": (30.0, 1.5), "attention": (3.2e-10, 2.0)}
"""Start and spread of the logarithm of each constant; wide, and beaten by any record that says something. The rates are
those of a CPU core, unless a datasheet says its own; that of attention is a channel's."""
_COMMON = tuple(name for name in _PRIOR if name not in ("table", "extra_columns", "attention"))
_NOISE = 0.05
"""Scatter of the logarithm that a record is trusted to."""
_NEIGHBOURS = {"table": 0.5, "attention": 0.7}
"""Spread of the step of a table from one entry to one at twice the rows or channels, about what the start says; as the square
root of the doublings between, so that an entry without records lies on the line between its neighbours."""


class Constant(NamedTuple):
    """A fitted number."""

    name: str
    value: float
    stderr: float
    """Standard error of the logarithm."""
    identified: bool
    """The records say more about it than the prior and its neighbours in a table do."""


@dataclass(frozen=True)
class LocalFit:
    """Constants fitted on calls."""

    names: list[str]
    logs: np.ndarray
    covariance: np.ndarray
    heard: np.ndarray
    """Error that each logarithm would have if the records alone spoke and all others were known; inf: none speaks."""
    formats: list[str]
    scatter: float
    """Standard deviation of the logarithm of what is left. [1]"""
    records_hash: str
    """Of the records that it was fitted on."""
    best_probe: tuple[float, float] | None
    """Shortest arithmetic and streaming of any record's probe, those of a slowness of 1; ``None`` without probes. [s]"""

    def predict(self, calls: Points) -> np.ndarray:
        """Time of calls; a format that was not fitted is the geometric mean of the others. [s]"""
        return _evaluate(self.logs, _design(self.names, self.formats, calls), calls)

    def uncertainty(self, calls: Points) -> np.ndarray:
        """How the logarithm of each call's time moves with each constant, times the constant's error. [call, constant]"""
        design, step = _design(self.names, self.formats, calls), 1e-4
        slopes = np.array([np.log(_evaluate(self.logs + step * one, design, calls)
                                  / _evaluate(self.logs - step * one, design, calls)) / (2 * step)
                           for one in np.eye(len(self.logs))]).T
        values, vectors = np.linalg.eigh(self.covariance)
        return slopes @ (vectors * np.sqrt(np.clip(values, 0.0, None)))

    def table(self) -> dict[str, list[float]]:
        """Time of a weight and row by format, at each of :data:`ROWS`. [s]"""
        value = dict(zip(self.names, np.exp(self.logs), strict=True))
        return {kind: [value[f"{kind}@{n}"] for n in ROWS] for kind in self.formats}

    def constants(self) -> list[Constant]:
        """Fitted numbers with their errors."""
        errors = np.sqrt(np.diag(self.covariance))
        return [Constant(name, float(np.exp(log)), float(error), bool(max(error, heard) < 0.6 * _prior(name)[1]))
                for name, log, error, heard in zip(self.names, self.logs, errors, self.heard, strict=True)]


def fit(calls: Points, hardware: HardwareSpec | None = None, effort: int = 80) -> LocalFit:
    """
    Constants of the machine from calls; ``hardware`` is the datasheet whose rates the search starts from.

    The residual is that of the logarithm, so a small call weighs as much as a large one; a soft loss keeps a few
    disturbed records from pulling. ``effort`` bounds the steps of the search.
    """
    from scipy.optimize import least_squares

    if not len(calls):
        fault = Fault("records", "expected calls to fit on, got none", "a campaign's groups with role: fit make them")
        raise InputError(fault)
    formats = calls.formats
    names = [*_COMMON, *(_attention(n, d) for d in HEADS for n in QUERIES),
             *(f"{kind}@{n}" for kind in formats for n in ROWS), *(f"{kind}:extra_columns" for kind in formats)]
    start = np.log([_start(name, hardware) for name in names])
    spread = np.array([_prior(name)[1] for name in names])
    low, high, apart = _neighbours(names, formats)
    expected = start[high] - start[low]
    design = _design(names, formats, calls)

    def residuals(logs):
        with np.errstate(over="ignore"):  # a step far out is taken back
            modelled = np.log(_evaluate(logs, design, calls) / calls.time) / _NOISE
        return np.concatenate([modelled, (logs - start) / spread, (logs[high] - logs[low] - expected) / apart])

    found = least_squares(residuals, start, loss="soft_l1", f_scale=2.0, max_nfev=effort, x_scale="jac")
    left = np.log(_evaluate(found.x, design, calls) / calls.time)
    scatter = float(np.sqrt(np.mean(np.clip(left, -0.5, 0.5) ** 2)))
    jacobian = found.jac.copy()
    jacobian[:len(calls)] *= _NOISE / max(scatter, 0.005)
    covariance = np.linalg.pinv(jacobian.T @ jacobian)
    with np.errstate(divide="ignore"):
        heard = 1 / np.sqrt((jacobian[:len(calls)] ** 2).sum(axis=0))
    probes = [np.divide(p, s) for r, s in zip(calls.records, calls.slowness, strict=True) if (p := pace(r.state))]
    best = tuple(np.min(probes, axis=0)) if probes else None
    return LocalFit(names, found.x, covariance, heard, formats, scatter, content_hash([r.hash for r in calls.records]), best)


def _attention(rows: int, channels: int) -> str:
    return f"attention@{rows}x{channels}"


def _neighbours(names: list[str], formats: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places of entries next to each other in a table, and the spread of the step between them."""
    def spread(kind: str, low: int, high: int) -> float:
        return _NEIGHBOURS[kind] * np.sqrt(np.log2(high / low))

    pairs = [(f"{kind}@{a}", f"{kind}@{b}", spread("table", a, b)) for kind in formats for a, b in pairwise(ROWS)]
    pairs += [(_attention(a, d), _attention(b, d), spread("attention", a, b)) for d in HEADS for a, b in pairwise(QUERIES)]
    pairs += [(_attention(n, a), _attention(n, b), spread("attention", a, b)) for n in QUERIES for a, b in pairwise(HEADS)]
    low, high, apart = zip(*pairs, strict=True)
    place = {name: i for i, name in enumerate(names)}
    return np.array([place[name] for name in low]), np.array([place[name] for name in high]), np.array(apart)


def _start(name: str, hardware: HardwareSpec | None) -> float:
    """Where the search starts: at what the datasheet says, else at a CPU core."""
    if hardware is not None:
        kind = name.partition("@")[0]
        rate = hardware.compute_rate.fp32 if kind == "f32" else hardware.matrix_rate
        if name in ("stream", "pass") and hardware.streaming_rate is not None:
            return _PRIOR[name][0] / _PRIOR["stream"][0] / hardware.streaming_rate
        if "@" in name and rate is not None:
            # a weight and row is a product and a sum; so is a channel of a key and of a value
            return (4 * _channels(name) if kind == "attention" else 2) / rate
    return _prior(name)[0] * (_channels(name) if name.startswith("attention") else 1)


def _channels(attention: str) -> int:
    return int(attention.rpartition("x")[2])


def _prior(name: str) -> tuple[float, float]:
    kind = "extra_columns" if name.endswith("extra_columns") else "attention" if name.startswith("attention") else name
    return _PRIOR.get(kind, _PRIOR["table"])


class _Design(NamedTuple):
    """Where each call and matrix finds its constants, and with what weight."""

    common: np.ndarray
    table: list[tuple[np.ndarray, np.ndarray]]
    """Places of the two entries around a matrix's rows [matrix, format], and the rows that each counts for [matrix]."""
    extra: np.ndarray
    """Place of the extra columns. [matrix, format]"""
    attention: list[tuple[np.ndarray, np.ndarray]]
    """Places of the four entries around a call, and their weights. [call]"""


def _between(knots: Sequence[int], values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Entry below a value and the logarithmic weight of the one above."""
    x = np.log(np.clip(values, knots[0], knots[-1]))
    at = np.clip(np.searchsorted(np.log(knots), x, "right") - 1, 0, len(knots) - 2)
    low, high = np.log(np.array(knots))[at], np.log(np.array(knots))[at + 1]
    return at, (x - low) / (high - low)


def _design(names: list[str], formats: list[str], calls: Points) -> _Design:
    place = {name: i for i, name in enumerate(names)}
    of_matrix = [[kind] * len(formats) if kind in formats else formats for kind in calls.matrix_format]

    def places(entry: Sequence[str]) -> np.ndarray:
        return np.array([[place[kind + one] for kind in kinds] for kinds, one in zip(of_matrix, entry, strict=True)])

    rows = np.array(ROWS)
    batch = np.clip(calls.matrix_batch, rows[0], rows[-1])
    at = np.clip(np.searchsorted(rows, batch, "right") - 1, 0, len(rows) - 2)
    beyond = calls.matrix_batch / batch
    share = (batch - rows[at]) / (rows[at + 1] - rows[at])
    table = [(places([f"@{rows[i]}" for i in one]), weight * rows[one] * beyond)
             for one, weight in ((at, 1 - share), (at + 1, share))]
    queries = np.where(calls.queries < TILE, np.minimum(calls.queries, _UNTILED), calls.queries)
    (n, n_share), (d, d_share) = _between(QUERIES, queries), _between(HEADS, calls.head_width)
    attention = [
        (np.array([place[_attention(QUERIES[i], HEADS[j])] for i, j in zip(n + up, d + wide, strict=True)], int),
         (n_share if up else 1 - n_share) * (d_share if wide else 1 - d_share))
        for up in (0, 1) for wide in (0, 1)]
    return _Design(np.array([place[name] for name in _COMMON]), table, places([":extra_columns"] * len(of_matrix)), attention)


def _evaluate(logs: np.ndarray, design: _Design, calls: Points) -> np.ndarray:
    of = dict(zip(_COMMON, np.exp(logs[design.common]), strict=True))
    per_weight = sum(rows * np.exp(logs[places].mean(axis=1)) for places, rows in design.table)
    columns = calls.matrix_columns + np.exp(logs[design.extra].mean(axis=1))
    working = (
        of["per_call"] + of["per_layer"] * calls.layers * calls.passes
        + of["per_sequence_layer"] * calls.layers * calls.sequences
        + of["norm"] * calls.norm_work + of["silu"] * calls.silu_work + of["gelu"] * calls.gelu_work
        + np.bincount(calls.owner, per_weight * calls.matrix_rows * columns, len(calls))
        + calls.looks * np.exp(sum(share * logs[places] for places, share in design.attention)))
    waiting = (
        of["stream"] * calls.bytes**2 / (calls.bytes + of["resident_bytes"])
        + of["pass"] * calls.passed_over * np.clip(1 - of["near_cache"] / calls.layer_cache, 0, None))
    arithmetic, traffic = calls.slowness.T
    return (arithmetic ** of["core_exponent"] * traffic ** of["memory_exponent"] * working
            + traffic ** of["stream_exponent"] * waiting)
