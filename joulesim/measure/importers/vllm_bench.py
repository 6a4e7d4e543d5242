"""
Results of ``vllm bench serve`` (and of SGLang's ``bench_serving``, which shares its format) as records.

TPOT is (end-to-end latency - TTFT) / (output tokens - 1), over requests with more than one output token; ITL pools
every gap. Failed requests have no tokens and are in no mean. Where a tokenizer counted the output again, both
counts are kept and the engine's is the denominator (ai-dynamo/dynamo#387).

References
----------
vllm-project/vllm, ``vllm/benchmarks/serve.py``; sgl-project/sglang, ``python/sglang/bench_serving.py``.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

from pydantic import ValidationError

from joulesim.errors import Fault, InputError
from joulesim.measure.importers.text import read_text
from joulesim.measure.record import Latency, Record, RowSource, Runtime, Spread, Throughput, Tokens
from joulesim.measure.records import Records
from joulesim.measure.validity import Reason, Validity
from joulesim.specs.base import faults_of

_LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2e_latency", "e2e_latency": "e2e_latency"}
"""Their names in the file and here."""
_SETTINGS = ("request_rate", "burstiness", "max_concurrency", "tokenizer_id")
_NEAR = 0.01
"""Rates and counts over the duration differ by rounding only."""
COUNTS_DIFFER = 0.01
"""Two token counts that differ by more are named."""
LENGTH_DIFFERS = 0.05
"""An output that misses the asked length by more is named (ai-dynamo/aiperf#339)."""


def read_vllm_bench(
    path: str | os.PathLike, output_tokens: float | None = None, provenance: str = "measured", source: str = ""
) -> Records:
    """
    One record for each result in a file: one JSON object, or one a line.

    Parameters
    ----------
    output_tokens : float, optional
        Output length that was asked for. A client that does not pass ``ignore_eos`` gets another one, and its
        numbers must not be compared.
    """
    file = str(path)
    records, faults = [], []
    for number, result in _results(read_text(path), file, faults):
        where = f"{file}:{number}"
        try:
            records.append(_record(result, where, file, number, output_tokens, provenance, source))
        except InputError as error:
            faults.extend(error.faults)
    return Records(records, faults)


def _results(text: str, file: str, faults: list[Fault]) -> list[tuple[int, dict[str, Any]]]:
    try:
        data = json.loads(text)
        return [(1, data)] if isinstance(data, dict) else list(enumerate(data, start=1))
    except ValueError:
        pass
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                found.append((number, json.loads(line)))
            except ValueError:
                what = "expected one JSON object, the line breaks off or is damaged"
                faults.append(Fault(f"{file}:{number}", what))
    return found


def _record(
    result: Any, where: str, file: str, line: int, asked: float | None, provenance: str, source: str
) -> Record:
    if not isinstance(result, dict) or "duration" not in result or "completed" not in result:
        what = "expected a result of vllm bench serve (duration, completed, ...), got something else"
        raise InputError(Fault(where, what, "save it with --save-result"))
    tokens, throughput = _tokens(result), _throughput(result)
    _check(result, tokens, throughput, where)
    try:
        return Record(
            provenance=provenance,
            scenario=_scenario(result, tokens),
            runtime=_runtime(result),
            energy_reason=Reason(code="no-power-in-file"),
            time=result["duration"],
            tokens=tokens,
            throughput=throughput,
            latency=Latency(**_latencies(result)),
            validity=Validity.of(_doubts(tokens, asked)),
            source=RowSource(ref=source or file, file=file, line=line),
        )
    except ValidationError as error:
        raise InputError(faults_of(error, where, Record)) from None


def _runtime(result: dict[str, Any]) -> Runtime:
    given = {name: result.get(name) for name in _SETTINGS}
    return Runtime(
        name=str(result.get("backend") or result.get("endpoint_type") or "openai"),
        settings={name: value for name, value in given.items() if value not in (None, "", float("inf"))},
    )


def _tokens(result: dict[str, Any]) -> Tokens:
    completed = result["completed"]
    failed = result.get("failed")
    if failed is None and isinstance(result.get("num_prompts"), int):
        failed = max(0, result["num_prompts"] - completed)
    return Tokens(
        prompt=result.get("total_input_tokens", result.get("total_input")),
        output=result.get("total_output_tokens", result.get("total_output")),
        requests=completed,
        failed=failed,
        counted_by="engine or client, see runtime",
        output_recounted=result.get("total_output_tokens_retokenized"),
    )


def _throughput(result: dict[str, Any]) -> Throughput:
    return Throughput(
        output=result.get("output_throughput"),
        mixed=result.get("total_token_throughput"),
        requests=result.get("request_throughput"),
        goodput=result.get("request_goodput"),
    )


def _check(result: dict[str, Any], tokens: Tokens, throughput: Throughput, where: str) -> None:
    """Counts over the duration must give the rates."""
    faults = []
    duration = result["duration"]
    if not isinstance(duration, (int, float)) or duration <= 0:
        raise InputError(Fault(f"{where}: duration", f"expected more than 0 s, got {duration!r}"))
    for name, count, rate in (
        ("output_throughput", tokens.output, throughput.output),
        ("request_throughput", tokens.requests, throughput.requests),
    ):
        if count and rate and abs(count / duration / rate - 1) > _NEAR:
            what = f"is {rate:g}/s, {count:g} in {duration:g} s are {count / duration:g}/s"
            faults.append(Fault(f"{where}: {name}", what, "the result is left out, one of them is damaged"))
    if faults:
        raise InputError(faults)


def _latencies(result: dict[str, Any]) -> dict[str, Spread]:
    """Latencies from their ``mean_ttft_ms`` and the like; milliseconds in the file."""
    spreads = {}
    for theirs, ours in _LATENCIES.items():
        found = {}
        for part, field in (("mean", "mean"), ("median", "median"), ("std", "sd")):
            value_ms = result.get(f"{part}_{theirs}_ms")
            if value_ms is not None:
                found[field] = value_ms / 1e3
        percentiles = {}
        for name, value_ms in result.items():
            if (match := re.fullmatch(rf"p([\d.]+)_{theirs}_ms", name)) and value_ms is not None:
                percentiles[match[1]] = value_ms / 1e3
        if found or percentiles:
            spreads[ours] = Spread(**found, percentiles=percentiles)
    return spreads


def _doubts(tokens: Tokens, asked: float | None) -> list[Reason]:
    doubts = []
    if tokens.failed:
        detail = f"{tokens.failed} of {tokens.failed + (tokens.requests or 0)} failed"
        doubts.append(Reason(code="requests-failed", detail=detail))
    recounted = tokens.output if tokens.output_recounted is None else tokens.output_recounted
    if tokens.output and abs(recounted / tokens.output - 1) > COUNTS_DIFFER:
        detail = f"{tokens.output:g} output tokens, {recounted:g} when tokenised again"
        doubts.append(Reason(code="counts-disagree", detail=detail))
    if asked and tokens.output and tokens.requests:
        mean = tokens.output / tokens.requests
        if abs(mean / asked - 1) > LENGTH_DIFFERS:
            doubts.append(Reason(code="length-differs", detail=f"{mean:g} tokens on average, {asked:g} asked for"))
    return doubts


def _scenario(result: dict[str, Any], tokens: Tokens) -> dict[str, Any]:
    scenario: dict[str, Any] = {
        "model": result.get("model_id") or result.get("model") or "",
        "runtime": str(result.get("backend") or "vllm"),
        "serving": {},
        "workload": {},
    }
    if tokens.requests:
        for name, total in (("prompt_tokens", tokens.prompt), ("output_tokens", tokens.output)):
            if total is not None:
                scenario["workload"][name] = total / tokens.requests
    if result.get("max_concurrency"):
        scenario["serving"]["batch"] = result["max_concurrency"]
    rate = result.get("request_rate")
    if isinstance(rate, (int, float)) and rate != float("inf"):
        scenario["serving"]["request_rate"] = rate
    return scenario
