"""Results on disk: the same numbers, whatever happened on the way."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import joulesim as js
from joulesim.sweep import plan, prepare, store

xarray = pytest.importorskip("xarray")
pytest.importorskip("zarr")

OVER = {"serving.batch": [1, 2, 8, 64, 5000], "weights": ["q4_0", "q8_0", None], "workload.prompt_tokens": [800.0, 900.0]}


def same(found, expected):
    """Equal up to the rounding of vector instructions, which depends on where an array is cut."""
    xarray.testing.assert_allclose(found, expected, rtol=1e-13)
    assert found.attrs == expected.attrs


@pytest.fixture(scope="module")
def laptop():
    return js.load_scenario("qwen2.5-7b-q4_0-laptop-b8")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(store, "_LARGEST_CHUNK", 7)


def test_zarr_holds_what_memory_does(laptop, tmp_path):
    found = js.sweep(laptop, OVER, to=tmp_path / "out.zarr")
    same(found.load(), js.sweep(laptop, OVER))


def test_netcdf_holds_what_memory_does(laptop, tmp_path):
    pytest.importorskip("h5netcdf")
    with js.sweep(laptop, OVER, to=tmp_path / "out.nc") as found:
        same(found.load(), js.sweep(laptop, OVER))
        assert found.tpot.attrs["units"] == "s"
    assert os.listdir(tmp_path) == ["out.nc"]


def test_a_finished_sweep_is_opened_and_not_computed(laptop, tmp_path, monkeypatch):
    js.sweep(laptop, OVER, to=tmp_path / "out.zarr")
    monkeypatch.setattr(store, "write_chunk", None)
    assert js.sweep(laptop, OVER, to=tmp_path / "out.zarr").sizes["weights"] == 3


def test_an_interrupted_sweep_goes_on(laptop, tmp_path, monkeypatch):
    written, write = [], store.write_chunk

    def fails_at_the_third(part, region, path):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(region)
        write(part, region, path)

    monkeypatch.setattr(store, "write_chunk", fails_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        js.sweep(laptop, OVER, to=tmp_path / "out.zarr")
    first = list(written)
    written.append(None)
    monkeypatch.setattr(store, "write_chunk", lambda *a: (written.append(a[1]), write(*a)))
    found = js.sweep(laptop, OVER, to=tmp_path / "out.zarr")
    assert not [region for region in written[3:] if region in first]
    same(found.load(), js.sweep(laptop, OVER))


_LONG = """
import numpy as np, joulesim as js
from joulesim.sweep import store
store._LARGEST_CHUNK = 2000
js.sweep("qwen2.5-7b-q4_0-laptop-b8", {"serving.batch": range(1, 101), "workload.prompt_tokens": np.arange(700, 1200)},
         to="out.zarr")
"""


def test_a_killed_process_loses_only_the_chunk_in_work(tmp_path):
    run = subprocess.Popen([sys.executable, "-c", _LONG], cwd=tmp_path)
    journal = tmp_path / ".out.zarr.journal"
    for _ in range(600):
        if journal.is_file() and len(journal.read_text().splitlines()) > 3:
            break
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    run.wait()
    done = len(journal.read_text().splitlines()) - 1
    assert 2 < done < 25
    subprocess.run([sys.executable, "-c", _LONG], cwd=tmp_path, check=True)
    lines = journal.read_text().splitlines()[1:]
    assert len(lines) == len(set(lines)) == 25
    with xarray.open_dataset(tmp_path / "out.zarr", engine="zarr", consolidated=False, chunks=None) as found:
        over = {"serving.batch": range(1, 101), "workload.prompt_tokens": np.arange(700, 1200)}
        same(found.load(), js.sweep("qwen2.5-7b-q4_0-laptop-b8", over))


def test_a_path_that_holds_something_else_is_refused(laptop, tmp_path):
    js.sweep(laptop, {"serving.batch": [1]}, to=tmp_path / "out.zarr")
    with pytest.raises(js.InputError, match="expected the results of this sweep, found those of another one; remove it"):
        js.sweep(laptop, OVER, to=tmp_path / "out.zarr")
    (tmp_path / "mine.zarr").mkdir()
    (tmp_path / "mine.zarr" / "thesis.tex").touch()
    with pytest.raises(js.InputError, match="expected nothing or an unfinished sweep, found something else"):
        js.sweep(laptop, OVER, to=tmp_path / "mine.zarr")
    (tmp_path / "out.nc").touch()
    with pytest.raises(js.InputError, match="out.nc: expected no such file yet"):
        js.sweep(laptop, OVER, to=tmp_path / "out.nc")
    with pytest.raises(js.InputError, match="expected a path ending in .zarr or .nc"):
        js.sweep(laptop, OVER, to=tmp_path / "out.h5")


def test_more_points_than_the_disk_holds_are_refused_with_the_arithmetic(laptop, tmp_path):
    over = {"workload.prompt_tokens": np.arange(1.0, 10_001), "hardware.memory_bandwidth": np.linspace(1e11, 1e12, 100_000)}
    whole = r"expected room for 10,000 x 100,000 = 1,000,000,000 points x \d+ B \(\d+ variables\) = \d+\.?\d* GB, .* free"
    with pytest.raises(js.InputError, match=whole):
        js.sweep(laptop, over, to=tmp_path / "out.zarr")
    assert not (tmp_path / "out.zarr").exists()
    with pytest.raises(js.InputError, match=r"expected results that fit .* of free memory, got 10,000 x 100,000"):
        js.sweep(laptop, over)


def test_too_little_memory_is_refused(laptop, tmp_path):
    with pytest.raises(js.InputError, match=r"memory: expected at least 400\.\d MB \(the program itself takes 400 MB\), got 1 MB"):
        js.sweep(laptop, OVER, to=tmp_path / "out.zarr", memory="1 MB")


def test_chunks_stay_within_the_memory_asked_for(laptop):
    whole = prepare(laptop, OVER)
    for memory in (5e8, 1e9, 2e9):
        assert store.chunk_points(whole, memory) * whole.bytes_per_point * 1.5 + store.PROGRAM <= memory


def test_pieces_cover_everything_once():
    region = (slice(0, 5), slice(2, 9), slice(0, 4))
    for most in (1, 3, 4, 20, 60, 1000):
        seen = np.zeros((5, 9, 4), int)
        pieces = list(plan.cut(region, most))
        for piece in pieces:
            assert seen[piece].size <= most
            seen[piece] += 1
        assert (seen[:, 2:] == 1).all()
