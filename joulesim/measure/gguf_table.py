"""
Keys and tensor table of a ``.gguf``, without its lists and without its weights.

The vocabulary of a large model takes the ``gguf`` package half a minute to read; nothing here needs it. Lengths in the
file are not believed: a count that runs beyond the end is a fault.

References
----------
ggml-org/ggml ``docs/gguf.md``.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import Any, NamedTuple

from joulesim.errors import Fault, InputError

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
_TYPES = {
    0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 9: "q8_1", 10: "q2_k", 11: "q3_k",
    12: "q4_k", 13: "q5_k", 14: "q6_k", 15: "q8_k", 16: "iq2_xxs", 17: "iq2_xs", 18: "iq3_xxs", 19: "iq1_s",
    20: "iq4_nl", 21: "iq3_s", 22: "iq2_s", 23: "iq4_xs", 24: "i8", 25: "i16", 26: "i32", 27: "i64", 28: "f64",
    29: "iq1_m", 30: "bf16", 34: "tq1_0", 35: "tq2_0", 39: "mxfp4",
}
"""``ggml_type`` -> format."""


class StoredTensor(NamedTuple):
    """A tensor of the table; ``size`` has the columns first."""

    name: str
    size: tuple[int, ...]
    format: str


class Table(NamedTuple):
    """What a file says about itself."""

    keys: dict[str, Any]
    """Scalars and text."""
    tensors: list[StoredTensor]


def read_table(path: str | os.PathLike) -> Table:
    """
    Keys and tensors of a file.

    Raises
    ------
    InputError
        When it is no ``.gguf`` or is cut short.
    """
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data).table()
    except (OSError, ValueError, struct.error, IndexError, UnicodeDecodeError) as error:
        what = f"expected a .gguf, got one that cannot be read ({error})"
        raise InputError(Fault(str(path), what, "download it again")) from None


_MOST_LAYERS = 1000
"""Longest list of numbers that is read."""


class _Reader:
    def __init__(self, data):
        self._data, self._at = data, 0

    def table(self) -> Table:
        if self._data[:4] != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        self._at = 4
        version, n_tensors, n_keys = self._take("I"), self._take("Q"), self._take("Q")
        if version not in (2, 3):
            raise ValueError(f"version {version}")
        keys = {}
        for _ in range(n_keys):
            name, value = self._text(), self._value(self._take("I"))
            if value is not None:
                keys[name] = value
        tensors = []
        for _ in range(n_tensors):
            name = self._text()
            size = tuple(self._take("Q") for _ in range(self._take("I")))
            kind = self._take("I")
            self._take("Q")
            tensors.append(StoredTensor(name, size, _TYPES.get(kind, f"type {kind}")))
        return Table(keys, tensors)

    def _take(self, form: str):
        (value,) = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += struct.calcsize(f"<{form}")
        return value

    def _text(self) -> str:
        length = self._take("Q")
        if self._at + length > len(self._data):
            raise ValueError("text beyond the end")
        self._at += length
        return self._data[self._at - length:self._at].decode()

    def _value(self, kind: int):
        """A scalar, text or numbers layer by layer; ``None`` for another list, which is passed over."""
        if kind == _TEXT:
            return self._text()
        if kind != _LIST:
            return self._take(_SCALARS[kind]) if kind in _SCALARS else self._unknown(kind)
        of, count = self._take("I"), self._take("Q")
        if of == _TEXT:
            for _ in range(count):
                length = self._take("Q")
                self._at += length
        elif of in _SCALARS and count <= _MOST_LAYERS:
            return [self._take(_SCALARS[of]) for _ in range(count)]
        elif of in _SCALARS:
            self._at += count * struct.calcsize(f"<{_SCALARS[of]}")
        else:
            self._unknown(of)
        if self._at > len(self._data):
            raise ValueError("a list beyond the end")
        return None

    @staticmethod
    def _unknown(kind: int):
        raise ValueError(f"a value of kind {kind}")
