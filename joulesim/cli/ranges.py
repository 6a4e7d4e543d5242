"""``--over FIELD=lo:hi:n`` and ``--over FIELD=a,b,c`` as values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from joulesim import units
from joulesim.errors import Fault, InputError, shown
from joulesim.scenario import SHORTCUTS

_JOINED = re.compile(r"\s*\+\s*(?=[A-Za-z_][\w.]*\s*=)")
_WHOLE = ("serving.batch", "workload.prompt_tokens", "workload.output_tokens", "workload.shared_prefix_tokens",
          "workload.thinking_tokens", "task.correct")
_MOST_VALUES = 10_000_000
HELP = ("values of a field, a dimension of the sweep: FIELD=a,b,c or FIELD=low:high:n (add :log for even ratios), each "
        "with its unit; FIELD=... + FIELD=... change together")


def over(texts: list[str], design: str | None = None) -> dict[str, Any]:
    """What :func:`joulesim.sweep` takes as ``over``, from the texts of ``--over`` and ``--design``."""
    found: dict[str, Any] = {}
    faults: list[Fault] = []
    for text in texts:
        together = {}
        for part in _JOINED.split(text.strip()):
            field, equals, values = part.partition("=")
            field = field.strip()
            try:
                if not equals or not field:
                    raise InputError(Fault("--over", f"expected FIELD=VALUES, got {part!r}", HELP.split(": ", 1)[1]))
                if field in found or field in together:
                    raise InputError(Fault(field, "expected each field once, got it twice"))
                together[field] = span(field, values) if design else _values(field, values)
            except InputError as error:
                faults += error.faults
        found |= {" + ".join(together): together} if len(together) > 1 else together
    if not texts:
        faults.append(Fault("--over", "expected a field to sweep, got none", "e.g. --over serving.batch=1,2,4,8"))
    if faults:
        raise InputError(faults)
    return {"point": _design(design, found)} if design else found


def unit_of(field: str) -> str | None:
    """Unit of a field that is a number."""
    from joulesim.sweep import axes

    return axes.unit(SHORTCUTS.get(field, field))


def _values(field: str, text: str):
    wanted = unit_of(field)
    parts = [part.strip() for part in text.split(":")]
    if wanted is None or len(parts) == 1:
        return _listed(field, text, wanted)
    if len(parts) not in (3, 4) or (len(parts) == 4 and parts[3] != "log"):
        raise InputError(Fault(field, f"expected low:high:n or low:high:n:log, got {text!r}"))
    low, high = (_number(field, part, wanted) for part in parts[:2])
    if not parts[2].isdecimal() or not parts[2].strip("0"):
        raise InputError(Fault(field, f"expected at least one value, got {shown(parts[2])} of them"))
    if len(parts[2]) > 18 or int(parts[2]) > _MOST_VALUES:
        raise InputError(Fault(field, f"expected at most {_MOST_VALUES} values, got {shown(parts[2])} of them"))
    if len(parts) == 4 and low <= 0:
        raise InputError(Fault(field, f"expected a range above 0 for even ratios, got {text!r}"))
    values = (np.geomspace if len(parts) == 4 else np.linspace)(low, high, int(parts[2]))
    return np.unique(np.round(values)) if SHORTCUTS.get(field, field) in _WHOLE else values


def span(field: str, text: str):
    """Range of a number as ``(low, high)``, or a list of choices."""
    wanted = unit_of(field)
    parts = [part.strip() for part in text.split(":")]
    if wanted is None or len(parts) == 1:
        return _listed(field, text, wanted)
    return tuple(_number(field, part, wanted) for part in parts[:2])


def _listed(field: str, text: str, wanted: str | None) -> list:
    from joulesim.cli.scenario import _plain

    values = [part.strip() for part in text.split(",") if part.strip()]
    if not values:
        raise InputError(Fault(field, "expected at least one value, got an empty range"))
    return values if wanted is not None else [_plain(value) for value in values]


def _number(field: str, text: str, wanted: str) -> float:
    if wanted == "token" and text.isdigit():
        return float(text)
    return units.quantity(text, wanted, field)


def _design(text: str, fields: dict[str, Any]) -> dict[str, Any]:
    from joulesim import design

    kind, _, n = text.partition(":")
    makers = {"sobol": design.sobol, "random": design.random_design}
    if kind not in makers or not n.isdigit():
        raise InputError(Fault("--design", f"expected sobol:N or random:N, got {text!r}"))
    return makers[kind](int(n), fields)
