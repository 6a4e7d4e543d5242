"""Cells of a published table as numbers, each within the range of its column."""

from __future__ import annotations

import math
from collections.abc import Mapping

from joulesim import units
from joulesim.errors import Fault, InputError, shown
from joulesim.validate import wording

RANGES = {
    "num_gpus": (1, 1e6), "batch_concurrency": (1e-3, 1e7), "prompt_tokens": (0, 1e9), "output_tokens": (0, 1e9),
    "notes: max_num_seqs": (1, 1e7), "notes: tokens over prompts": (1, 1e9), "hardware_variant: power limit": (1, 1e6),
    "parallelism": (1, 1e6), "throughput_tok_s": (1e-6, 1e9), "itl_ms": (1e-6, 1e9), "ttft_ms": (1e-6, 1e9),
    "power_w": (1e-3, 1e9), "energy_j_per_token": (1e-9, 1e6), "accuracy_n": (0, 1e9),
    "outputs": (1, 1e9), "mean": (1e-3, 1e9), "mean_square_over_mean": (1e-3, 1e9), "max": (1, 1e9), "max_num_seqs": (1, 1e7),
}
"""Least and most of a column, in its own unit: wide enough for every device, too narrow to overflow."""

_SMALLEST_SHARE = 1e-9


def number(row: Mapping[str, str], column: str, where: str) -> float | None:
    """Number of a cell; ``None`` for an empty one."""
    text = row.get(column, "").strip()
    return within(_read(text, column, where), column, text, where) if text else None


def measured(row: Mapping[str, str], column: str, where: str) -> float | None:
    """Number of a cell that was measured: 0 is not a measurement."""
    text = row.get(column, "").strip()
    if text and _read(text, column, where) == 0:
        raise InputError(Fault(f"{where}: {column}", "expected more than 0, got 0; leave it empty if it is unknown"))
    return number(row, column, where)


def _read(text: str, column: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(Fault(f"{where}: {column}", f"expected a number, got {shown(text)}")) from None


def accuracy(row: Mapping[str, str], where: str) -> tuple[float | None, Fault | None]:
    """Share of answers that are correct, and why what the cell says is none; a perplexity is no accuracy at all."""
    text = row.get("accuracy", "").strip()
    if not text or wording.PERPLEXITY.search(row.get("accuracy_task", "")):
        return None, None
    try:
        value = units.parse(text, "")
    except ValueError:
        value = math.nan
    if value == 0 or _SMALLEST_SHARE <= value <= 1:
        return value, None
    hint = "write it as e.g. '71.5 %' or 0.715"
    if 1 < value <= 100 and "%" not in text:
        hint = f"looks like percent: write '{value:.10g} %' or {value / 100:.10g}"
    return None, Fault(f"{where}: accuracy", f"expected a share between 0 and 1, got {shown(text)}", hint)


def within(value: float, column: str, text: str, where: str) -> float:
    """The value, where it lies in the range of its column."""
    low, high = RANGES[column]
    if not low <= value <= high:
        raise InputError(Fault(f"{where}: {column}", f"expected {low:g} to {high:g}, got {shown(text)}",
                               "check the number and its unit"))
    return value
