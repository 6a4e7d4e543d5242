"""
Results of llama.cpp's ``llama-bench`` as records of speed; it meters no energy.

Fields are taken by name, since the schema grows (llama.cpp#10319, #13514). ``avg_ts`` is the mean of the repeats'
rates (``samples_ts``), not tokens over the mean time. ``pp4096+tg128`` is one rate over prompt and output tokens:
neither prefill nor decode. Tokenising and sampling are outside of what is timed.

References
----------
ggml-org/llama.cpp, ``tools/llama-bench/README.md``.
"""

from __future__ import annotations

import os
import statistics
from typing import Any

from pydantic import ValidationError

from joulesim.errors import Fault, InputError
from joulesim.measure.importers import llama_bench_rows
from joulesim.measure.importers.text import read_text
from joulesim.measure.record import Device, Latency, Record, RowSource, Runtime, Spread, Throughput, Tokens
from joulesim.measure.records import Records
from joulesim.measure.validity import Reason, Validity
from joulesim.specs.base import faults_of

HIGH_VARIATION = 0.05
"""Coefficient of variation of the repeats from which a rate is suspect."""
FIRST_RUN = 0.5
"""Coefficient of variation that only a first run gives, when shaders are compiled (geerlingguy/ai-benchmarks#43)."""
_NEAR = 1e-3
"""``avg_ts`` and the mean of ``samples_ts`` differ by printing only."""
_OLD_BACKENDS = ("cuda", "vulkan", "metal", "sycl", "rpc", "kompute", "opencl", "gpu_blas", "blas")
"""Columns of one backend each, before ``backends`` came."""
_SETTINGS = (
    "n_batch", "n_ubatch", "n_threads", "n_gpu_layers", "type_k", "type_v", "flash_attn", "use_mmap", "split_mode",
    "main_gpu", "tensor_split", "no_kv_offload", "embeddings", "cpu_mask", "model_size", "model_n_params", "size",
    "params", "threads", "fa", "sm",
)


def read_llama_bench(path: str | os.PathLike, provenance: str = "measured", source: str = "") -> Records:
    """One record a test, from any output format of llama-bench; rows that cannot be used are faults by line."""
    file = str(path)
    found, faults = llama_bench_rows.bench_rows(read_text(path), file)
    records = []
    for test in found:
        try:
            records.append(_record(test, file, provenance, source))
        except InputError as error:
            faults.extend(error.faults)
    return Records(records, faults)


def _record(test: llama_bench_rows.BenchRow, file: str, provenance: str, source: str) -> Record:
    fields, where = test.fields, test.where
    prompt, output, depth = (_whole(fields, name, where) for name in ("n_prompt", "n_gen", "n_depth"))
    if not prompt and not output:
        raise InputError(Fault(where, "expected n_prompt or n_gen above 0, got neither"))
    samples = tuple(fields.get("samples_ts") or ())
    rate = _rate(fields, samples, where)
    sd = _number(fields, "stddev_ts", where)
    if sd is None and len(samples) > 1:
        sd = statistics.stdev(samples)
    kind = "mixed" if prompt and output else "prompt" if prompt else "output"
    time_ns = _number(fields, "avg_ns", where)
    time = None if time_ns is None else time_ns / 1e9
    line = where.rpartition(":")[2]
    try:
        return Record(
            provenance=provenance,
            scenario=_scenario(fields, prompt, output, depth),
            device=_device(fields),
            runtime=_runtime(fields),
            energy_reason=Reason(code="no-power-in-file"),
            time=time,
            tokens=Tokens(prompt=prompt, output=output, counted_by="llama-bench"),
            throughput=Throughput(**{kind: rate}, sd=sd, samples=samples),
            latency=Latency(tpot=Spread(mean=time / output)) if kind == "output" and time else Latency(),
            validity=Validity.of(_doubts(kind, rate, sd)),
            source=RowSource(ref=source or file, file=file, line=int(line) if line.isdigit() else None),
        )
    except ValidationError as error:
        raise InputError(faults_of(error, where, Record)) from None


def _rate(fields: dict[str, Any], samples: tuple[float, ...], where: str) -> float:
    """Mean of the repeats' rates. [token/s]"""
    rate = _number(fields, "avg_ts", where)
    if rate is None and samples:
        return statistics.fmean(samples)
    if rate is None:
        raise InputError(Fault(where, "expected avg_ts or samples_ts, got neither"))
    if samples and abs(statistics.fmean(samples) / rate - 1) > _NEAR:
        what = f"avg_ts is {rate:g}, the mean of samples_ts is {statistics.fmean(samples):g}"
        raise InputError(Fault(where, what, "the row is left out, one of them is damaged"))
    return rate


def _doubts(kind: str, rate: float, sd: float | None) -> list[Reason]:
    doubts = [Reason(code="mixed-rate")] if kind == "mixed" else []
    variation = sd / rate if sd and rate else 0.0
    if variation > FIRST_RUN:
        doubts.append(Reason(code="first-run", detail=f"coefficient of variation {variation:.2f}"))
    elif variation > HIGH_VARIATION:
        doubts.append(Reason(code="high-variation", detail=f"coefficient of variation {variation:.2f}"))
    return doubts


def _scenario(fields: dict[str, Any], prompt: int, output: int, depth: int) -> dict[str, Any]:
    """What was run, in the names of a scenario file; the model as llama-bench calls it."""
    scenario: dict[str, Any] = {
        "model": fields.get("model_type") or fields.get("model_filename") or "",
        "runtime": "llama.cpp",
        "workload": {"prompt_tokens": prompt, "output_tokens": output, "context": depth},
        "serving": {"batch": 1},
    }
    if fields.get("model_filename"):
        scenario["model_file"] = fields["model_filename"]
    if fields.get("type_k"):
        scenario["kv_cache"] = fields["type_k"]
    return scenario


def _device(fields: dict[str, Any]) -> Device:
    on_gpu = fields.get("gpu_info") and str(fields.get("n_gpu_layers", "0")) != "0"
    name = fields.get("gpu_info") if on_gpu else fields.get("cpu_info")
    return Device(names=(name,) if name else (), count=1 if name else 0, host=fields.get("cpu_info") or "")


def _runtime(fields: dict[str, Any]) -> Runtime:
    old = [name for name in _OLD_BACKENDS if str(fields.get(name, "")).lower() in ("1", "true")]
    threads = str(fields.get("n_threads") or fields.get("threads") or "")
    settings = {name: fields[name] for name in _SETTINGS if fields.get(name) not in (None, "")}
    return Runtime(
        name="llama.cpp",
        version=str(fields.get("build_number") or ""),
        build=str(fields.get("build_commit") or ""),
        backend=fields.get("backends") or ",".join(old),
        threads=int(threads) if threads.isdigit() else None,
        settings={name: value for name, value in settings.items() if isinstance(value, (str, int, float, bool))},
    )


def _number(fields: dict[str, Any], name: str, where: str) -> float | None:
    value = fields.get(name)
    if value in (None, ""):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(Fault(f"{where}: {name}", f"expected a number, got {value!r}")) from None


def _whole(fields: dict[str, Any], name: str, where: str) -> int:
    value = _number(fields, name, where) or 0.0
    if not value.is_integer() or value < 0:
        raise InputError(Fault(f"{where}: {name}", f"expected a whole number, got {fields[name]!r}"))
    return int(value)
