"""
Logs with one JSON object a request, as vLLM's own traces have them, as one record a file.

``queued_ts``, ``first_token_ts`` and ``last_token_ts`` are on the engine's monotonic clock; ``arrival_time`` is
seconds since 1970. Times of the two clocks are never subtracted: TTFT runs from the queue, on one clock.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from joulesim.errors import Fault, InputError
from joulesim.measure.importers.text import read_text
from joulesim.measure.record import Latency, Record, RowSource, Runtime, Spread, Throughput, Tokens, Window
from joulesim.measure.records import Records
from joulesim.measure.validity import Reason, Validity


@dataclass(frozen=True)
class Request:
    """One request. Times are on the engine's monotonic clock. [s]"""

    queued: float
    first_token: float | None
    last_token: float | None
    prompt_tokens: int
    output_tokens: int
    arrival: float | None = None
    """Seconds since 1970; never subtracted from the other times. [s]"""

    @property
    def failed(self) -> bool:
        return self.output_tokens == 0 or self.first_token is None or self.last_token is None

    @property
    def ttft(self) -> float:
        """Time to first token, queueing included. [s]"""
        return self.first_token - self.queued

    @property
    def e2e_latency(self) -> float:
        """[s]"""
        return self.last_token - self.queued

    @property
    def tpot(self) -> float | None:
        """Time per output token after the first; undefined for one token. [s]"""
        if self.output_tokens < 2:
            return None
        return (self.last_token - self.first_token) / (self.output_tokens - 1)

    def meets(self, limits: Mapping[str, float]) -> bool:
        """
        Whether it keeps latency limits. [s]

        One output token has no TPOT; as vLLM does, it counts as 0 here though it is in no mean.
        """
        if self.failed:
            return False
        times = {"ttft": self.ttft, "tpot": self.tpot or 0.0, "e2e_latency": self.e2e_latency}
        return all(times[name] <= limit for name, limit in limits.items())


def read_requests(
    path: str | os.PathLike, scenario: Mapping[str, Any], limits: Mapping[str, float] | None = None, source: str = ""
) -> Records:
    """
    One record over all requests of a file; requests that cannot be read are faults by line.

    Parameters
    ----------
    scenario : mapping
        What was run; the file does not say.
    limits : mapping
        Latency limits for goodput by ``ttft``, ``tpot`` and ``e2e_latency``. [s]
    """
    file = str(path)
    requests, faults = _requests(read_text(path), file)
    done = [request for request in requests if not request.failed]
    if not done:
        raise InputError(faults or Fault(file, "expected requests with output, found none"))
    start, stop = min(r.queued for r in requests), max(r.last_token for r in done)
    time = stop - start
    arrivals = [request.arrival for request in requests if request.arrival is not None]
    began = datetime.fromtimestamp(min(arrivals), UTC).isoformat() if arrivals else ""
    failed = len(requests) - len(done)
    doubts = [Reason(code="requests-failed", detail=f"{failed} of {len(requests)} failed")] if failed else []
    tpots = [request.tpot for request in done if request.tpot is not None]
    good = sum(request.meets(limits) for request in requests) if limits else None
    record = Record(
        provenance="measured",
        scenario=dict(scenario),
        runtime=Runtime(name=str(scenario.get("runtime", "vllm"))),
        window=Window(start=start, stop=stop, clock="engine monotonic", started_at=began),
        energy_reason=Reason(code="no-power-in-file"),
        time=time,
        tokens=Tokens(
            prompt=sum(request.prompt_tokens for request in done),
            output=sum(request.output_tokens for request in done),
            requests=len(done),
            failed=failed,
            counted_by="engine",
        ),
        throughput=Throughput(
            output=sum(request.output_tokens for request in done) / time,
            requests=len(done) / time,
            goodput=None if good is None else good / time,
        ),
        latency=Latency(
            ttft=_spread([request.ttft for request in done]),
            tpot=_spread(tpots) if tpots else None,
            e2e_latency=_spread([request.e2e_latency for request in done]),
        ),
        validity=Validity.of(doubts),
        source=RowSource(ref=source or file, file=file),
    )
    return Records([record], faults)


def _requests(text: str, file: str) -> tuple[list[Request], list[Fault]]:
    requests, faults = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            requests.append(_request(json.loads(line)))
        except (ValueError, TypeError, AttributeError) as error:
            what = "expected one JSON object" if isinstance(error, json.JSONDecodeError) else str(error)
            faults.append(Fault(f"{file}:{number}", what, "the request is left out"))
    return requests, faults


def _request(data: dict[str, Any]) -> Request:
    queued = data.get("queued_ts")
    if queued is None:
        raise ValueError("expected queued_ts (the engine's clock), got nothing; arrival_time is on another clock")
    first, last = data.get("first_token_ts"), data.get("last_token_ts")
    output = data.get("output_len", data.get("num_output_tokens"))
    if output is None:
        raise ValueError("expected output_len, got nothing")
    if first is not None and (first < queued or (last is not None and last < first)):
        raise ValueError(f"expected queued, first and last token in order, got {queued}, {first}, {last}")
    prompt = data.get("input_len", data.get("prompt_len", data.get("num_prompt_tokens", 0)))
    return Request(queued, first, last, int(prompt), int(output), data.get("arrival_time"))


def _spread(values: list[float]) -> Spread:
    """Mean, median, standard deviation and usual percentiles. [s]"""
    array = np.asarray(values)
    return Spread(
        mean=float(array.mean()),
        median=float(np.median(array)),
        sd=float(array.std(ddof=1)) if len(array) > 1 else None,
        percentiles={str(p): float(np.percentile(array, p)) for p in (90, 95, 99)},
        n=len(array),
    )
