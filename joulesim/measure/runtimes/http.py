"""Any OpenAI-compatible server (vLLM, SGLang, TGI, llama-server, ollama) over HTTP, streaming."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from joulesim.measure.runtimes.base import Answer, Call, Runtime, Settings, Times, repeat

SILENCE = 120.0
"""A server that sends nothing for longer has hung. [s]"""
_STEPS = 16
"""Decode steps in one measured request beside its first token."""
_LONGEST_LINE = 1 << 20
_FIRST_TOKEN, _TOKENS = 260, 240


class StreamError(RuntimeError):
    """A stream that did not come to its end."""


def complete(address: str, prompt: str | list[int], max_tokens: int, model: str = "", silence: float = SILENCE,
             key: str = "", **extra: Any) -> Answer:
    """
    One streamed completion. A failure is an answer that failed, with its reason; it is never raised.

    Parameters
    ----------
    address : str
        Server, such as ``http://127.0.0.1:8000``.
    prompt : str or list of int
        Text, or tokens where the server takes them.
    silence : float
        Longest wait for the next byte. [s]
    """
    began, times, text, usage, finish, failure = time.perf_counter(), [], [], {}, None, ""
    try:
        for event in _events(address, prompt, max_tokens, model, silence, key, extra):
            usage = event.get("usage") or usage
            for choice in event.get("choices", ()):
                if piece := choice.get("text") or (choice.get("delta") or {}).get("content"):
                    times.append(time.perf_counter() - began)
                    text.append(piece)
                finish = choice.get("finish_reason") or finish
        if finish is None:
            raise StreamError("the stream ended before the answer did")
    except (OSError, http.client.HTTPException, ValueError, StreamError) as error:
        failure = f"{type(error).__name__}: {error}" if not isinstance(error, StreamError) else str(error)
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Answer(
        text="".join(text),
        prompt_tokens=usage.get("prompt_tokens"),
        cached_tokens=cached,
        output_tokens=usage.get("completion_tokens", len(times)),
        token_times=tuple(times),
        time=time.perf_counter() - began,
        finish="failed" if failure else "length" if finish == "length" else "stop",
        failure=failure,
    )


def _events(address: str, prompt, max_tokens: int, model: str, silence: float, key: str, extra: dict) -> Iterator[dict]:
    """Events of a stream, each as its JSON object."""
    url = urlsplit(address if "//" in address else f"http://{address}")
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname, url.port, timeout=silence)
    body = {"model": model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": True,
            "stream_options": {"include_usage": True}, **extra}
    path = url.path.rstrip("/").removesuffix("/v1") + "/v1/completions"
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    try:
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise StreamError(f"HTTP {response.status}: {response.read(300).decode(errors='replace').strip()}")
        while line := response.readline(_LONGEST_LINE):
            data = line.strip()
            if data == b"data: [DONE]":
                return
            if data.startswith(b"data:"):
                event = json.loads(data[5:])
                if "error" in event:
                    raise StreamError(f"the server says {event['error']}"[:300])
                yield event
    finally:
        connection.close()


class Engine(Runtime):
    """A server that somebody else runs."""

    phases = ("decode", "prefill")

    def __init__(self):
        self._settings = Settings()
        self._made = 0

    def facts(self) -> dict[str, Any]:
        return {"phases": self.phases, "sees_cpu": self._sees_cpu}

    def open(self, model: str, settings: dict[str, Any]) -> dict[str, Any]:
        self._settings = Settings(**settings)
        name = self._settings.model_name or model
        self._settings = self._settings.model_copy(update={"model_name": name})
        return {"name": "http", "version": self._version(),
                "settings": {"address": self._settings.address, "model": name}}

    def prepare(self, call: dict[str, Any]) -> dict[str, Any]:
        wanted = Call(**call)
        if wanted.phase not in self.phases:
            raise ValueError(f"{wanted.phase}: a server makes no such call")
        began = time.perf_counter()
        self._together(wanted)
        return {"first": time.perf_counter() - began}

    def run(self, call: dict[str, Any], clock: str, at_least: float, at_most: float, repeats: int) -> dict[str, Any]:
        """
        Times of a call, from whole requests.

        Prefill is a request for one token. A decode step is what :data:`_STEPS` further tokens add, over their number;
        requests that run together start together, but the server decides what it batches.
        """
        wanted = Call(**call)
        if wanted.phase == "prefill":
            times = repeat(lambda: self._together(wanted), lambda: None, clock, at_least, at_most, repeats)
            return times._replace(cpu=times.cpu if self._sees_cpu else [])._asdict()
        longer = wanted.model_copy(update={"tokens": _STEPS + 1})
        found = Times([], [], [])
        began = time.perf_counter()
        while not found.wall or (time.perf_counter() - began < at_most
                                 and (time.perf_counter() - began < at_least or len(found.wall) < repeats)):
            long, short = self._both(longer), self._both(wanted)
            for series, a, b in zip((found.wall, found.cpu), long, short, strict=True):
                series.append(max(a - b, 0.0) / _STEPS)
        return found._replace(cpu=found.cpu if self._sees_cpu else [])._asdict()

    def generate(self, prompts: list[Any], max_tokens: int, **options: Any) -> list[dict[str, Any]]:
        together = options.pop("concurrency", 1)
        extra = {key: value for key, value in options.items() if key in ("stop", "silence", "key", "ignore_eos")}
        with ThreadPoolExecutor(together) as pool:
            answers = pool.map(lambda prompt: self._timed(prompt, max_tokens, extra), prompts)
            return [found.model_dump() for found in answers]

    def parity(self, prompts: list[Any], output_tokens: int, blocks: list[int]) -> dict[str, Any]:
        from joulesim.measure.parity import compare
        from joulesim.measure.runtimes.slot import Slot

        slot = Slot(self._settings.address)
        tokens = [slot.tokens(prompt) if isinstance(prompt, str) else prompt for prompt in prompts]
        return compare(slot, tokens, output_tokens, blocks, every=False).model_dump()

    _sees_cpu = False

    def _timed(self, prompt, max_tokens: int, extra: dict) -> Answer:
        cpu = time.process_time()
        found = complete(self._settings.address, prompt, max_tokens, self._settings.model_name, **extra)
        return found.model_copy(update={"cpu_time": time.process_time() - cpu if self._sees_cpu else None})

    def _together(self, call: Call) -> None:
        tokens = 1 if call.phase == "prefill" else call.tokens
        length = call.tokens if call.phase == "prefill" else max(call.depth, 1)
        self._made += 1
        prompts = [[_FIRST_TOKEN + (7919 * i + 31 * s + self._made) % _TOKENS for i in range(length)]
                   for s in range(call.sequences)]
        with ThreadPoolExecutor(call.sequences) as pool:
            found = list(pool.map(lambda p: complete(self._settings.address, p, tokens, self._settings.model_name,
                                                     ignore_eos=True, cache_prompt=False), prompts))
        failed = [one.failure for one in found if one.failure]
        if failed:
            raise RuntimeError(f"{len(failed)} of {len(found)} requests failed: {failed[0]}")

    def _both(self, call: Call) -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        self._together(call)
        return time.perf_counter() - wall, time.process_time() - cpu

    def _version(self) -> str:
        """What the server says it is; empty when it does not."""
        url = urlsplit(self._settings.address if "//" in self._settings.address else f"http://{self._settings.address}")
        for path in ("/version", "/props"):
            try:
                connection = http.client.HTTPConnection(url.hostname, url.port, timeout=5)
                connection.request("GET", path)
                said = json.loads(connection.getresponse().read(1 << 20))
                if found := said.get("version") or said.get("build_info"):
                    return str(found)
            except (OSError, http.client.HTTPException, ValueError, AttributeError):
                continue
        return ""
