"""Load a scenario, and derive others from it."""

from __future__ import annotations

import csv
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr, ValidationError

from joulesim import catalogue
from joulesim.errors import Fault, InputError, did_you_mean
from joulesim.models.mixes import Row, weight_table
from joulesim.specs.base import faults_of
from joulesim.specs.format import FormatSpec
from joulesim.specs.scenario import ScenarioSpec

_RESOLVED = ("hardware", "runtime", "model", "weights", "kv_cache")
SHORTCUTS = {
    "batch": "serving.batch",
    "prompt": "workload.prompt_tokens",
    "output": "workload.output_tokens",
}
"""Short names of swept and set fields."""


class Scenario(ScenarioSpec):
    """
    A deployment to predict. Read-only; :meth:`replace` makes another one.

    The declared document is kept beside the resolved specs, so that a changed field is resolved again and an
    unchanged one is not.
    """

    _document: dict = PrivateAttr(default_factory=dict)
    _weight_rows: list = PrivateAttr(default_factory=list)
    _base: Path | None = PrivateAttr(default=None)

    def replace(self, changes: Mapping[str, Any], *, text: bool = False) -> Scenario:
        """
        The scenario with some dotted fields changed.

        Parameters
        ----------
        changes : mapping
            Dotted field name to value, e.g. ``{"serving.batch": 8, "hardware.memory_bandwidth": 1e12}``.
        text : bool
            Whether values come from text, where quantities need their unit; in Python they are SI.

        Raises
        ------
        InputError
            With one line for each field that does not exist or does not take the value.
        """
        document = dict(self._document)
        touched = set()
        for field, value in changes.items():
            head, *rest = SHORTCUTS.get(field, field).split(".")
            if head not in type(self).model_fields:
                hint = did_you_mean(field, [*type(self).model_fields, *SHORTCUTS])
                raise InputError(Fault(field, "no such field", hint))
            touched.add(head)
            document[head] = _set(document.get(head), rest, value) if rest else value
        kept = {field: getattr(self, field) for field in _RESOLVED if field not in touched and field in document}
        return build(document, self.name, self._base, text=text, resolved=kept)

    @property
    def weight_rows(self) -> list[Row]:
        """The model's weights by role and block format, as this scenario stores them."""
        return self._weight_rows

    @property
    def formats(self) -> Mapping[str, FormatSpec]:
        """Formats by name: the scenario's own before the shipped ones."""
        return ChainMap({} if self.weights is None else {self.weights.name: self.weights}, catalogue.FORMATS)

    @property
    def document(self) -> dict:
        """The scenario as it was declared: plain data that :func:`build` reads again."""
        return self._document


def _set(value: Any, path: list[str], new: Any) -> dict:
    """Plain data with the entry at ``path`` set; a name becomes a mapping that starts from it."""
    inner = dict(value) if isinstance(value, Mapping) else {} if value is None else {"base": value}
    inner[path[0]] = _set(inner.get(path[0]), path[1:], new) if len(path) > 1 else new
    return inner


def build(document: Mapping[str, Any], where: str, base: Path | None = None, *, text: bool = True,
          resolved: Mapping[str, Any] | None = None) -> Scenario:
    """
    Scenario from its declared document.

    Raises
    ------
    InputError
        With every fault of the document, one line each.
    """
    if not isinstance(document, Mapping):
        raise InputError(Fault(where, f"expected a mapping of fields, got {type(document).__name__}"))
    context = {"text": text, "resolve": catalogue._resolver(base, text)}
    try:
        scenario = Scenario.model_validate(_with_traces(document, where, base) | dict(resolved or {}), context=context)
    except ValidationError as error:
        raise InputError(faults_of(error, where, Scenario)) from None
    scenario._weight_rows = weight_table(scenario.model, scenario.weights, scenario.formats)
    scenario._document = dict(document)
    scenario._base = base
    return scenario


def load_scenario(path_or_name) -> Scenario:
    """
    Scenario by shipped name or path of a YAML file; a scenario is returned as it is.

    Examples
    --------
    >>> load_scenario("llama-3.1-8b-h100").serving.batch
    64
    """
    if isinstance(path_or_name, Scenario):
        return path_or_name
    path = catalogue.locate("scenario", path_or_name)
    shipped = path.parent == catalogue.folder("scenario")
    where = f"scenarios/{path.name}" if shipped else str(path)
    data = catalogue.read_yaml(path, where)
    if isinstance(data, Mapping):
        data = {"name": path.stem, **data}
    return build(data, where, path.parent)


def _with_traces(document: Mapping[str, Any], where: str, base: Path | None) -> dict:
    """The document with the lengths of trace files read in."""
    document = dict(document)
    workload = document.get("workload")
    if not isinstance(workload, Mapping):
        return document
    workload = dict(workload)
    for field, value in workload.items():
        if isinstance(value, Mapping) and value.get("distribution") == "trace" and not value.get("lengths"):
            workload[field] = {**value, "lengths": _column(value, f"{where}: workload.{field}", base)}
    return document | {"workload": workload}


def _column(trace: Mapping[str, Any], where: str, base: Path | None) -> list[float]:
    name = trace.get("file")
    if not isinstance(name, str):
        raise InputError(Fault(f"{where}.file", "expected the path of a CSV file", "add it"))
    path = next((p for p in ((Path(base) / name if base else Path(name)), Path(name)) if p.is_file()), None)
    if path is None:
        raise InputError(Fault(f"{where}.file", f"expected a CSV file, found no {name!r}", "check the path"))
    try:
        with path.open(newline="", encoding="utf-8") as handle:
            return _lengths(csv.DictReader(handle), str(trace.get("column", "")), name, where)
    except (UnicodeDecodeError, csv.Error, OSError) as error:
        raise InputError(Fault(name, f"not a CSV file ({error})")) from None


def _lengths(rows: csv.DictReader, column: str, name: str, where: str) -> list[float]:
    if column not in (rows.fieldnames or ()):
        hint = did_you_mean(column, rows.fieldnames or ()) or f"columns are {', '.join(rows.fieldnames or ())}"
        raise InputError(Fault(f"{where}.column", f"no column {column!r} in {name}", hint))
    lengths, faults = [], []
    for row in rows:
        try:
            length = float(row[column])
            if not 0 <= length < float("inf"):
                raise ValueError
            lengths.append(length)
        except (TypeError, ValueError):
            faults.append(Fault(f"{name}: line {rows.line_num}", f"expected a token count, got {row[column]!r}"))
    if faults or not lengths:
        raise InputError(faults or Fault(name, "expected one request a row, got none"))
    return lengths
