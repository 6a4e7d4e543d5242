"""Greedy decoding on a cache, plain or speculative; an engine gives it calls and logits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from joulesim.measure.runtimes.base import Answer, Pace, probe


class Cache(Protocol):
    """One sequence with its logits."""

    model: Any

    def feed(self, tokens: Sequence[int], start: int = 0, every: bool = False) -> None:
        """Put tokens at a position and everything after it."""

    def logits(self, row: int = -1) -> np.ndarray:
        """Logits of a row of the last call."""

    def cut(self, length: int) -> None:
        """Keep the first tokens."""


def answer(cache: Cache, prompt: str | list[int], max_tokens: int, held: list[int], stop: Sequence[str] = (),
           draft: Cache | None = None, draft_length: int = 0, ngram: int = 0, confidence_threshold: float = 0.0,
           ignore_end: bool = False, probed: bool = False) -> tuple[Answer, list[int]]:
    """
    Answer one prompt, and what the cache holds afterwards.

    Parameters
    ----------
    cache : Cache
        Holds ``held`` at its start; the common prefix with the prompt is not computed again.
    stop : sequence of str
        Texts that end the answer; they are cut off.
    draft : Cache, optional
        Model that proposes tokens.
    draft_length : int
        Most tokens proposed at a time; 0: plain decoding.
    ngram : int
        Without a draft model, propose what followed the last ``ngram`` tokens earlier in the text.
    confidence_threshold : float
        A draft ends before a token that the draft model gives less probability.
    ignore_end : bool
        Go on after an end token, to get exactly ``max_tokens``.
    probed : bool
        Probe the core between the calls.
    """
    model = cache.model
    wanted = model.tokens(prompt) if isinstance(prompt, str) else list(prompt)
    if probed:
        cache = _Probed(cache)
    wall, cpu = time.perf_counter(), time.process_time()
    reused = _common(held, wanted[:-1])
    cache.cut(reused)
    cache.feed(wanted[reused:], reused)
    text, times = list(wanted), []
    counts = {"drafted": 0, "verified": 0, "accepted": 0, "calls": 0}
    propose = _proposer(draft, ngram, confidence_threshold)
    finish, said = "length", ""
    new = [int(cache.logits().argmax())]
    while True:
        for token in new:
            if model.ends(token) and not ignore_end:
                finish = "stop"
                break
            text.append(token)
            times.append(time.perf_counter() - wall)
            if len(times) >= max_tokens:
                break
        done = len(times)
        said = model.text(text[len(wanted):])
        ended = [said.find(mark) for mark in stop if mark in said]
        if ended:
            finish, said = "stop", said[:min(ended)]
        if finish == "stop" or done >= max_tokens:
            break
        room = min(draft_length, max_tokens - done - 1)
        drafted = propose(text, room) if room > 0 else []
        cache.feed([text[-1], *drafted], len(text) - 1, every=bool(drafted))
        counts["calls"] += 1
        new = _accept(cache, drafted, counts)
        cache.cut(len(text) - 1 + len(new))
    held = text[:-1] if times else wanted
    cache.cut(len(held))
    speculative = draft_length > 0
    spent, pace = (cache.spent, cache.pace) if probed else (0.0, None)
    core, memory = pace or (None, None)
    return Answer(
        text=said, prompt_tokens=len(wanted), cached_tokens=reused, output_tokens=len(times), token_times=tuple(times),
        time=time.perf_counter() - wall - spent, cpu_time=time.process_time() - cpu - spent,
        core_probe=core, memory_probe=memory, finish=finish, calls=counts["calls"],
        **({key: counts[key] for key in ("drafted", "verified", "accepted")} if speculative else {}),
    ), held


class _Probed:
    """A cache with a probe of the core beside each call, as a campaign has one beside each repeat."""

    def __init__(self, cache: Cache):
        self._cache, self.model, self.logits, self.cut = cache, cache.model, cache.logits, cache.cut
        self._last, self._time, self._ratios = probe(), 0.0, [0.0, 0.0]
        self.spent = 0.0
        """CPU time of the probes since the first. [s]"""

    def feed(self, tokens: Sequence[int], start: int = 0, every: bool = False) -> None:
        """Put tokens at a position, between two probes."""
        began = time.process_time()
        self._cache.feed(tokens, start, every)
        took = time.process_time() - began
        before, self._last = self._last, probe()
        self.spent += self._last.core
        self._time += took
        self._ratios = [so_far + 2 * took / (a + b) for so_far, a, b in zip(self._ratios, before, self._last, strict=True)]

    @property
    def pace(self) -> Pace | None:
        """Probe that all calls together took: a probe that was pushed aside counts little."""
        return Pace(*(self._time / ratios for ratios in self._ratios)) if all(self._ratios) else None


def _accept(cache: Cache, drafted: list[int], counts: dict[str, int]) -> list[int]:
    """Tokens that the target says itself: the drafted ones it agrees with, and one more."""
    new = []
    for row in range(len(drafted) + 1):
        token = int(cache.logits(row if drafted else -1).argmax())
        new.append(token)
        if row == len(drafted):
            break
        counts["verified"] += 1
        if token != drafted[row]:
            break
        counts["accepted"] += 1
    counts["drafted"] += len(drafted)
    return new


def _proposer(draft: Cache | None, ngram: int, threshold: float) -> Callable[[list[int], int], list[int]]:
    if draft is not None:
        return _Drafter(draft, threshold)
    if ngram:
        return lambda text, most: copied(text, ngram, most)
    return lambda text, most: []


def copied(text: Sequence[int], ngram: int, most: int) -> list[int]:
    """
    What followed the last occurrence of the text's last ``ngram`` tokens.

    >>> copied([1, 2, 3, 4, 9, 1, 2], ngram=2, most=3)
    [3, 4, 9]
    """
    key = list(text[-ngram:])
    for at in range(len(text) - ngram - 1, -1, -1):
        if list(text[at:at + ngram]) == key:
            return list(text[at + ngram:at + ngram + most])
    return []


class _Drafter:
    """Draft model that follows the text."""

    def __init__(self, cache: Cache, threshold: float):
        self._cache, self._threshold = cache, threshold
        self._held: list[int] = []

    def __call__(self, text: list[int], most: int) -> list[int]:
        same = _common(self._held, text[:-1])
        self._cache.cut(same)
        self._cache.feed(text[same:], same)
        self._held, found = list(text), []
        while len(found) < most:
            logits = self._cache.logits()
            token = int(logits.argmax())
            if self._threshold and 1 / np.exp(logits - logits[token]).sum() < self._threshold:
                break
            found.append(token)
            if len(found) < most:
                self._cache.feed([token], len(self._held))
                self._held.append(token)
        return found


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common start."""
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n
