"""A broken engine is one failed answer with a reason, whatever way it breaks."""

import os
import signal
import sys
import time

import pytest

from joulesim.errors import NotFoundError
from joulesim.measure import runtimes
from joulesim.measure import worker as worker_module
from joulesim.measure.worker import Worker, WorkerError

CALL = {"phase": "decode", "sequences": 2, "depth": 64}
ONCE = {"clock": "wall", "at_least": 0.0, "at_most": 1.0, "repeats": 3}


def opened(model="s13"):
    worker = Worker("fake")
    worker.ask("open", model=model, settings={})
    return worker


def test_an_engine_answers():
    with opened() as worker:
        assert worker.hello["phases"] == ["decode", "chunk", "prefill"]
        assert len(worker.ask("run", call=CALL, **ONCE)["wall"]) == 3


def test_an_engine_that_refuses_stays_usable():
    with Worker("fake") as worker:
        with pytest.raises(WorkerError, match="open: ValueError: this model does not load") as caught:
            worker.ask("open", model="refuse", settings={})
        assert not caught.value.dead
        assert caught.value.reason.code == "run-failed"
        worker.ask("open", model="s13", settings={})


def test_a_request_that_does_not_exist():
    with opened() as worker, pytest.raises(WorkerError, match="fake has no request 'close'"):
        worker.ask("close")


def test_a_child_that_aborts_names_its_signal():
    with opened("die") as worker:
        with pytest.raises(WorkerError, match=r"run: the runtime's process ended \(signal SIGABRT\)") as caught:
            worker.ask("run", call=CALL, **ONCE)
        assert caught.value.dead
        with pytest.raises(WorkerError, match="process ended"):
            worker.ask("run", call=CALL, **ONCE)


def test_a_child_that_hangs_is_ended():
    with opened("hang") as worker:
        began = time.monotonic()
        with pytest.raises(WorkerError, match="run: no answer within 0.3 s; the process was ended") as caught:
            worker.ask("run", timeout=0.3, call=CALL, **ONCE)
        assert time.monotonic() - began < 10
        assert caught.value.dead


def test_a_child_that_is_killed():
    with opened() as worker:
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match=r"signal SIGKILL"):
            worker.ask("run", call=CALL, **ONCE)


def test_an_assertion_is_what_is_told(monkeypatch):
    script = "import sys; print('{\"answer\": {}}', flush=True); sys.stdin.readline(); " \
             "sys.stderr.write('GGML_ASSERT(n > 0) failed\\nbacktrace\\n'); sys.exit(3)"
    popen = worker_module.subprocess.Popen
    monkeypatch.setattr(worker_module.subprocess, "Popen",
                        lambda command, **more: popen([sys.executable, "-c", script], **more))
    message = r"\(exit status 3\): GGML_ASSERT\(n > 0\) failed"
    with Worker("fake") as worker, pytest.raises(WorkerError, match=message):
        worker.ask("run")


def test_a_child_that_never_says_hello(monkeypatch):
    popen = worker_module.subprocess.Popen
    monkeypatch.setattr(worker_module, "START_TIME", 0.2)
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(worker_module.subprocess, "Popen", lambda command, **more: popen(sleeping, **more))
    with pytest.raises(WorkerError, match="start: no answer within 0.2 s"):
        Worker("fake")


def test_unknown_and_missing_runtimes(monkeypatch):
    with pytest.raises(NotFoundError, match="runtime llama_ccp: no such runtime. Did you mean llama_cpp?"):
        runtimes.load("llama_ccp")
    monkeypatch.setattr(runtimes, "missing", lambda name: list(runtimes.RUNTIMES[name].packages))
    with pytest.raises(NotFoundError, match=r"the package xllamacpp is not installed; pip install 'joulesim\[server\]'"):
        runtimes.load("llama_server")
    assert runtimes.default() is None


def test_nothing_is_printed_into_the_answers():
    with Worker("fake") as worker:
        worker.ask("open", model="s13", settings={})
        answers = worker.ask("generate", prompts=["a", "b"], max_tokens=2)
    assert [a["text"] for a in answers] == ["a", "b"]
