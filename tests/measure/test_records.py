"""Record files: nothing complete is lost or altered, whatever stops the writer."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joulesim.errors import InputError, NotFoundError
from joulesim.measure import records as records_module
from joulesim.measure.record import Record, content_hash
from joulesim.measure.records import RecordFile, RecordFileError, UnusedRows, read_records

from .points import measured, unmetered


def test_round_trip_is_exact(tmp_path):
    path = tmp_path / "deep" / "records.jsonl"
    written = [measured(energy=0.1 + 0.2, time=3.0), unmetered(), measured(energy=123.0, time=1e-3)]
    with RecordFile(path) as file:
        for record in written:
            file.append(record)
    assert list(read_records(path)) == written
    assert [r.hash for r in read_records(path)] == [r.hash for r in written]


def test_unknown_energy_is_written_as_null_with_its_reason(tmp_path):
    with RecordFile(tmp_path / "r.jsonl") as file:
        file.append(unmetered())
    line = json.loads((tmp_path / "r.jsonl").read_text())
    assert line["energy"] is None
    assert line["energy_reason"]["code"] == "no-meter"


def test_appending_keeps_what_is_there(tmp_path):
    path = tmp_path / "r.jsonl"
    with RecordFile(path) as file:
        file.append(measured(energy=1.0))
    before = path.read_bytes()
    with RecordFile(path) as file:
        file.append(measured(energy=2.0))
        assert [r.energy for r in file.records] == [1.0, 2.0]
    assert path.read_bytes().startswith(before)


def test_second_writer_is_refused(tmp_path):
    path = tmp_path / "r.jsonl"
    message = "expected to be its only writer, another process has it open; wait for that campaign to end"
    with RecordFile(path), pytest.raises(RecordFileError, match=message):
        RecordFile(path)
    RecordFile(path).close()


def test_file_system_without_locks(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(records_module.fcntl, "flock", refuse)
    with pytest.raises(
        RecordFileError, match="expected a file that can be locked, got No locks available; write to"
    ):
        RecordFile(tmp_path / "r.jsonl")


def test_windows_locks_one_byte(tmp_path, monkeypatch):
    class Msvcrt:
        LK_NBLCK = 2
        locked = []

        @classmethod
        def locking(cls, fd, mode, length):
            cls.locked.append((mode, length))

    monkeypatch.setitem(sys.modules, "msvcrt", Msvcrt)
    monkeypatch.setattr(records_module, "fcntl", None)
    with RecordFile(tmp_path / "r.jsonl") as file:
        file.append(measured())
    assert Msvcrt.locked == [(2, 1)]
    assert len(read_records(tmp_path / "r.jsonl")) == 1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_cut_anywhere_keeps_every_complete_record(tmp_path, data):
    path = tmp_path / f"{data.draw(st.integers(0, 10**9))}.jsonl"
    written = [measured(energy=float(n + 1)) for n in range(3)]
    with RecordFile(path) as file:
        for record in written:
            file.append(record)
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    complete = sum(end <= cut + 1 for end in ends)  # a record that lacks its newline only is complete

    with RecordFile(path) as file:
        assert list(file.records) == written[:complete]
        torn = cut not in (0, *ends) and cut + 1 not in ends
        assert (file.torn is not None) == torn
        for record in written[complete:]:
            file.append(record)
    assert path.read_bytes() == whole
    aside = path.with_name(path.name + ".torn")
    if torn:
        start = max([end for end in ends if end <= cut], default=0)
        assert aside.read_bytes() == whole[start:cut] + b"\n"
        aside.unlink()
    path.unlink()


def test_torn_tail_is_reported_when_reading_and_the_file_left_alone(tmp_path):
    path = tmp_path / "r.jsonl"
    with RecordFile(path) as file:
        file.append(measured())
    torn = path.read_bytes() + b'{"schema_version": 1, "prov'
    path.write_bytes(torn)
    message = r"r.jsonl:2: half-written record \(27 bytes\): its writer was stopped; measure that point again"
    with pytest.warns(UnusedRows, match=message):
        records = read_records(path)
    assert len(records) == 1
    assert path.read_bytes() == torn
    with pytest.raises(InputError, match="half-written"):
        records.all_or_error()


def test_torn_tail_is_moved_aside_when_writing(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"half')
    with RecordFile(path) as file:
        assert "it was moved to" in str(file.torn)
    assert path.read_bytes() == b""
    assert (tmp_path / "r.jsonl.torn").read_bytes() == b'{"half\n'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\x00\x00\x00", "expected one JSON object, got .*; measure that point again"),
        (b"[1]", "expected a record, got"),
        (b'{"a": 1}', "expected a record with a schema_version, got None; import other formats through"),
        (b'{"schema_version": 9}', r"a newer joulesim \(schema 9, this one reads 1\); update joulesim"),
    ],
)
def test_lines_that_are_no_records(tmp_path, line, message):
    path = tmp_path / "r.jsonl"
    with RecordFile(path) as file:
        file.append(measured())
    path.write_bytes(line + b"\n" + path.read_bytes())
    with pytest.warns(UnusedRows, match="r.jsonl:1: .*" + message):
        assert len(read_records(path)) == 1


def test_altered_record_is_refused(tmp_path):
    path = tmp_path / "r.jsonl"
    with RecordFile(path) as file:
        file.append(measured(energy=100.0, time=1.0))
    path.write_text(path.read_text().replace('"energy": 100.0', '"energy": 99.0'))
    with pytest.warns(UnusedRows, match="r.jsonl:1: content does not match its hash; the record was altered"):
        assert len(read_records(path)) == 0


def test_record_of_wrong_content_is_refused_with_its_first_fault(tmp_path):
    data = measured().plain() | {"enregy": 3, "meter": {"name": "x", "colour": 1}}
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({**data, "hash": content_hash(data)}) + "\n")
    with pytest.warns(UnusedRows, match=r"r.jsonl:1: .*no such field \(and 1 more faults\)"):
        assert len(read_records(path)) == 0


def test_a_record_that_lacks_its_newline_only_is_complete(tmp_path):
    path = tmp_path / "r.jsonl"
    with RecordFile(path) as file:
        file.append(measured())
    path.write_bytes(path.read_bytes()[:-1])
    assert len(read_records(path).all_or_error()) == 1
    with RecordFile(path) as file:
        assert file.torn is None
        file.append(measured())
    assert repr(read_records(path)) == "<2 records, 0 rows not used>"


def test_torn_line_that_cannot_be_set_aside(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"half')
    monkeypatch.setattr(
        os, "ftruncate", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error"))
    )
    with pytest.raises(
        RecordFileError, match="record not written: Input/output error; the 0 records before it"
    ):
        RecordFile(path)
    assert path.read_bytes() == b'{"half'


def test_missing_file():
    with pytest.raises(NotFoundError, match="nowhere.jsonl: no such file; give the path of a record file"):
        read_records("nowhere.jsonl")


def test_folder_in_place_of_a_file(tmp_path):
    with pytest.raises(InputError, match="expected a readable file, got Is a directory"):
        read_records(tmp_path)
    with pytest.raises(RecordFileError, match="expected a file that can be written, got Is a directory"):
        RecordFile(tmp_path)


def test_read_only_folder(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(RecordFileError, match="got Read-only file system; choose a folder that"):
        RecordFile(tmp_path / "r.jsonl")


def test_disk_full_keeps_complete_records_and_leaves_no_torn_line(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    file = RecordFile(path)
    file.append(measured(energy=1.0))
    before = path.read_bytes()
    real_write = os.write

    def full(fd, data):
        if len(data) > 100:
            return real_write(fd, data[:100])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", lambda fd, data: full(fd, data[:101]))
    message = "not written: No space left on device; the 1 records before it are safe; make room, then start"
    with pytest.raises(RecordFileError, match=message):
        file.append(measured(energy=2.0))
    monkeypatch.undo()
    assert path.read_bytes() == before
    file.append(measured(energy=2.0))
    assert [r.energy for r in read_records(path)] == [1.0, 2.0]


def test_nothing_follows_a_line_that_could_not_be_cut_off(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    file = RecordFile(path)

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    monkeypatch.setattr(os, "ftruncate", fail)
    with pytest.raises(RecordFileError, match="record not written: Input/output error"):
        file.append(measured())
    with pytest.raises(RecordFileError, match="expected an open file, it is closed; open it again"):
        file.append(measured())


_ENV = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
_LIMITED = """
import resource, signal, sys
from points import measured
from joulesim.measure.records import RecordFile, RecordFileError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = RecordFile(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    for n in range(100):
        file.append(measured(energy=n + 1.0))
except RecordFileError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="file size limits are POSIX")
def test_real_size_limit(tmp_path):
    path = tmp_path / "r.jsonl"
    command = [sys.executable, "-c", _LIMITED, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=_ENV)
    assert "record not written: File too large" in run.stdout
    records = read_records(path)
    assert [r.energy for r in records] == [n + 1.0 for n in range(len(records))]
    assert records and not records.faults


_WRITER = """
import sys
from points import measured
from joulesim.measure.records import RecordFile
with RecordFile(sys.argv[1]) as file:
    done = len(file.records)
    print(done, flush=True)
    for n in range(done, 10**9):
        file.append(measured(energy=n + 1.0))
        print(n + 1, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")
@pytest.mark.parametrize("kills", [6, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_and_resumed_campaign_equals_an_uninterrupted_one(tmp_path, kills):
    path, promised = tmp_path / "r.jsonl", 0
    random_wait = random.Random(7)
    for _ in range(kills):
        command = [sys.executable, "-c", _WRITER, str(path)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_ENV)
        resumed_at = int(writer.stdout.readline())
        assert resumed_at >= promised
        time.sleep(random_wait.uniform(0, 0.03))
        writer.send_signal(signal.SIGKILL)
        said = writer.communicate()[0].splitlines()
        promised = int(said[-1]) if said and said[-1].strip().isdigit() else resumed_at
    with RecordFile(path) as file:
        assert [r.energy for r in file.records] == [n + 1.0 for n in range(len(file.records))]
        assert len(file.records) >= promised
        assert not [fault for fault in file.faults if "half-written" not in str(fault)]


def test_hash_ignores_order_and_number_type():
    data = measured(scenario={"a": {"x": 1, "y": 2.5}, "b": 8}).plain()
    shuffled = json.loads(json.dumps(dict(reversed(data.items()))))
    shuffled["scenario"] = {"b": 8.0, "a": {"y": 2.5, "x": 1.0}}
    assert Record.model_validate(shuffled).hash == Record.model_validate(data).hash


def test_hash_tells_contents_apart():
    assert measured(energy=1.0).hash != measured(energy=1.0000000001).hash
