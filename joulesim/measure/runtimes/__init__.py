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
    package: str
    """Python package that it needs; empty: none."""
    install: str
    """Command that brings it."""


RUNTIMES = {
    "llama_cpp": Known("llama.cpp, call by call", "llama_cpp",
                       "pip install 'joulesim[llama]'  (compiles for about 4 minutes)"),
    "llama_server": Known("llama.cpp's server, prebuilt", "xllamacpp", "pip install 'joulesim[server]'"),
    "http": Known("any OpenAI-compatible server", "", ""),
    "fake": Known("an arithmetic stand-in that computes nothing, for dry runs", "", ""),
}
"""Engines by name; each is a module of this package with a class ``Engine``."""
PREFERRED = ("llama_cpp", "llama_server")
"""Engines that are taken when none is named, best first."""


def installed(name: str) -> bool:
    """Whether an engine's package is there."""
    package = RUNTIMES[name].package
    return not package or find_spec(package) is not None


def default() -> str | None:
    """Best engine that is installed."""
    return next((name for name in PREFERRED if installed(name)), None)


def load(name: str) -> Runtime:
    """An engine, ready to open a model."""
    if name not in RUNTIMES:
        hint = did_you_mean(name, RUNTIMES) or f"there is {', '.join(RUNTIMES)}"
        raise NotFoundError(Fault(f"runtime {name}", "no such runtime", hint))
    if not installed(name):
        known = RUNTIMES[name]
        raise NotFoundError(Fault(f"runtime {name}", f"the package {known.package} is not installed", known.install))
    return import_module(f"joulesim.measure.runtimes.{name}").Engine()


__all__ = ["PREFERRED", "RUNTIMES", "Call", "Known", "Runtime", "Settings", "default", "installed", "load"]
