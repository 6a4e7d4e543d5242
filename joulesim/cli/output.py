"""How results are printed: table, JSON, CSV or Markdown."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

FORMATS = ("table", "json", "csv", "md")


def arguments(parser) -> None:
    """Add ``-o``."""
    parser.add_argument("-o", "--output-style", dest="output", choices=FORMATS, default="table",
                        help="how to print (default: table)")


def to_json(data: Any) -> str:
    """JSON text; what is not finite becomes null."""
    return json.dumps(_finite(data), indent=2, allow_nan=False, ensure_ascii=False)


def _finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data


def table(rows: Iterable[Sequence[Any]], headers: Sequence[str], style: str) -> str:
    """Rows as a table: ``table`` and ``md`` are GitHub Markdown, ``csv`` is CSV."""
    rows = [["" if cell is None else cell for cell in row] for row in rows]
    if style == "csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([headers, *rows])
        return text.getvalue().rstrip("\n")
    from tabulate import tabulate

    return tabulate([[str(cell).replace("|", "\\|") for cell in row] for row in rows], headers, tablefmt="github",
                    disable_numparse=True)
