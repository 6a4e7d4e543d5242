"""
Findings of the source studies as checked claims.

A file of ``validation/claims`` holds the claims of one note: scenarios by name, and an expression over their
quantities that must lie in a range (``number``), exceed one by more than 1 % (``order``), or a test that shows a
capability (``method``). Nothing here knows a claim.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from joulesim.catalogue import data_root, read_yaml
from joulesim.errors import Fault, InputError, did_you_mean
from joulesim.scenario import Scenario, build
from joulesim.validate import expressions
from joulesim.validate.cases import Case, Gathered, Tweak, gathered, rows_of, unchanged

LEAST_MARGIN = 0.01
"""Margin above which an order holds."""


class Claim(NamedTuple):
    """One finding, its scenarios and what must come out."""

    id: str
    note: str
    kind: str
    statement: str
    published: Any
    accept: Any
    reading: str
    values: dict[str, str]
    """Expressions by name; a single one is named ``value``."""
    beside: dict[str, str]
    """Expressions printed beside, without a verdict."""
    test: str
    rows: dict[str, tuple[list[Gathered], tuple[int, ...]]]
    """Scenarios of each case, and the shape they span."""
    span: bool = False
    """The published value must lie inside the range of the predictions, at most a factor of 2 wide."""

    @property
    def scenarios(self) -> list[Scenario]:
        """Every scenario of the claim."""
        return [row.scenario for rows, _ in self.rows.values() for row in rows]


class Finding(NamedTuple):
    """What the model says about a claim."""

    claim: Claim
    predicted: dict[str, Any]
    beside: dict[str, Any]
    verdict: str
    why: str
    """What is missing for a verdict, or by how much it fails."""


@cache
def load() -> tuple[Claim, ...]:
    """Every claim of ``validation/claims``, note by note."""
    found = []
    for path in sorted(_folder().glob("*.yaml")):
        if path.stem != "scenarios":
            file = read_yaml(path)
            found += [_claim(entry, file["note"], path.name, templates()) for entry in file["claims"]]
    return tuple(found)


@cache
def templates() -> dict[str, Scenario]:
    """Scenarios that claims start from, by name."""
    found: dict[str, Scenario] = {}
    for name, document in read_yaml(_folder() / "scenarios.yaml").items():
        parent = found.get(document.pop("base", None))
        merged = document if parent is None else _merged(parent.document, document)
        found[name] = build({**merged, "name": name}, f"validation/claims/scenarios.yaml: {name}")
    return found


def _folder():
    return data_root() / "validation" / "claims"


def _merged(under: dict, over: dict) -> dict:
    """Nested mapping with the fields of ``over`` on top."""
    both = dict(under)
    for key, value in over.items():
        both[key] = _merged(both[key], value) if isinstance(value, dict) and isinstance(both.get(key), dict) else value
    return both


_FIELDS = {
    "id",
    "kind",
    "machine",
    "statement",
    "published",
    "accept",
    "reading",
    "cases",
    "value",
    "holds",
    "beside",
    "test",
    "span",
}


def _claim(entry: dict, note: str, file: str, known: dict[str, Scenario]) -> Claim:
    where = f"validation/claims/{file}: {entry.get('id')}"
    for field in entry:
        if field not in _FIELDS:
            raise InputError(Fault(f"{where}: {field}", "no such field", did_you_mean(field, _FIELDS) or "remove it"))
    rows = {}
    for name, case in entry.get("cases", {}).items():
        if case["from"] not in known:
            raise InputError(
                Fault(
                    f"{where}: {name}",
                    f"expected a scenario of scenarios.yaml, got {case['from']!r}",
                    did_you_mean(case["from"], known),
                )
            )
        scenarios, shape = rows_of(known[case["from"]], case.get("set", {}), case.get("over", {}))
        rows[name] = ([gathered(s) for s in scenarios], shape)
    values = entry.get("holds") or entry.get("value") or {}
    return Claim(
        entry["id"],
        note,
        entry["kind"],
        entry["statement"],
        entry.get("published"),
        entry.get("accept"),
        entry.get("reading", ""),
        values if isinstance(values, dict) else {"value": values},
        entry.get("beside", {}),
        entry.get("test", ""),
        rows,
        bool(entry.get("span")),
    )


def check(claim: Claim, tweak: Tweak = unchanged) -> Finding:
    """Predict a claim, under a tweak if one is given, and judge it."""
    if claim.kind == "method":
        return Finding(claim, {}, {}, *_test_exists(claim.test))
    names = {name: Case(rows, shape, tweak) for name, (rows, shape) in claim.rows.items()}
    predicted = {name: _plain(expressions.evaluate(text, names)) for name, text in claim.values.items()}
    beside = {name: _plain(expressions.evaluate(text, names)) for name, text in claim.beside.items()}
    if any(np.any(np.isnan(value)) for value in predicted.values()):
        return Finding(claim, predicted, beside, "no evidence", "a number that the prediction needs is unknown")
    return Finding(claim, predicted, beside, *_judge(claim, predicted))


def _plain(value):
    return [float(v) for v in np.ravel(value)] if np.ndim(value) else float(value)


def _judge(claim: Claim, predicted: dict[str, Any]) -> tuple[str, str]:
    if claim.kind == "order":
        least = min(predicted, key=lambda name: np.min(predicted[name]))
        margin = float(np.min(predicted[least]))
        return (
            ("supported", f"least margin {margin:.1%} ({least})")
            if margin > LEAST_MARGIN
            else ("not supported", f"margin {margin:.1%} ({least}), more than {LEAST_MARGIN:.0%} wanted")
        )
    if claim.span:
        low, high = np.min(predicted["value"]), np.max(predicted["value"])
        inside = low <= claim.published <= high and high <= 2 * low
        return ("supported" if inside else "not supported", f"range {low:.3g} to {high:.3g}")
    ranges = claim.accept if isinstance(claim.accept, dict) else {"value": claim.accept}
    for name, (low, high) in ranges.items():
        if not low <= np.min(predicted[name]) or not np.max(predicted[name]) <= high:
            return "not supported", f"{name} outside {low:g} to {high:g}"
    return "supported", ""


def _test_exists(test: str) -> tuple[str, str]:
    """A method claim is supported by a test of this name in a checkout; the test suite runs it."""
    path, _, name = test.partition("::")
    file = data_root() / path
    if not file.is_file():
        return "no evidence", f"{path} is not in this installation"
    return (
        ("supported", test)
        if f"def {name}(" in file.read_text("utf-8")
        else ("not supported", f"no test {name} in {path}")
    )
