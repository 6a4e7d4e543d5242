"""Files of records: one JSON line a record, only ever appended to, one writer at a time."""

from __future__ import annotations

import errno
import json
import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from joulesim.errors import Fault, InputError, JoulesimError, NotFoundError
from joulesim.measure.record import SCHEMA_VERSION, Record, content_hash
from joulesim.specs.base import faults_of

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["Record", "RecordFile", "RecordFileError", "Records", "UnusedRows", "read_records"]


class RecordFileError(JoulesimError, OSError):
    """A file of records that cannot be written to."""

    def __init__(self, fault: Fault):
        self.faults = (fault,)
        super().__init__(str(fault))


class UnusedRows(UserWarning):
    """Rows of a file that were left out; each has its fault in :attr:`Records.faults`."""


class Records(Sequence[Record]):
    """Records in the order of their file, and the faults of the rows that could not be used."""

    def __init__(self, records: Iterable[Record], faults: Iterable[Fault] = ()):
        self._records = tuple(records)
        self.faults = tuple(faults)

    def __getitem__(self, index):
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"<{len(self)} records, {len(self.faults)} rows not used>"

    def all_or_error(self) -> Records:
        """These records, or one error with every fault when a row could not be used."""
        if self.faults:
            raise InputError(self.faults)
        return self


def read_records(path: str | os.PathLike) -> Records:
    """
    Records of a file.

    A line that a killed writer left half-written, and a line whose content does not match its hash, are left
    out, reported by line in :attr:`Records.faults`, and said in one :class:`UnusedRows` warning. The file is
    not changed.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        fault = Fault(str(path), "no such file", "give the path of a record file (.jsonl)")
        raise NotFoundError(fault) from None
    except OSError as error:
        raise InputError(Fault(str(path), f"expected a readable file, got {error.strerror}")) from None
    records, faults, _ = _parse(data, str(path))
    if faults:
        more = f" (and {len(faults) - 1} more)" if faults[1:] else ""
        warnings.warn(f"{faults[0]}{more}", UnusedRows, stacklevel=2)
    return Records(records, faults)


def _parse(data: bytes, where: str) -> tuple[list[Record], list[Fault], bytes]:
    """Records, faults and the torn tail of a file's content."""
    *lines, tail = data.split(b"\n")
    records, faults = [], []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            read = _read_line(line, f"{where}:{number}")
            (records if isinstance(read, Record) else faults).append(read)
    if tail:
        read = _read_line(tail, f"{where}:{len(lines) + 1}")
        if isinstance(read, Record):
            return [*records, read], faults, b""
        what = f"half-written record ({len(tail)} bytes): its writer was stopped"
        faults.append(Fault(read.where, what, "measure that point again; records before it are complete"))
    return records, faults, tail if tail and not isinstance(read, Record) else b""


def _read_line(line: bytes, where: str) -> Record | Fault:
    try:
        data = json.loads(line)
    except ValueError:
        return Fault(where, f"expected one JSON object, got {line[:40]!r}", "measure that point again")
    if not isinstance(data, dict):
        return Fault(where, f"expected a record, got {line[:40]!r}")
    version = data.get("schema_version")
    if not isinstance(version, int):
        return Fault(where, f"expected a record with a schema_version, got {version!r}",
                     "import other formats through joulesim.measure.importers")
    if version > SCHEMA_VERSION:
        what = f"written by a newer joulesim (schema {version}, this one reads {SCHEMA_VERSION})"
        return Fault(where, what, "update joulesim")
    stated = data.pop("hash", None)
    if stated != content_hash(data):
        return Fault(where, "content does not match its hash", "the record was altered after it was written")
    try:
        return Record.model_validate(data)
    except ValidationError as error:
        first, *more = faults_of(error, where, Record)
        also = f" (and {len(more)} more faults)" if more else ""
        return Fault(first.where, first.what + also, first.remedy)


class RecordFile:
    """
    A file of records, open for appending by this process alone.

    Opening it sets a half-written last line aside into ``<name>.torn``; each :meth:`append` is on disk when
    it returns. What was written is never changed.

    Examples
    --------
    >>> with RecordFile("campaign.jsonl") as file:                      # doctest: +SKIP
    ...     done = {record.campaign.point for record in file.records}
    ...     file.append(record)
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.torn: Fault | None = None
        """The half-written line that was set aside, if there was one."""
        self._fd: int | None = self._open()
        try:
            self._lock()
            data = self.path.read_bytes()
            records, faults, tail = _parse(data, str(self.path))
            self._records = records
            self.faults = tuple(faults)
            """Lines that cannot be used."""
            if tail:
                self._set_aside(tail, len(data) - len(tail), faults[-1])
            elif data and not data.endswith(b"\n"):
                self._write(b"\n")
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def records(self) -> Records:
        """Records in the file, those appended by this process included."""
        return Records(self._records, self.faults)

    def append(self, record: Record) -> None:
        """Write one record and wait until it is on disk."""
        data: dict[str, Any] = {**record.plain(), "hash": record.hash}
        self._write(json.dumps(data, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        self._records.append(record)

    def close(self) -> None:
        """Give the file free for others."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _open(self) -> int:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = not self.path.exists()
            fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            if new:
                _sync_folder(self.path.parent)
            return fd
        except OSError as error:
            what = f"expected a file that can be written, got {error.strerror}"
            fault = Fault(str(self.path), what, "choose a folder that you may write to")
            raise RecordFileError(fault) from None

    def _lock(self) -> None:
        try:
            if fcntl is not None:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            else:
                import msvcrt

                os.lseek(self._fd, _LOCKED_BYTE, os.SEEK_SET)
                msvcrt.locking(self._fd, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            what = f"expected a file that can be locked, got {error.strerror}"
            remedy = "write to a local disk"
            if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
                what = "expected to be its only writer, another process has it open"
                remedy = "wait for that campaign to end, or write to another file"
            raise RecordFileError(Fault(str(self.path), what, remedy)) from None

    def _set_aside(self, tail: bytes, complete: int, fault: Fault) -> None:
        """Move a torn tail to its own file, then cut it off."""
        aside = self.path.with_name(self.path.name + ".torn")
        try:
            with open(aside, "ab") as out:
                out.write(tail + b"\n")
                out.flush()
                os.fsync(out.fileno())
            os.ftruncate(self._fd, complete)
            os.fsync(self._fd)
        except OSError as error:
            raise self._cannot_write(error) from None
        self.torn = Fault(fault.where, fault.what, f"it was moved to {aside}; that point is measured again")

    def _write(self, line: bytes) -> None:
        """Append bytes as one whole, or nothing."""
        if self._fd is None:
            what = "expected an open file, it is closed"
            raise RecordFileError(Fault(str(self.path), what, "open it again"))
        before = os.fstat(self._fd).st_size
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._fd, rest):]
            os.fsync(self._fd)
        except OSError as error:
            try:
                os.ftruncate(self._fd, before)
            except OSError:  # the torn line stays, so nothing may follow it until the file is opened again
                self.close()
            raise self._cannot_write(error) from None

    def _cannot_write(self, error: OSError) -> RecordFileError:
        what = f"record not written: {error.strerror}; the {len(self._records)} records before it are safe"
        remedy = "make room, then start the same command again to resume"
        return RecordFileError(Fault(str(self.path), what, remedy))


_LOCKED_BYTE = 1 << 40
"""Windows locks bytes, not files; this one lies beyond any record."""


def _sync_folder(folder: Path) -> None:
    """Make a new file's name durable; Windows has no such call."""
    if fcntl is None:
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
