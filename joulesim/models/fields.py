"""Typed fields of a config, each under any of its names; faults are kept and raised together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from joulesim.errors import Fault, InputError

MOST_LAYERS = 2_000
WIDEST = 10_000_000
"""Largest width, head count or expert count taken for real."""
REQUIRED = object()
"""Default of a field that must be there."""


def short(value: Any) -> str:
    """Value as text of one line that fits in a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Fields:
    """
    A config being read.

    ``None`` counts as absent, as Hugging Face configs mean it. A wrong field is recorded and stands in as its
    default (or 1), so that one reading finds every fault; :meth:`check` raises them.

    Parameters
    ----------
    data : Mapping
        The config, or the part of it that describes the language model.
    where : str
        What to call it in a fault.
    defaults : Mapping, optional
        Values that the family's own code assumes where the config is silent; each use is a note.
    """

    def __init__(self, data: Mapping[str, Any], where: str, defaults: Mapping[str, Any] | None = None):
        self.data, self.where, self.defaults = data, where, defaults or {}
        self.used: set[str] = set()
        self.faults: list[Fault] = []
        self.notes: list[str] = []

    def fault(self, name: str, what: str, remedy: str = "") -> None:
        """Record a fault of one field."""
        fault = Fault(f"{self.where}: {name}", what, remedy)
        if fault not in self.faults:
            self.faults.append(fault)

    def note(self, line: str) -> None:
        """Record an unobvious reading."""
        if line not in self.notes:
            self.notes.append(line)

    def check(self) -> None:
        """Raise what was wrong so far."""
        if self.faults:
            raise InputError(self.faults)

    def value(self, *names: str) -> Any:
        """First of the names that has a value, else ``None``."""
        self.used.update(names)
        given = next((self.data[name] for name in names if self.data.get(name) is not None), None)
        if given is None:
            for name in names:
                if name in self.defaults:
                    self.note(f"{name} is not in the config: {short(self.defaults[name])}, the default of its family")
                    return self.defaults[name]
        return given

    def has(self, name: str) -> bool:
        """Whether a field is there and not null."""
        return self.data.get(name) is not None

    def whole(self, *names: str, default: Any = REQUIRED, low: int = 1, high: int = WIDEST) -> Any:
        """Whole number between two bounds."""
        given = self.value(*names)
        if given is None:
            if default is REQUIRED:
                self.fault(names[0], "expected a whole number, got nothing", "add it")
                return max(low, 1)
            return default
        return self._whole(names[0], given, low, high)

    def _whole(self, name: str, given: Any, low: int, high: int) -> int:
        number = isinstance(given, (int, float)) and not isinstance(given, bool)
        if not number or given != given or abs(given) == float("inf") or given != int(given):
            self.fault(name, f"expected a whole number, got {short(given)}")
        elif not low <= given <= high:
            self.fault(name, f"expected a whole number from {low} to {high}, got {short(given)}")
        else:
            return int(given)
        return max(low, 1)

    def per_layer(
        self, *names: str, layers: int, default: Any = REQUIRED, low: int = 0, high: int = WIDEST
    ) -> list[int]:
        """Whole number of each layer, from one number for all or a list with one for each."""
        given = self.value(*names)
        if isinstance(given, list):
            return [self._whole(names[0], item, low, high) for item in self._long_enough(names[0], given, layers)]
        return [self.whole(*names, default=default, low=low, high=high)] * layers

    def each(self, name: str, layers: int) -> list[Any] | None:
        """List with one item a layer, or ``None`` when absent or empty; items past the last layer are dropped."""
        given = self.value(name)
        if given is None or given == []:
            return None
        if not isinstance(given, (list, str)):
            self.fault(name, f"expected a list with one item a layer, got {short(given)}")
            return None
        return self._long_enough(name, list(given), layers)

    def _long_enough(self, name: str, given: list[Any], layers: int) -> list[Any]:
        if len(given) < layers:
            self.fault(name, f"expected {layers} items, one a layer, got {len(given)}")
            return (given + given[-1:] * layers)[:layers] if given else [0] * layers
        return given[:layers]

    def flag(self, *names: str, default: bool = False) -> bool:
        """Truth value; 0 and 1 are taken too."""
        given = self.value(*names)
        if given is None:
            return default
        if given in (0, 1):
            return bool(given)
        self.fault(names[0], f"expected true or false, got {short(given)}")
        return default

    def text(self, *names: str, default: str = "") -> str:
        """Text."""
        given = self.value(*names)
        if given is None or isinstance(given, str):
            return default if given is None else given
        self.fault(names[0], f"expected text, got {short(given)}")
        return default

    def part(self, name: str) -> Mapping[str, Any]:
        """Nested mapping, empty when absent."""
        given = self.value(name)
        if given is None or isinstance(given, Mapping):
            return given or {}
        self.fault(name, f"expected a mapping of fields, got {short(given)}")
        return {}

    def ignore(self, names: Iterable[str]) -> None:
        """Count fields as read that change neither shapes nor caches here."""
        self.used.update(names)
