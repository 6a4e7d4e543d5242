"""What went wrong with an input, one line a fault."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """
    One thing wrong with an input.

    ``where`` names the file and field, ``what`` says what was expected and what came, ``remedy`` what
    to do about it.
    """

    where: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        line = f"{self.where}: {self.what}" if self.where else self.what
        mark = "." if self.remedy[:1].isupper() else ";"
        return " ".join((f"{line}{mark} {self.remedy}" if self.remedy else line).splitlines())


class JoulesimError(Exception):
    """Base of every error that joulesim raises on purpose."""


class InputError(JoulesimError, ValueError):
    """An input that cannot be used. Carries every fault found in it, not only the first."""

    def __init__(self, faults: Fault | Iterable[Fault]):
        self.faults = (faults,) if isinstance(faults, Fault) else tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))


class NotFoundError(InputError, LookupError):
    """A name that is neither shipped nor a file."""


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def shown(value: object) -> str:
    """What came, short enough for one line however large or nested it is."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return "a number of thousands of digits"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Closest known name as a question, or an empty string when nothing is close."""
    close = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.6)
    return f"Did you mean {close[0]}?" if close else ""
