"""Measured accuracy by model, weight format and task, as counts. A cell that nobody measured is unknown."""

from __future__ import annotations

from functools import cache
from typing import Literal, NamedTuple

from joulesim.catalogue import data_root, read_yaml
from joulesim.errors import Fault, InputError, did_you_mean

Quantiser = Literal["none", "rounded", "calibrated"]


class Counts(NamedTuple):
    """Right answers of a task, with their source."""

    correct: int
    attempted: int
    source: str


@cache
def table(task: str) -> dict[tuple[str, str, str], Counts]:
    """
    Counts of a task by model, weight format and quantiser.

    Raises
    ------
    InputError
        When no table of the task is shipped.
    """
    known = tasks()
    if task not in known:
        raise InputError(Fault("task", f"expected one of {', '.join(known)}, got {task!r}", did_you_mean(task, known)))
    data = read_yaml(_folder() / f"{task}.yaml")
    source = data["source"]["ref"]
    return {
        (row["model"], row["weights"], row["quantiser"]): Counts(row["correct"], row["attempted"], source)
        for row in data["counts"]
    }


def tasks() -> list[str]:
    """Tasks with a table."""
    return sorted(path.stem for path in _folder().glob("*.yaml"))


def cell(task: str, model: str, weights: str, quantiser: Quantiser) -> Counts | None:
    """Counts of one cell; ``None`` where nobody measured it, never a neighbour's."""
    return table(task).get((model, weights, quantiser))


def _folder():
    return data_root() / "validation" / "quality"
