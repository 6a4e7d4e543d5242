"""
Header of a ``.gguf`` file: its keys and its table of tensors, without the weights.

The header is walked here, forwards and once, with every count checked against the bytes that are left: the
library's own reader turns each tokenizer entry into objects and believes the counts. Names and block sizes of
tensor types come from the ``gguf`` package.
"""

from __future__ import annotations

import re
import struct
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from joulesim.errors import Fault, InputError, NotFoundError

MOST_KEYS = 100_000
MOST_TENSORS = 1_000_000
LONGEST_NAME = 65_535
LONGEST_KEPT = 20_000
"""Items of the longest array kept; longer ones (tokenizers) are measured, not kept."""
_VERSIONS = (2, 3)
_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
_LEAST_KEY, _LEAST_TENSOR = 13, 33
_ALIGNMENT = 32
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


class Length(int):
    """Number of items of an array that was not kept."""


class StoredTensor(NamedTuple):
    """One row of the tensor table. ``shape`` has the contiguous direction first, as ggml does."""

    name: str
    shape: tuple[int, ...]
    format: str
    bytes: int
    offset: int


class Header(NamedTuple):
    """Keys and tensors of a file, or of all parts of a split one."""

    keys: dict[str, Any]
    tensors: tuple[StoredTensor, ...]


def read_header(path: Path) -> Header:
    """
    Keys and tensor table of a ``.gguf`` file, its further parts included when it is split.

    Raises
    ------
    NotFoundError
        When the file or a part of it cannot be read.
    InputError
        When it is not a GGUF of version 2 or 3, is cut, claims more than it holds, or needs the ``gguf`` package
        and that is not installed.
    """
    header = _one(path)
    parts = header.keys.get("split.count")
    if not isinstance(parts, int) or parts < 2:
        return header
    match = _PART.search(path.name)
    if match is None or int(match.group(2)) != parts:
        raise InputError(
            Fault(
                str(path),
                f"is one of {parts} parts, and its name does not say which",
                "keep the names X-00001-of-0000N.gguf, all in one folder",
            )
        )
    names = [path.with_name(f"{path.name[: match.start()]}-{i:05d}-of-{parts:05d}.gguf") for i in range(1, parts + 1)]
    headers = [header if name == path else _one(name) for name in names]
    return Header(headers[0].keys, tuple(tensor for part in headers for tensor in part.tensors))


def _one(path: Path) -> Header:
    types = _types(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            return _Walk(file, size, str(path)).header(types)
    except OSError as error:
        raise NotFoundError(Fault(str(path), f"cannot be read ({error.strerror or error})", "check the path")) from None


def _types(path: Path) -> dict[int, tuple[str, int, int]]:
    """Name, block weights and block bytes of each ggml type number."""
    try:
        from gguf.constants import GGML_QUANT_SIZES
    except ImportError:
        raise InputError(
            Fault(str(path), "reading a .gguf needs the gguf package", "pip install joulesim[gguf]")
        ) from None
    return {kind.value: (kind.name.lower(), *sizes) for kind, sizes in GGML_QUANT_SIZES.items()}


class _Walk:
    """Position in a header, with checks that name the file."""

    def __init__(self, file: BinaryIO, size: int, where: str):
        self.file, self.left, self.size, self.where = file, size, size, where

    def fail(self, what: str, remedy: str = "copy the file again, it is damaged or cut") -> InputError:
        return InputError(Fault(self.where, what, remedy))

    def raw(self, count: int) -> bytes:
        if count > self.left:
            raise self.fail(f"expected {count} more bytes of header, the file has {self.left}")
        self.left -= count
        return self.file.read(count)

    def skip(self, count: int) -> None:
        if count > self.left:
            raise self.fail(f"expected {count} more bytes of header, the file has {self.left}")
        self.left -= count
        self.file.seek(count, 1)

    def number(self, format: str) -> Any:
        data = self.raw(struct.calcsize(format))
        try:
            return struct.unpack(format, data)[0]
        except struct.error:
            raise self.fail("the file ended while it was read") from None

    def text(self, longest: int = LONGEST_NAME) -> str:
        length = self.number("<Q")
        if length > longest:
            raise self.fail(f"expected a name of at most {longest} bytes, got one of {length}")
        return self.raw(length).decode("utf-8", "replace")

    def count(self, what: str, most: int, least_bytes: int) -> int:
        found = self.number("<Q")
        if found > most or found * least_bytes > self.left:
            raise self.fail(f"claims {found} {what}, more than a file of {self.size} bytes can hold")
        return found

    def header(self, types: dict[int, tuple[str, int, int]]) -> Header:
        if self.raw(4) != b"GGUF":
            raise self.fail("expected a GGUF file, got something else", "give a .gguf")
        version = self.number("<I")
        if version not in _VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS
            raise self.fail(
                "is a big-endian GGUF" if swapped else f"expected GGUF version 2 or 3, got {version}",
                "convert the model again with a current llama.cpp",
            )
        n_tensors, n_keys = (
            self.count("tensors", MOST_TENSORS, _LEAST_TENSOR),
            self.count("keys", MOST_KEYS, _LEAST_KEY),
        )
        keys: dict[str, Any] = {}
        for _ in range(n_keys):
            name = self.text()
            if name in keys:
                raise self.fail(f"the key {name!r} stands twice")
            keys[name] = self.value(name, self.number("<I"))
        tensors = tuple(self.tensor(types) for _ in range(n_tensors))
        self._check_data(keys, tensors)
        return Header(keys, tensors)

    def value(self, name: str, kind: int) -> Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.long_text()
        if kind != _ARRAY:
            raise self.fail(f"the key {name!r} has a value of unknown type {kind}")
        item = self.number("<I")
        if item == _STRING:
            return self.texts(self.count(f"items of {name!r}", self.size, 8))
        if item not in _SCALARS:
            raise self.fail(f"the key {name!r} is an array of unknown type {item}")
        width = struct.calcsize(_SCALARS[item])
        length = self.count(f"items of {name!r}", self.size, width)
        if length > LONGEST_KEPT:
            self.skip(length * width)
            return Length(length)
        return list(struct.unpack(f"<{length}{_SCALARS[item][1]}", self.raw(length * width)))

    def long_text(self) -> str:
        """Text of which the first part is kept: chat templates are long and not needed."""
        length = self.number("<Q")
        kept = self.raw(min(length, LONGEST_NAME))
        self.skip(length - len(kept))
        return kept.decode("utf-8", "replace")

    def texts(self, length: int) -> Length:
        for _ in range(length):
            self.skip(self.number("<Q"))
        return Length(length)

    def tensor(self, types: dict[int, tuple[str, int, int]]) -> StoredTensor:
        name, dimensions = self.text(), self.number("<I")
        if not 1 <= dimensions <= 4:
            raise self.fail(f"tensor {name!r}: expected 1 to 4 dimensions, got {dimensions}")
        shape = tuple(self.number("<Q") for _ in range(dimensions))
        kind, offset = self.number("<I"), self.number("<Q")
        if kind not in types:
            raise self.fail(
                f"tensor {name!r} has type {kind}, which the installed gguf package does not know",
                "upgrade it: pip install --upgrade gguf",
            )
        format, block, block_bytes = types[kind]
        weights = prod(shape)
        if not weights or shape[0] % block:
            raise self.fail(f"tensor {name!r}: expected rows of whole {format} blocks ({block}), got the shape {shape}")
        return StoredTensor(name, shape, format, weights // block * block_bytes, offset)

    def _check_data(self, keys: dict[str, Any], tensors: tuple[StoredTensor, ...]) -> None:
        """Whether the file is long enough for the data of its last tensor."""
        alignment = keys.get("general.alignment", _ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1:
            raise self.fail(f"expected an alignment of at least 1, got {alignment!r}")
        start = -(-(self.size - self.left) // alignment) * alignment
        last = max(tensors, key=lambda tensor: tensor.offset + tensor.bytes, default=None)
        if last is not None and start + last.offset + last.bytes > self.size:
            raise self.fail(
                f"ends before the data of tensor {last.name!r} ({start + last.offset + last.bytes} bytes needed, "
                f"{self.size} there)",
                "copy the file again, it is cut",
            )
