"""Lists of shipped things, and one of them in full."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from joulesim.cli import output


def arguments(parser) -> None:
    """Options of a listing command."""
    parser.add_argument("name", nargs="?", help="one of them, by name or path")
    output.arguments(parser)


def show_all(rows: list[Mapping[str, Any]], style: str) -> None:
    """Print a list of objects with the same keys."""
    if style == "json":
        print(output.to_json(rows))
        return
    headers = list(rows[0])
    print(output.table([[row[key] for key in headers] for row in rows], headers, style))


def show_one(data: Mapping[str, Any], style: str, value: Callable[[str, Any], str]) -> None:
    """Print one object field by field; ``value`` words a field's value."""
    if style == "json":
        print(output.to_json(data))
        return
    print(output.table([(key, value(key, item)) for key, item in _flat(data)], ("field", "value"), style))


def _flat(data: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows = []
    for key, value in data.items():
        path = f"{prefix}{key}"
        rows += _flat(value, f"{path}.") if isinstance(value, Mapping) else [(path, value)]
    return rows
