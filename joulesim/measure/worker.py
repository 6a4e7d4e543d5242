"""
A runtime in a process of its own.

A failed assertion inside an engine ends the process that holds it, so models run in a child. Parent and child speak one
JSON object a line: a child that dies or hangs is one failed point with a reason, never a lost campaign.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any

from joulesim.errors import JoulesimError
from joulesim.measure.runtimes.base import Runtime
from joulesim.measure.validity import Reason

START_TIME = 60.0
"""A child that has not said hello by then never will. [s]"""
_PATIENCE = 5.0
"""How long a child may take to leave before it is killed. [s]"""


class WorkerError(JoulesimError, RuntimeError):
    """A child died, hung, or could not do what it was asked. ``dead``: it is gone."""

    def __init__(self, detail: str, dead: bool):
        super().__init__(detail)
        self.reason = Reason(code="run-failed", detail=detail)
        self.dead = dead


class Worker:
    """
    Child process with one runtime.

    Examples
    --------
    >>> with Worker("llama_cpp") as worker:                             # doctest: +SKIP
    ...     worker.ask("open", model="model.gguf", settings={"threads": 1})
    """

    def __init__(self, runtime: str, environ: dict[str, str] | None = None):
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close)
        # One thread does the work of a call; spinning OpenMP or BLAS threads would bill their waiting as CPU time.
        quiet = {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "JOULESIM_WORKER": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "joulesim.measure.worker", runtime],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            env={**os.environ, **quiet, **(environ or {})},
        )
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            self.hello = self._answer("start", START_TIME)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Process number of the child."""
        return self._process.pid

    def ask(self, what: str, timeout: float = 600.0, **arguments: Any) -> Any:
        """
        Answer of the child.

        Raises
        ------
        WorkerError
            When the child says that it cannot, dies, or is silent for ``timeout``; it is dead after the last two.
        """
        line = json.dumps({"do": what, "with": arguments}).encode() + b"\n"
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except (OSError, ValueError):
            raise self._death(what) from None
        return self._answer(what, timeout)

    def close(self) -> None:
        """Let the child go; kill it if it stays."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _listen(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _answer(self, what: str, timeout: float) -> Any:
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            self._process.kill()
            self._process.wait()
            raise WorkerError(f"{what}: no answer within {timeout:g} s; the process was ended", dead=True) from None
        if line is None:
            raise self._death(what)
        try:
            answer = json.loads(line)
        except ValueError:
            self._process.kill()
            raise WorkerError(f"{what}: expected an answer, got {line[:80]!r}", dead=True) from None
        if "error" in answer:
            raise WorkerError(f"{what}: {answer['error']}", dead=False)
        return answer["answer"]

    def _death(self, what: str) -> WorkerError:
        code = self._process.wait()
        how = f"exit status {code}"
        if code < 0:
            how = f"signal {signal.Signals(-code).name}"
        said = self._last_words()
        return WorkerError(f"{what}: the runtime's process ended ({how}){': ' + said if said else ''}", dead=True)

    def _last_words(self) -> str:
        """The line of standard error that says most: an assertion if there is one, else the last."""
        try:
            self._errors.seek(max(0, os.fstat(self._errors.fileno()).st_size - 20000))
            lines = self._errors.read().decode(errors="replace").splitlines()
        except (OSError, ValueError):
            return ""
        lines = [line.strip() for line in lines if line.strip()]
        asserted = [line for line in lines if "ASSERT" in line or "Error" in line]
        return (asserted or lines or [""])[-1][:300]


class Here:
    """A worker's face on an engine in this very process: nothing is started, and nothing survives if the engine dies."""

    def __init__(self, runtime: Runtime):
        self._runtime = runtime
        self.hello = runtime.facts()

    def ask(self, what: str, timeout: float = 0.0, **arguments: Any) -> Any:
        """Answer of the engine, however long it takes."""
        try:
            return getattr(self._runtime, what)(**arguments)
        except Exception as error:
            raise WorkerError(f"{what}: {type(error).__name__}: {error}", dead=False) from error

    def close(self) -> None:
        """Let its model go."""
        self._runtime.close()


def serve(name: str) -> None:
    """The child: answer requests from standard input until it closes."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # engines print where they like; the pipe is for answers alone
    sys.stdout = sys.stderr
    _die_with_parent()

    def say(**answer):
        answers.write(json.dumps(answer) + "\n")

    from joulesim.measure import runtimes

    try:
        runtime = runtimes.load(name)
    except Exception as error:
        say(error=f"{error}")
        return
    say(answer=runtime.facts())
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] not in runtime.REQUESTS:
                raise ValueError(f"{name} has no request {request['do']!r}")
            say(answer=getattr(runtime, request["do"])(**request["with"]))
        except Exception as error:
            say(error=f"{type(error).__name__}: {error}")
    runtime.close()


def _die_with_parent() -> None:
    """On Linux the kernel ends this process when its parent dies, even within a long call."""
    if sys.platform == "linux":
        import ctypes

        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


if __name__ == "__main__":
    serve(sys.argv[1])
