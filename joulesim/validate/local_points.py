"""Calls in records as arrays: what was called, on which matrices, and how long it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from joulesim.errors import Fault, InputError
from joulesim.measure.record import Record
from joulesim.measure.runtimes.base import looked_at

BITS = {"f32": 32, "f16": 16, "bf16": 16, "q8_0": 8.5, "q6_k": 6.5625, "q5_k": 5.5, "q5_0": 5.5, "q5_1": 6,
        "q4_k": 4.5, "q4_0": 4.5, "q4_1": 5, "q3_k": 3.4375, "q2_k": 2.625, "iq4_xs": 4.25, "iq4_nl": 4.5}
"""Bits a stored weight takes; another format counts as 8."""
_CACHE_ELEMENT = 2
"""Of a cache in 16 bits. [B]"""


@dataclass(frozen=True)
class Points:
    """Calls as arrays: one entry a call, and one a matrix of a call."""

    time: np.ndarray
    """Over all rounds. [s]"""
    rounds: list[list[tuple[float, float, float]]]
    """Time and slowness, round by round. [s], [1], [1]"""
    records: list[Record]
    """The first record of each."""
    layers: np.ndarray
    rows: np.ndarray
    sequences: np.ndarray
    queries: np.ndarray
    passes: np.ndarray
    norm_work: np.ndarray
    """Channels that are normalised, over all rows and layers."""
    silu_work: np.ndarray
    """Channels that pass a SiLU gate, likewise."""
    gelu_work: np.ndarray
    """Channels that pass a GELU gate, likewise."""
    looks: np.ndarray
    """Query heads times positions that each looks at, over all layers."""
    head_width: np.ndarray
    """Channels of a head."""
    bytes: np.ndarray
    layer_cache: np.ndarray
    """Keys and values that one sequence has in one layer. [B]"""
    passed_over: np.ndarray
    """Those of all layers and sequences, once for each query head. [B]"""
    slowness: np.ndarray
    """How much longer than at best the probe's arithmetic and its streaming took; 1 without a probe. [call, 2]"""
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


def points(records: Iterable[Record], joined: bool = True) -> Points:
    """
    Calls in records. Invalid ones are left out, and modelled ones where any was measured.

    The median of the repeats counts; of several rounds the geometric mean of time and of slowness, since a call follows a
    power of how slow its core is. Unless ``joined``, every round is a call of its own.

    Raises
    ------
    InputError
        When nothing is left, with what the records are instead; when they are of several machines, engines or clocks,
        or do not say what their model consists of.
    """
    records = list(records)
    usable = [r for r in records if _why_not(r) is None]
    usable = [r for r in usable if r.provenance == "measured"] or usable
    if not usable:
        raise InputError(_nothing(records))
    _check_alike(usable)
    groups: dict[tuple[str, int], list[Record]] = {}
    for record in usable:
        groups.setdefault((record.campaign.point, 0 if joined else record.campaign.repeat), []).append(record)
    columns: dict[str, list] = {name: [] for name in Points.__dataclass_fields__}
    best = np.min([p for r in usable if (p := pace(r.state))] or [(1.0, 1.0)], axis=0)
    for group in groups.values():
        times = [record.latency.e2e_latency.median for record in group]
        slow = [slowness(record.state, best) for record in group]
        first = group[0]
        scenario = first.scenario
        _add(columns, scenario["call"], scenario["model"], scenario["weights"], first.runtime.settings.get("microbatch"))
        columns["time"].append(_geometric_mean(times))
        columns["slowness"].append(_geometric_mean(slow))
        columns["rounds"].append([(time, *pair) for time, pair in zip(times, slow, strict=True)])
        columns["records"].append(first)
    return _arrays(columns)


def imagined(calls: Iterable[Mapping[str, Any]], model: Mapping[str, Any], weights: str, microbatch: int | None,
             slowness: Sequence[tuple[float, float]]) -> Points:
    """Calls of a model that nobody timed on their own, such as those of an answer."""
    columns: dict[str, list] = {name: [] for name in Points.__dataclass_fields__}
    for call in calls:
        _add(columns, call, model, weights, microbatch)
    n = len(columns["rows"])
    return _arrays(columns | {"time": [np.nan] * n, "slowness": list(slowness), "rounds": [[] for _ in range(n)],
                              "records": [None] * n})


class Probed(Protocol):
    """What says how fast the core was: :class:`~joulesim.measure.conditions.State` or a question of a task."""

    core_probe: float | None
    memory_probe: float | None


def pace(seen: Probed) -> tuple[float, float] | None:
    """What the probe's arithmetic and its streaming took; its whole twice where a record does not tell them apart. [s]"""
    if not seen.core_probe:
        return None
    if not seen.memory_probe:
        return seen.core_probe, seen.core_probe
    return seen.core_probe - seen.memory_probe, seen.memory_probe


def slowness(seen: Probed, best: Sequence[float] | None) -> tuple[float, float]:
    """What the probe took, over the best; 1 without. [1]"""
    found = pace(seen)
    return (found[0] / best[0], found[1] / best[1]) if found and best is not None else (1.0, 1.0)


def _geometric_mean(values: Sequence) -> np.ndarray:
    return np.exp(np.mean(np.log(values), axis=0))


def _arrays(columns: Mapping[str, list]) -> Points:
    return Points(**{name: value if name in ("rounds", "records") else np.array(value)
                     for name, value in columns.items()})


def _why_not(record: Record) -> str | None:
    """What keeps a record from being a point; ``None`` for a point."""
    if "call" not in record.scenario or not record.campaign:
        return "of other things than single calls"
    if record.campaign.role not in ("fit", "test"):  # drift and idle are no points
        return "of drift or idling"
    if record.validity.verdict == "invalid":
        return f"invalid ({', '.join(record.validity.codes)})"
    if not record.latency.e2e_latency or not record.latency.e2e_latency.median:
        return "without a time"
    return None


def _nothing(records: Sequence[Record]) -> Fault:
    reasons = Counter(_why_not(record) for record in records)
    got = ", ".join(f"{n} {why}" for why, n in reasons.most_common()) or "no records"
    return Fault("records", f"expected calls that were measured, got {got}", "run `joulesim validate local` first")


_NEEDED = ("layers", "heads", "head_dim", "norm_channels", "gate_channels", "activation", "matrices")
"""What a call's time depends on, of a model that is no synthetic shape."""


def _probe(record: Record) -> str:
    state = record.state
    return "both parts of it" if state.memory_probe else "its whole" if state.core_probe else "none"


def _check_alike(records: Sequence[Record]) -> None:
    """One fit is of one machine, and of models whose matrices are known."""
    faults = []
    for what, of in (("machine", lambda r: " + ".join(r.device.names) or r.device.host),
                     ("runtime", lambda r: r.runtime.name), ("clock", lambda r: r.clock), ("probe of the core", _probe)):
        if len(found := sorted({str(of(record)) for record in records})) > 1:
            faults.append(Fault("records", f"expected one {what}, got {', '.join(found)}", "fit each on its own"))
    for record in records:
        model = record.scenario["model"]
        lacking = [] if model.get("shape") else [name for name in _NEEDED if not model.get(name)]
        if len(lacking) == len(_NEEDED):
            faults.append(Fault(f"record {record.campaign.point}", "expected what the model consists of, got its name alone",
                                "measure again and give the file that the server runs, --model NAME=PATH"))
        elif lacking:
            faults.append(Fault(f"record {record.campaign.point}", f"expected a model with {', '.join(lacking)}, got none",
                                "measure again; an older version wrote it"))
        if lacking:
            break
    if faults:
        raise InputError(faults)


def _add(columns: dict[str, list], call: Mapping[str, Any], model: Mapping[str, Any], weights: str,
         microbatch: int | None) -> None:
    """Append the sizes of a call and of its matrices to the columns."""
    owner = len(columns["rows"])
    model = {**_of_shape(model.get("shape"), weights), **model}
    rows = call["sequences"] * call["tokens"]
    outputs = rows if call["phase"] == "chunk" else call["sequences"]
    passes = -(-rows // (microbatch or 512))
    position = 2 * (model.get("kv_heads") or model["heads"]) * model["head_dim"] * _CACHE_ELEMENT
    cached = position * (call["depth"] + call["tokens"])
    looked = call["sequences"] * looked_at(call["tokens"], call["depth"])
    cached_in_all = cached * model["layers"] * call["sequences"] * passes
    stored = cached_in_all
    share = (model.get("experts_used") or 1) / (model.get("experts") or 1)
    trimmed = any(m[0] == "last" for m in model["matrices"])
    behind = (model["layers"] - trimmed) * rows + trimmed * outputs
    for place, height, width, kind, count in multiplied(model["matrices"], weights):
        few = place in ("output", "last")
        batch = outputs if few else rows / passes
        times_used = count * (1 if few else passes)
        if place == "expert":  # those that any of the rows is sent to, each with its part of them
            used = 1 - (1 - share) ** batch
            times_used, batch = times_used * used, batch * share / used
        columns["owner"].append(owner)
        columns["matrix_format"].append(kind)
        columns["matrix_rows"].append(height * times_used)
        columns["matrix_columns"].append(width)
        columns["matrix_batch"].append(batch)
        stored += height * width * times_used * BITS.get(kind, 8) / 8
        if place == "output":
            stored += 3 * 4 * outputs * height  # logits in 32 bits: written, read and written where the caller finds them
    for name, value in (
        ("layers", model["layers"]), ("rows", rows), ("sequences", call["sequences"]), ("queries", call["tokens"]),
        ("passes", passes), ("norm_work", (model["layers"] * rows + behind) / 2 * model["norm_channels"]),
        *((f"{gate}_work", behind * model["gate_channels"] * (model["activation"] == gate))
          for gate in ("silu", "gelu")),
        ("looks", model["layers"] * model["heads"] * looked),
        ("head_width", model["head_dim"]), ("bytes", stored),
        ("layer_cache", cached), ("passed_over", model["heads"] * cached_in_all),
    ):
        columns[name].append(value)


def multiplied(matrices: Iterable[Sequence], weights: str) -> list[Sequence]:
    """Matrices that a call multiplies with; fp32 ones of a quantised file are routers, too small to matter."""
    return [m for m in matrices if m[0] != "embedding" and (m[3] != "f32" or weights == "f32")]


def formats_of(record: Record) -> list[str]:
    """Formats of the matrices that a call multiplies with."""
    matrices, weights = record.scenario["model"].get("matrices"), record.scenario["weights"]
    return [m[3] for m in multiplied(matrices, weights)] if matrices else [weights]


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
    gemma = shape.get("family") == "gemma3"
    norms = 4 * width + queries + keys if gemma else 2 * width
    return {**shape, "head_dim": head_dim, "matrices": matrices, "norm_channels": norms,
            "gate_channels": shape["ffn"] * (shape.get("experts_used") or 1), "activation": "gelu" if gemma else "silu"}
