"""
llama.cpp's saved cache of one sequence, made longer by repeating its entries.

A cache of 8,000 tokens takes a minute to compute and a moment to copy. The layout is llama.cpp's own and not promised
to last, so anything unexpected in it gives ``None`` and the caller computes the cache instead.

References
----------
ggml-org/llama.cpp ``src/llama-kv-cache.cpp``, ``state_write``, ``state_write_meta``, ``state_write_data``;
``src/llama-kv-cache-iswa.cpp``, ``state_write``: where some layers look through a window, theirs is a second cache behind.
"""

from __future__ import annotations

import struct


class _Unexpected(Exception):
    pass


def repeated(state: bytes, length: int, streams: int = 1) -> bytearray | None:
    """
    State of a sequence of ``length`` tokens that repeats the entries of a shorter one.

    ``state`` is of the only sequence of a context, what is returned of the first one of a context of ``streams``. ``None``
    when the layout is not the known one, with or without a header of eight bytes.
    """
    for header in (0, 8):
        try:
            found, at = bytearray(state[:header]), header
            while at < max(len(state), header + 1):  # an empty state is not a known one
                part, at = _repeated(state, at, length, streams)
                found += part
            return found
        except (_Unexpected, struct.error):
            continue
    return None


def _repeated(state: bytes, at: int, length: int, streams: int) -> tuple[bytearray, int]:
    """One cache of the state, repeated, and where it ends."""
    out = bytearray()

    def take(form: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(form, state, at)
        at += struct.calcsize(form)
        return value

    if take("<I") != 1:  # streams
        raise _Unexpected
    cells = take("<I")
    if not 0 < cells <= length or cells > 1 << 20:
        raise _Unexpected
    out += struct.pack("<II", streams, length)
    names = ()
    for expected in range(cells):
        position, named = take("<i"), take("<I")
        if position != expected or named > 1:
            raise _Unexpected
        names = tuple(take("<i") for _ in range(named))
    for position in range(length):
        out += struct.pack(f"<iI{len(names)}i", position, len(names), *names)
    transposed, layers = take("<I"), take("<I")
    if transposed not in (0, 1) or not 0 <= layers < 10_000:
        raise _Unexpected
    out += struct.pack("<II", transposed, layers)
    for values in (False, True):
        for _ in range(layers):
            out += struct.pack("<i", kind := take("<i"))
            if not 0 <= kind < 256:
                raise _Unexpected
            if values and transposed:
                element, rows = take("<I"), take("<I")
                out += struct.pack("<II", element, rows)
                row_bytes, count = cells * element, rows
            else:
                row = take("<Q")
                out += struct.pack("<Q", row)
                row_bytes, count = cells * row, 1
            if row_bytes <= 0 or at + row_bytes * count > len(state):
                raise _Unexpected
            wanted = row_bytes // cells * length
            for _ in range(count):
                block = state[at:at + row_bytes]
                at += row_bytes
                out += (block * (-(-length // cells)))[:wanted]
    return out + bytes(4 * (streams - 1)), at  # no cells in the others
