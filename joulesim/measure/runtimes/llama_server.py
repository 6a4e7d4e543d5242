"""llama.cpp's own server, embedded by the prebuilt ``xllamacpp`` wheel: installed in a second, without a compiler."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import xllamacpp

from joulesim.measure.runtimes import http
from joulesim.measure.runtimes.base import Settings

_CACHE_FORMATS = {"f32": "F32", "f16": "F16", "q8_0": "Q8_0", "q4_0": "Q4_0", "bf16": "BF16"}
_CAPACITY = 16384
"""Tokens of cache over all sequences."""
_SEQUENCES = 16


class Engine(http.Engine):
    """A server within the worker's own process, so that its CPU time can be seen."""

    _sees_cpu = True

    def __init__(self):
        super().__init__()
        self._server = None

    def facts(self) -> dict[str, Any]:
        try:
            built = version("xllamacpp")
        except PackageNotFoundError:
            built = ""
        info = getattr(xllamacpp, "BUILD_INFO", "")
        return {**super().facts(), "name": "llama-server", "version": f"xllamacpp {built}",
                "build": f"{info} {xllamacpp.get_system_info()}".strip(), "backend": "cpu"}

    def open(self, model: str, settings: dict[str, Any]) -> dict[str, Any]:
        self.close()
        wanted = Settings(**settings)
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(model)
        parameters.n_ctx, parameters.n_parallel = _CAPACITY, _SEQUENCES
        parameters.n_ubatch = wanted.microbatch
        parameters.swa_full = True  # as llama_cpp does: a window alone cannot be gone on from
        parameters.n_gpu_layers = wanted.gpu_layers
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = wanted.threads
        parameters.verbosity = 0
        parameters.warmup = False
        parameters.port = 0
        for field, name in (("cache_type_k", wanted.kv_format), ("cache_type_v", wanted.v_format or wanted.kv_format)):
            kind = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{_CACHE_FORMATS[name]}")
            setattr(parameters, field, kind)
        try:
            self._server = xllamacpp.Server(parameters)
        except RuntimeError as error:
            raise RuntimeError(f"{model} does not load: {error}") from None
        self._settings = wanted.model_copy(update={"address": self._server.listening_address, "model_name": "model"})
        facts = self.facts()
        return {**{key: facts[key] for key in ("name", "version", "build", "backend")}, "threads": wanted.threads,
                "settings": wanted.model_dump(exclude={"threads", "address", "model_name"})}

    def close(self) -> None:
        self._server = None
