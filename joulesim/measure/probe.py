"""Whether an engine survives on this machine, tried on a model of a few kilobytes before anything is measured."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from joulesim.errors import Fault, InputError, did_you_mean
from joulesim.measure import runtimes, synth
from joulesim.measure.runtimes.base import Settings
from joulesim.measure.worker import Worker, WorkerError
from joulesim.specs.base import faults_of

_TINY = synth.Shape(width=256, layers=1, heads=4, kv_heads=2, ffn=512, vocabulary=512)
_CALLS = ({"phase": "decode", "sequences": 1, "depth": 8}, {"phase": "prefill", "tokens": 64})
_PATIENCE = 60.0


class Tried(NamedTuple):
    """Outcome of a trial."""

    settings: Settings
    """Settings that work: those that were wanted, or the nearest that do."""
    works: bool
    facts: dict
    note: str
    """What had to be changed or what failed; empty when nothing."""


def trial(engine: str, settings: Settings) -> Tried:
    """
    Run a tiny model, and once more without rearranged weights if that kills the engine.

    A build for more instructions than a virtual machine passes through dies with SIGILL at its first product: a native
    build of llama.cpp did on a Xeon with AMX under Firecracker, and worked without its rearranged weights.
    """
    first = _failure(engine, settings)
    if isinstance(first, dict):
        return Tried(settings, True, first, "")
    if settings.repack and runtimes.RUNTIMES[engine].models == ".gguf":
        plain = settings.model_copy(update={"repack": False})
        second = _failure(engine, plain)
        if isinstance(second, dict):
            note = f"without rearranged weights (repack: false), because with them: {first}"
            return Tried(plain, True, second, note)
    return Tried(settings, False, {}, first)


class Usable(NamedTuple):
    """An engine that works here."""

    name: str
    settings: Settings
    note: str
    """What had to be changed; empty when nothing."""


def usable(name: str | None = None, **wanted: Any) -> Usable:
    """
    An engine by name, or the best one installed, with settings that work on this machine.

    Parameters
    ----------
    name : str, optional
        One of :data:`joulesim.measure.runtimes.RUNTIMES`.
    **wanted
        Fields of :class:`Settings`; ``None`` is the default of the engine.

    Raises
    ------
    InputError
        When there is no such engine, or it does not survive a trial, with what it said.
    """
    name = name or runtimes.default()
    if name is None:
        what = "no runtime is installed"
        raise InputError(Fault("runtime", what, "pip install 'joulesim[server]', or 'joulesim[llama]' (compiles)"))
    if name not in runtimes.RUNTIMES:
        hint = did_you_mean(name, runtimes.RUNTIMES) or f"there is {', '.join(runtimes.RUNTIMES)}"
        raise InputError(Fault("runtime", f"no runtime {name!r}", hint))
    settings = settings_of(name, wanted)
    if name == "http":
        if not settings.address:
            raise InputError(Fault("address", "expected a server, got nothing", "give its address, http://HOST:PORT"))
        return Usable(name, settings, "")
    tried = trial(name, settings)
    if not tried.works:
        raise InputError(Fault(f"runtime {name}", tried.note, "`joulesim doctor` tells more"))
    return Usable(name, tried.settings, tried.note)


def settings_of(engine: str | runtimes.Runtime, wanted: Mapping[str, Any]) -> Settings:
    """Settings with the engine's defaults; every fault in one error."""
    given = {field: value for field, value in wanted.items() if value is not None}
    try:
        return Settings(**{"gpu_layers": runtimes.known(engine).gpu_layers} | given)
    except ValidationError as error:
        raise InputError(faults_of(error, "settings", Settings)) from None


def _failure(engine: str, settings: Settings) -> dict | str:
    """Facts of an engine that works, or what went wrong."""
    known = runtimes.RUNTIMES[engine]
    if absent := runtimes.missing(engine):
        return f"{runtimes.not_there(absent)}; {known.install}"
    with tempfile.TemporaryDirectory(prefix="joulesim-") as folder:
        try:
            model = str(Path(folder) / f"tiny{known.models}")
            if known.models == ".json":
                synth.write_sizes(model, _TINY, "f16")
            else:
                synth.write(model, _TINY, "q4_0")
            with Worker(engine) as worker:
                worker.ask("open", timeout=_PATIENCE, model=model, settings=settings.model_dump())
                for call in _CALLS:
                    worker.ask("prepare", timeout=_PATIENCE, call=call)
                return worker.hello
        except WorkerError as error:
            return str(error)
