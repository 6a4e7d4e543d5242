"""Values that others published, from ``tests/reference/measure_published.csv``."""

import csv
from pathlib import Path

_FILE = Path(__file__).parents[1] / "reference" / "measure_published.csv"
with _FILE.open(encoding="utf-8") as _file:
    _VALUES = {(row["case"], row["quantity"]): row["value"] for row in csv.DictReader(_file)}


def published(case, quantity):
    """Value of a case, an int where it is written as one."""
    text = _VALUES[case, quantity]
    return int(text) if text.lstrip("-").isdigit() else float(text)
