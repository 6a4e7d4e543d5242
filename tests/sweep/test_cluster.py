"""A sweep on a real cluster of processes, one of them killed on the way."""

import os
import signal

import numpy as np
import pytest

import joulesim as js
from joulesim.sweep import cluster, store
from joulesim.sweep.progress import Progress

xarray = pytest.importorskip("xarray")
distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

OVER = {"serving.batch": range(1, 33), "weights": ["q4_0", "q8_0"], "workload.prompt_tokens": np.arange(700.0, 900.0)}
SCENARIO = "qwen2.5-7b-q4_0-laptop-b8"


@pytest.fixture
def client():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as local, \
            distributed.Client(local) as connected:
        yield connected


@pytest.fixture(scope="module")
def expected():
    return js.sweep(SCENARIO, OVER)


def _kill_a_worker(client):
    pid = next(iter(client.run(os.getpid).values()))
    os.kill(pid, signal.SIGKILL)


class KillsAfterTheSecond:
    def __init__(self, client):
        self.client, self.calls = client, 0

    def __call__(self, shown, points):
        self.calls += 1
        if self.calls == 2:
            _kill_a_worker(self.client)


@pytest.fixture
def killed(client, monkeypatch):
    kill = KillsAfterTheSecond(client)
    monkeypatch.setattr(Progress, "advance", lambda self, points: kill(self, points))
    monkeypatch.setattr(cluster, "_PIECE", 500)
    yield kill
    assert kill.calls > 20


def test_in_shared_memory_with_a_worker_killed(client, killed, expected):
    xarray.testing.assert_allclose(js.sweep(SCENARIO, OVER, client=client), expected, rtol=1e-13)


def test_over_the_network_with_a_worker_killed(client, killed, expected, monkeypatch):
    monkeypatch.setattr(cluster, "_all_see", lambda *_: False)
    xarray.testing.assert_allclose(js.sweep(SCENARIO, OVER, client=client), expected, rtol=1e-13)


def test_to_zarr_with_a_worker_killed(client, killed, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_LARGEST_CHUNK", 500)
    found = js.sweep(SCENARIO, OVER, to=tmp_path / "out.zarr", client=client.scheduler.address)
    xarray.testing.assert_allclose(found.load(), expected, rtol=1e-13)


def test_no_scheduler_is_one_line():
    with pytest.raises(js.InputError, match="--scheduler: expected a Dask scheduler at 'nonsense', found none"):
        js.sweep(SCENARIO, OVER, client="nonsense")
