"""Published values, one row a value, from ``tests/reference``."""

import csv
from pathlib import Path

REFERENCE = Path(__file__).parents[1] / "reference"


def rows(name: str) -> list[dict[str, str]]:
    """Rows of a reference table, each with its source and locator."""
    with (REFERENCE / name).open(newline="", encoding="utf-8") as handle:
        found = list(csv.DictReader(handle))
    assert all(row["source"] and row["locator"] for row in found)
    return found
