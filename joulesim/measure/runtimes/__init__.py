"""Inference engines, one module each; every one runs in a child process (:mod:`joulesim.measure.worker`)."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from joulesim.errors import Fault, NotFoundError, did_you_mean
from joulesim.measure.runtimes.base import Call, Runtime, Settings


class Known(NamedTuple):
    """An engine that joulesim can drive."""

    title: str
    packages: tuple[str, ...]
    """Python packages that it needs."""
    install: str
    """Command that brings them."""
    models: str = ".gguf"
    """What it opens as a synthetic model: a ``.gguf``, a ``.json`` of sizes, or nothing, where a server holds its own."""
    gpu_layers: int = 0
    """Layers on the GPU when nothing is said; -1: all."""


RUNTIMES = {
    "llama_cpp": Known("llama.cpp, call by call", ("llama_cpp",),
                       "pip install 'joulesim[llama]'  (compiles for about 4 minutes)"),
    "llama_server": Known("llama.cpp's server, prebuilt", ("xllamacpp",), "pip install 'joulesim[server]'"),
    "transformers": Known("Hugging Face transformers on PyTorch, pass by pass", ("torch", "transformers"),
                          "pip install 'joulesim[transformers]'", models=".json", gpu_layers=-1),
    "http": Known("any OpenAI-compatible server", (), "", models=""),
    "fake": Known("an arithmetic stand-in that computes nothing, for dry runs", (), "", models=".json"),
}
"""Engines by name; each is a module of this package with a class ``Engine``."""
PREFERRED = ("llama_cpp", "llama_server")
"""Engines that are taken when none is named, best first."""


def known(engine: str | Runtime) -> Known:
    """What is known of an engine, by its name or of the object."""
    if isinstance(engine, str):
        return RUNTIMES[engine]
    return RUNTIMES.get(name_of(engine)) or Known(name_of(engine), (), "", engine.models)


def name_of(engine: str | Runtime) -> str:
    """Name of an engine: that of its module."""
    return engine if isinstance(engine, str) else type(engine).__module__.rpartition(".")[2]


def missing(name: str) -> list[str]:
    """Packages of an engine that are not there."""
    return [package for package in RUNTIMES[name].packages if find_spec(package) is None]


def not_there(packages: list[str]) -> str:
    """Says which packages are missing."""
    several = len(packages) > 1
    return f"the package{'s' * several} {' and '.join(packages)} {'are' if several else 'is'} not installed"


def installed(name: str) -> bool:
    """Whether an engine's packages are there."""
    return not missing(name)


def default() -> str | None:
    """Best engine that is installed."""
    return next((name for name in PREFERRED if installed(name)), None)


def load(name: str) -> Runtime:
    """An engine, ready to open a model."""
    if name not in RUNTIMES:
        hint = did_you_mean(name, RUNTIMES) or f"there is {', '.join(RUNTIMES)}"
        raise NotFoundError(Fault(f"runtime {name}", "no such runtime", hint))
    if absent := missing(name):
        raise NotFoundError(Fault(f"runtime {name}", not_there(absent), RUNTIMES[name].install))
    return import_module(f"joulesim.measure.runtimes.{name}").Engine()


__all__ = ["PREFERRED", "RUNTIMES", "Call", "Known", "Runtime", "Settings", "default", "installed", "known", "load",
           "missing", "name_of", "not_there"]
