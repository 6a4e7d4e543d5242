"""Text files as others write them: encodings, and CSV rows keyed by name with their line numbers."""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from joulesim.errors import Fault, InputError, NotFoundError

_MISSING = re.compile(r"\[.*\]|n/?a|err!|unknown error|not supported|gpu is lost|", re.I)


@dataclass(frozen=True)
class Row:
    """One row of a table, by column name."""

    file: str
    line: int
    cells: dict[str, str]

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no value: ``[N/A]``, ``[Not Supported]``, ``ERR!``, nothing."""
    return _MISSING.fullmatch(cell.strip()) is not None


def read_text(path: str | os.PathLike) -> str:
    """Content of a text file in UTF-8, or in UTF-16 as PowerShell redirects it."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise NotFoundError(Fault(str(path), "no such file")) from None
    except OSError as error:
        raise InputError(Fault(str(path), f"expected a readable file, got {error.strerror}")) from None
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        what = f"expected text in UTF-8, byte {error.start} is none"
        raise InputError(Fault(str(path), what, "save it as UTF-8")) from None


def csv_rows(
    text: str, file: str, columns: Sequence[str] = ()
) -> tuple[list[str], list[Row], list[Fault]]:
    """
    Column names, rows and faults of a CSV text.

    A row with more or fewer cells than there are columns is refused: nothing says which cell is missing.
    ``columns`` names them where the text has no header. Commas, semicolons and tabs are told apart by the header.
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if not lines:
        raise InputError(Fault(file, "expected a header and rows, the file is empty"))
    first = ",".join(columns) if columns else lines[0][1]
    delimiter = max(",;\t", key=first.count)
    numbers = [number for number, _ in lines]
    reader = csv.reader((line for _, line in lines), delimiter=delimiter, skipinitialspace=True)
    header = [name.strip() for name in (columns or next(reader))]
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        raise InputError(Fault(f"{file}:{numbers[0]}", f"column {twice[0]!r} is there twice", "name each column once"))
    rows, faults = [], []
    for cells in reader:
        line = numbers[reader.line_num - 1]
        if len(cells) != len(header):
            what = f"expected {len(header)} cells as in the header, got {len(cells)}"
            faults.append(Fault(f"{file}:{line}", what, "the row is left out, cells are never shifted"))
            continue
        rows.append(Row(file, line, {name: cell.strip() for name, cell in zip(header, cells, strict=True)}))
    return header, rows, faults
