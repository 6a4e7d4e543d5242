"""JSON from a file somebody else wrote: bounded in size and depth, each key once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from joulesim.errors import Fault, InputError, NotFoundError

LARGEST = 16 << 20
"""Largest config read. [B]"""
DEEPEST = 64
"""Most brackets open at once."""

_OUTSIDE = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)


def read_json(path: Path, where: str | None = None) -> dict[str, Any]:
    """
    Object that a JSON file holds.

    Parameters
    ----------
    path : Path
        File to read.
    where : str, optional
        What to call the file in a fault; its path by default.

    Raises
    ------
    NotFoundError
        When the file cannot be read.
    InputError
        When it is larger than :data:`LARGEST`, nested deeper than :data:`DEEPEST`, not JSON, says one key twice,
        or holds something other than an object.
    """
    where = where or str(path)
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        raise NotFoundError(Fault(where, f"cannot be read ({error.strerror or error})", "check the path")) from None
    if len(raw) > LARGEST:
        raise InputError(
            Fault(
                where,
                f"expected a config of at most {LARGEST} bytes, got a larger file",
                "give the config.json, not the weights",
            )
        )
    return parse_json(raw, where)


def parse_json(raw: bytes, where: str) -> dict[str, Any]:
    """Object in JSON text; see :func:`read_json` for what is refused."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            Fault(where, f"expected JSON text, got bytes that are not UTF-8 (at byte {error.start})")
        ) from None
    if not text.strip():
        raise InputError(
            Fault(where, "expected a JSON object, got an empty file", "copy the model's config.json again")
        )
    _check_depth(text, where)
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                twice.append(key)
            found[key] = value
        return found

    try:
        data = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        place = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else type(error).__name__
        problem = error.msg if isinstance(error, json.JSONDecodeError) else "a number out of range"
        raise InputError(
            Fault(
                where,
                f"expected JSON, got something else ({problem}, {place})",
                "copy the file again, it may be cut",
            )
        ) from None
    if twice:
        raise InputError(
            [Fault(where, f"the key {key!r} stands twice", "remove one of them") for key in dict.fromkeys(twice)]
        )
    if not isinstance(data, dict):
        raise InputError(
            Fault(where, f"expected a JSON object, got {type(data).__name__}", "give the model's config.json")
        )
    return data


def _check_depth(text: str, where: str) -> None:
    depth = 0
    for match in _OUTSIDE.finditer(text):
        token = match.group()
        if token in "[{":
            depth += 1
            if depth > DEEPEST:
                raise InputError(Fault(where, f"expected at most {DEEPEST} nested brackets, got more"))
        elif token in "]}":
            depth -= 1
