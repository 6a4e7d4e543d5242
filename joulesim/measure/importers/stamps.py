"""Time stamps as logs write them, as seconds since 1970 (UTC)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from joulesim.errors import Fault, InputError

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")
_LOCAL = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%m-%d-%Y %H:%M:%S.%f", "%m-%d-%Y %H:%M:%S")
"""nvidia-smi; PTDaemon and tegrastats, month first."""
_FIRST_MILLISECOND = 1e11
"""Seconds reach this number in the year 5138, milliseconds did in 1973."""


class NoZone(ValueError):
    """A local time stamp, and nobody says local to where."""


def zone(name: str, where: str) -> tzinfo:
    """Time zone by IANA name (``Europe/Berlin``), offset (``+02:00``) or ``UTC``."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    if offset := _OFFSET.fullmatch(name):
        minutes = int(offset[2]) * 60 + int(offset[3])
        return timezone(timedelta(minutes=minutes if offset[1] == "+" else -minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        fault = Fault(where, f"expected a time zone, got {name!r}", "write it as e.g. 'Europe/Berlin' or '+02:00'")
        raise InputError(fault) from None


def unix(text: str, local: tzinfo | None = None) -> tuple[float, bool]:
    """
    Seconds since 1970, and whether the stamp had no zone of its own and ``local`` was used.

    Four styles: ``2025/01/15 12:34:56.789`` (nvidia-smi, local time), ISO 8601 with or without a zone, seconds
    and milliseconds since 1970. ``01-15-2025 12:34:56.789`` (PTDaemon, tegrastats) is read month first.

    Raises
    ------
    ValueError
        When the text is none of them; :class:`NoZone` when it has no zone and ``local`` is not given.

    Examples
    --------
    >>> unix("1736944496789"), unix("2025-01-15T12:34:56.789Z")
    ((1736944496.789, False), (1736944496.789, False))
    """
    if _NUMBER.fullmatch(text):
        number = float(text)
        return (number / 1e3 if number >= _FIRST_MILLISECOND else number), False
    moment = _moment(text)
    if moment.tzinfo is not None:
        return moment.timestamp(), False
    if local is None:
        raise NoZone(f"time stamp {text!r} has no zone")
    return moment.replace(tzinfo=local).timestamp(), True


def _moment(text: str) -> datetime:
    for style in _LOCAL:
        try:
            return datetime.strptime(text, style)
        except ValueError:
            continue
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"expected a time stamp, got {text!r}") from None
