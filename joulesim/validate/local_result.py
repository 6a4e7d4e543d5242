"""What a script and the report get of a local fit: constants, what they could not say, errors where nothing was fitted."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from joulesim import catalogue
from joulesim.measure import host
from joulesim.measure.record import Record
from joulesim.measure.records import read_records
from joulesim.specs.hardware import HardwareSpec
from joulesim.units import show
from joulesim.validate import local, local_errors
from joulesim.validate.local import Constant, LocalFit
from joulesim.validate.local_errors import Errors
from joulesim.validate.local_points import BITS, Points, points

PHASES = ("decode", "chunk", "prefill")
IDENTIFIES = {
    "per_call": "calls of a model of one thin layer", "per_layer": "shapes of equal size and other depth",
    "norm": "deep and narrow shapes at many rows", "silu": "a narrow shape with a wide gate at many rows",
    "gelu": "a narrow shape of family gemma3 with a wide gate at many rows", "per_sequence_layer": "batches of a tiny model",
    "stream": "a model larger than the cache at one row",
    "resident_bytes": "models on both sides of the cache's size",
    "pass": "deep caches of a shape with many heads", "near_cache": "depths on both sides of a second-level cache",
    "core_exponent": "small models while the core is slowed by neighbours and while it is not",
    "memory_exponent": "small models while memory is slowed by neighbours and while it is not",
    "stream_exponent": "models larger than the cache while the core is slowed and while it is not",
    "extra_columns": "shapes of equal size and other width",
    "attention": "calls of that many rows a sequence at two depths, by a shape with heads of that many channels",
    "table": "calls of that many rows in that format",
}
"""Measurement that would identify a constant, by its kind."""


class HeldOut(NamedTuple):
    """Error of one kind of call where nothing was fitted, beside the noise of the same run. [%]"""

    phase: str
    count: int
    median: float | None
    p90: float | None
    noise_median: float | None
    """The same call in another round."""
    noise_p90: float | None
    reason: str
    """Why something is unknown; empty when nothing is."""


@dataclass(frozen=True)
class FitResult:
    """
    A fit of one machine.

    Examples
    --------
    >>> fitted = js.fit(js.read_records("records.jsonl"), hardware="rtx-4090")              # doctest: +SKIP
    >>> fitted.held_out["decode"].median, fitted.unidentified, fitted.write("mine.yaml")    # doctest: +SKIP
    """

    fitted: LocalFit
    calls: Points
    """All calls, fitted and held out."""
    hardware: HardwareSpec | None = None
    """The datasheet that it started from."""
    base: str = ""
    """Name or path of that profile."""

    @property
    def records_hash(self) -> str:
        """Hash of the records that were fitted."""
        return self.fitted.records_hash

    def constants(self) -> list[Constant]:
        """Fitted numbers with their errors."""
        return self.fitted.constants()

    @property
    def unidentified(self) -> dict[str, str]:
        """Constants of which the records say no more than was assumed, each with the measurement that would say it."""
        return {c.name: IDENTIFIES.get(_kind(c.name), IDENTIFIES["table"]) for c in self.constants() if not c.identified}

    @cached_property
    def errors(self) -> list[Errors]:
        """Errors by axis of the split and kind of call, each format left out included."""
        return [*local_errors.held_out(self.fitted, self.calls),
                *local_errors.held_out_formats(self.calls, self.hardware)]

    @cached_property
    def held_out(self) -> dict[str, HeldOut]:
        """Errors by kind of call, over all axes but a foreign model and a format that was never fitted."""
        found = {e.phase: e for e in self.errors if e.axis == "all"}
        return {phase: _held_out(phase, found.get(phase)) for phase in PHASES}

    def profile(self) -> dict[str, Any]:
        """
        Hardware profile of this machine for ``predict``: the rates that its calls reached.

        Bandwidth is what a single row streams in the format that streams fastest, arithmetic what 512 rows reach. It
        starts from :attr:`hardware` where that was given; else it is all that is known of ``this-machine``.
        """
        table = self.fitted.table()
        stream = dict(zip(self.fitted.names, np.exp(self.fitted.logs), strict=True))["stream"]
        per_byte = {kind: row[0] / (BITS.get(kind, 8) / 8) + stream for kind, row in table.items()}
        fastest = {kind: 2 / row[-1] for kind, row in table.items()}
        wide = max(fastest.values())
        bandwidth = f"{1e-9 / min(per_byte.values()):.4g} GB/s"
        rates = {"fp32": fastest.get("f32", wide), "fp16": fastest.get("f16", fastest.get("bf16", wide)), "int8": wide}
        rates = {kind: f"{1e-9 * rate:.4g} GFLOP/s" for kind, rate in rates.items()}
        measured = {"measured_memory_bandwidth": bandwidth, "measured_compute_rate": rates}
        if self.hardware is not None:
            measured["measured_compute_rate"] = {kind: rate for kind, rate in rates.items()
                                                 if getattr(self.hardware.compute_rate, kind) is not None}
            known = {"base": self.base, "name": f"{self.hardware.name}-measured",
                     "title": f"{self.hardware.title or self.hardware.name}, measured here", **measured}
        else:
            memory = host.memory()
            known = {"name": "this-machine", "title": f"{host.processor()}, measured here", "kind": "cpu",
                     **({"memory_capacity": show(memory, "byte")} if memory else {}), "memory_bandwidth": bandwidth,
                     "compute_rate": rates, **measured}
        ref = (f"joulesim validate local, split {self.calls.records[0].campaign.hash[:12]}, "
               f"records {self.records_hash[:12]}")
        stated = [field for field in known if field not in ("base", "name", "title", "kind")]
        return {**known, "sources": {field: {"kind": "measured", "ref": ref} for field in stated}}

    def write(self, path: str | os.PathLike) -> Path:
        """Write the profile as a file that ``predict MODEL --on PATH`` reads."""
        import yaml

        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(self.profile(), sort_keys=False, allow_unicode=True))
        return path


def fit(records: Iterable[Record] | str | os.PathLike, hardware: str | os.PathLike | HardwareSpec | None = None) -> FitResult:
    """
    Constants of a machine from the records of a campaign, without the calls that it set aside, and the errors on those.

    Parameters
    ----------
    records : iterable of Record, or path
        Those of :func:`joulesim.read_records`. Invalid ones are left out, and modelled ones where any was measured.
    hardware : str, path or HardwareSpec, optional
        Profile of the machine, by name or path. Its datasheet rates are where the search starts, and what a constant
        stays at that no record says anything about; the written profile is that one with what was measured.

    Raises
    ------
    InputError
        When there is nothing to fit: with what the records are instead.
    """
    spec, base = (None, "") if hardware is None else _profile(hardware)
    records = list(read_records(records) if isinstance(records, (str, os.PathLike)) else records)
    rounds = points(records, joined=False).of(lambda record: record.campaign.role == "fit")
    return FitResult(local.fit(rounds, spec), points(records), spec, base)


def _profile(hardware: str | os.PathLike | HardwareSpec) -> tuple[HardwareSpec, str]:
    """A profile and what another one names to start from it."""
    path = catalogue.locate("hardware", hardware.name if isinstance(hardware, HardwareSpec) else hardware)
    base = path.stem if path.parent == catalogue.folder("hardware") else str(path.resolve())
    return (hardware if isinstance(hardware, HardwareSpec) else catalogue.load_hardware(hardware)), base


def _held_out(phase: str, errors: Errors | None) -> HeldOut:
    if errors is None:
        return HeldOut(phase, 0, None, None, None, None, f"no {phase} call was set aside in the formats that were fitted")
    if math.isnan(errors.noise_median):
        return HeldOut(phase, errors.count, errors.median, errors.p90, None, None, "one round: no call was measured twice")
    return HeldOut(phase, *errors[2:5], errors.noise_median, errors.noise_p90, "")


def _kind(name: str) -> str:
    return "extra_columns" if name.endswith("extra_columns") else name.split("@")[0]
