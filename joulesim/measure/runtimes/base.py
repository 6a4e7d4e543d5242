"""What every engine is asked: open a model, run one call again and again, answer prompts."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from joulesim.measure.reading import Count, Observed
from joulesim.measure.repeats import enough

Phase = Literal["decode", "chunk", "prefill"]


class Call(Observed):
    """
    One call of an engine: the unit of every measurement.

    Decode, verification of a draft, and prefill are all the same call with other sizes.
    """

    phase: Phase
    sequences: int = Field(default=1, ge=1)
    tokens: int = Field(default=1, ge=1)
    """Tokens of each sequence."""
    depth: Count = 0
    """Tokens of each sequence that are cached before the call."""

    @property
    def rows(self) -> int:
        """Tokens in the call."""
        return self.sequences * self.tokens

    @property
    def outputs(self) -> int:
        """Rows that go through the output matrix: all of a chunk that is verified, else one a sequence."""
        return self.rows if self.phase == "chunk" else self.sequences

    @property
    def label(self) -> str:
        """Short name, e.g. ``decode-b4-d64``."""
        parts = {"b": self.sequences, "n": self.tokens, "d": self.depth}
        shown = {"decode": "bd", "chunk": "nd", "prefill": "nd" if self.depth else "n"}[self.phase]
        return "-".join([self.phase, *(f"{key}{parts[key]}" for key in shown)])


class Settings(Observed):
    """How a model is run."""

    threads: int = Field(default=1, ge=1)
    kv_format: str = "f16"
    """Format of the cached keys, and of the values unless :attr:`v_format` says otherwise."""
    v_format: str | None = None
    microbatch: int = Field(default=512, ge=1)
    """Most tokens that one pass over the weights serves."""
    flash_attention: bool | None = None
    """``None``: as the engine likes."""
    gpu_layers: int = 0
    """Layers on the GPU; -1: all."""
    repack: bool = True
    """Let the engine rearrange weights for its kernels."""
    address: str = ""
    """Server to talk to, for engines behind HTTP."""
    model_name: str = ""
    """Name under which the server knows the model."""


TILE = 64
"""Rows and positions that attention of many rows takes together (llama.cpp ``GGML_FA_TILE_Q``, ``GGML_FA_TILE_KV``)."""


def looked_at(rows: int, depth: float) -> float:
    """Positions that rows of a sequence look at; of many rows in tiles, of which the mask leaves out whole ones only."""
    if rows < TILE:
        return rows * (depth + (rows + 1) / 2)
    return TILE**2 * sum(math.ceil((depth + last) / TILE) for last in range(TILE, rows + TILE, TILE))


class Pace(NamedTuple):
    """CPU time of a fixed piece of work: how fast the core is just then."""

    core: float
    """Of all of it. [s]"""
    memory: float
    """Of the part that waits for memory. [s]"""


class Times(NamedTuple):
    """Repeats of one call."""

    wall: list[float]
    """[s]"""
    cpu: list[float]
    """CPU time of the engine's process; empty where it cannot be seen. [s]"""
    probe: list[Pace]
    """What :func:`probe` took, the mean of before and after each repeat; empty with wall time."""


class Runtime(ABC):
    """An engine inside its child process. Every answer is plain data."""

    REQUESTS: tuple[str, ...] = ("open", "prepare", "run", "generate", "rest", "parity")
    phases: tuple[Phase, ...] = ("decode", "chunk", "prefill")
    """Kinds of calls that it can make."""
    models = ".json"
    """What an engine that is not registered opens as a synthetic model; of the others, :data:`RUNTIMES` says it."""

    def facts(self) -> dict[str, Any]:
        """Version, build and abilities, before any model is opened."""
        return {"phases": self.phases}

    @abstractmethod
    def open(self, model: str, settings: dict[str, Any]) -> dict[str, Any]:
        """Load a model; what :class:`joulesim.measure.conditions.Runtime` records of it."""

    @abstractmethod
    def prepare(self, call: dict[str, Any]) -> dict[str, Any]:
        """Bring the cache to the call's depth and make the call once, to be thrown away."""

    @abstractmethod
    def run(self, call: dict[str, Any], clock: str, at_least: float, at_most: float, repeats: int) -> dict[str, Any]:
        """Make the prepared call again and again; see :func:`repeat`."""

    @abstractmethod
    def generate(self, prompts: list[Any], max_tokens: int, **options: Any) -> list[dict[str, Any]]:
        """Answers to prompts, greedily; see :class:`Answer`."""

    def rest(self, seconds: float) -> dict[str, Any]:
        """Do nothing with the model loaded."""
        time.sleep(seconds)
        return {}

    def parity(self, prompts: list[Any], output_tokens: int, blocks: list[int]) -> dict[str, Any]:
        """Same tokens one at a time and in blocks; see :mod:`joulesim.measure.parity`."""
        raise ValueError("expected an engine that takes tokens in blocks and shows what it thinks of each; this one gives "
                         "texts alone, --runtime llama_cpp, llama_server or transformers does it")

    def close(self) -> None:  # noqa: B027 (most engines hold nothing)
        """Give everything free."""


class Answer(Observed):
    """What came back for one prompt."""

    text: str = ""
    prompt_tokens: Count | None = None
    cached_tokens: Count = 0
    output_tokens: Count = 0
    token_times: tuple[float, ...] = ()
    """Arrival of each output token (of each piece, over HTTP) after the request. [s]"""
    time: float = 0.0
    """From request to end. [s]"""
    cpu_time: float | None = None
    """[s]"""
    core_probe: float | None = None
    """CPU time of :func:`probe` between its calls, over their time; not part of the times. [s]"""
    memory_probe: float | None = None
    """That of its part that waits for memory. [s]"""
    finish: Literal["stop", "length", "failed"] = "stop"
    failure: str = ""
    drafted: Count | None = None
    """Tokens that were proposed."""
    verified: Count | None = None
    """Proposed tokens that were looked at before one was refused."""
    accepted: Count | None = None
    calls: Count | None = None
    """Calls of the target model."""


_STREAMED = np.linspace(0.0, 1.0, 3 << 20, dtype=np.float32)
"""12 MB: more than a second-level cache holds."""
_MULTIPLIED = np.ones((256, 256), dtype=np.float32)
_EVICTED = 128 << 20
"""
More than a core's share of a last-level cache. [B]

Of 12 to 256 MB, 64 made models of 15 and 28 MB slow and steady on a core that shares 300 MB, 128 one of 8 MB too.
"""
_STEADY = 0.08
"""Difference of the probes before and after a call, over the first, beyond which the core's speed is taken to have changed."""


@cache
def _evicting() -> np.ndarray:
    return np.ones(_EVICTED // 4, dtype=np.float32)


def evict() -> None:
    """
    Read so much that a call afterwards finds its weights in memory, as it does with any model worth serving.

    A model of 28 MB was seen to settle in a shared last-level cache or not, as neighbours would have it: the same call took
    2 ms or 5 ms, for seconds, and what it took said nothing about a larger model.
    """
    np.dot(_evicting(), _evicting())


def probe() -> Pace:
    """
    How fast the core is now, by some 1.3 ms of streaming and 1.5 ms of arithmetic.

    A virtual core shares its memory and issue slots with neighbours that nothing here can see; a second of CPU time is
    worth more or less from one moment to the next, and of streaming not when arithmetic is. Seven calls of many kinds, made
    300 times each, scattered by 14 % on average; a power of the probe's sum leaves 4.8 % of it, one of each part 4.2 %.
    """
    start = time.process_time()
    np.dot(_STREAMED, _STREAMED)
    streamed = time.process_time()
    for _ in range(4):
        _MULTIPLIED @ _MULTIPLIED
    return Pace(time.process_time() - start, streamed - start)


def repeat(once: Callable[[], None], after: Callable[[], None], clock: str, at_least: float, at_most: float,
           repeats: int) -> Times:
    """
    Make a call until its median is known well enough.

    Parameters
    ----------
    once, after : callable
        The call, and what puts things back where they were; only the first is timed.
    clock : {"wall", "cpu"}
        Which times are judged.
    at_least, at_most : float
        Bounds on the time that all repeats take. [s]
    repeats : int
        Fewest repeats, unless the time is up.

    Notes
    -----
    In CPU time, caches are emptied before each repeat (:func:`evict`), and a repeat during which the core's speed changed
    does not count where there are others: its two probes do not say how slow it was. With wall time, where a meter may be
    watching, calls follow each other at once.
    """
    steady, other, began = Times([], [], []), Times([], [], []), time.perf_counter()

    def spent() -> float:
        return time.perf_counter() - began

    def pace() -> Pace:
        if clock != "cpu":
            return Pace(0.0, 0.0)
        evict()
        return probe()

    before = pace()
    while True:
        wall, cpu = time.perf_counter(), time.process_time()
        once()
        took = time.perf_counter() - wall, time.process_time() - cpu
        after()
        behind = pace()
        times = steady if abs(behind.core - before.core) <= _STEADY * before.core else other
        times.wall.append(took[0])
        times.cpu.append(took[1])
        if clock == "cpu":
            times.probe.append(Pace(*((a + b) / 2 for a, b in zip(before, behind, strict=True))))
        before = behind
        judged: Sequence[float] = steady.cpu if clock == "cpu" else steady.wall
        if spent() >= at_most or spent() >= at_least and len(judged) >= repeats and enough(judged):
            return steady if judged else other
