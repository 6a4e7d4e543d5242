"""Whether an engine survives on this machine, tried on a model of a few kilobytes before anything is measured."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

from joulesim.measure import runtimes, synth
from joulesim.measure.runtimes.base import Settings
from joulesim.measure.worker import Worker, WorkerError

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
