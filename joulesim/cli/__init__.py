"""The ``joulesim`` command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from joulesim.errors import Fault, InputError, did_you_mean

COMMANDS = {
    "predict": "energy per correct answer of a scenario, or of MODEL --on DEVICE",
    "explain": "every intermediate of a prediction, and where the joules of an answer go",
    "compare": "scenarios side by side: which is cheaper per correct answer, and why",
    "sweep": "a scenario at many values of many fields, real or hypothetical",
    "frontier": "the points of a sweep that no other point beats",
    "optimise": "the best deployment over choices and ranges, and what stands in the way of a better one",
    "invert": "a measured throughput and power read backwards: which batch or efficiency explains them",
    "speculate": "draft length and threshold of least energy per correct answer or time, or the front between them",
    "sensitivity": "which numbers move the energy per correct answer, and how far",
    "model": "what a config.json, a .gguf or a shipped model is made of",
    "hardware": "device profiles, or one of them",
    "formats": "weight and cache formats, or one of them",
    "validate": "how wrong predictions are, on published tables and on this machine",
    "measure": "run a campaign, a task or a parity check on this machine, and keep every record",
    "doctor": "meters and runtimes of this machine, what is missing, and how to fix it",
    "synth": "write a random-weight .gguf of any shape and format",
    "scenarios": "shipped scenarios, models and runtimes, or one of them",
}

EXTRAS = {"scipy": "sweep", "xarray": "sweep", "dask": "cluster", "distributed": "cluster", "matplotlib": "plots",
          "gguf": "gguf", "pint": "units"}
"""Extra that brings an optional library."""


class Parser(argparse.ArgumentParser):
    """Argument parser whose faults are input faults: one line, exit status 2."""

    def error(self, message: str):
        raise InputError(Fault(self.prog, message, f"`{self.prog} --help` shows how"))


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run one command.

    Returns
    -------
    int
        0 fine (an infeasible prediction included), 1 a bar was missed, 2 the input is wrong.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's idle BLAS threads cost 0.1 s of CPU; no matrix here is big
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that has no µ still shows the rest
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except InputError as error:
        for fault in error.faults:
            print(f"joulesim: {fault}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        library = (error.name or "joulesim").partition(".")[0]
        if library == "joulesim":
            raise
        remedy = f"pip install 'joulesim[{EXTRAS[library]}]'" if library in EXTRAS else f"pip install {library}"
        print(f"joulesim: {library} is not installed; {remedy}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has seen enough; nothing more may be flushed at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"joulesim: {error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2


def _run(arguments: list[str]) -> int:
    import joulesim

    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"joulesim {joulesim.__version__}")
        return 0
    name = arguments[0]
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS) or "`joulesim --help` lists the commands"
        raise InputError(Fault("", f"no command {name!r}", hint))
    command = import_module(f"joulesim.cli.{name}")
    parser = Parser(prog=f"joulesim {name}", description=COMMANDS[name], allow_abbrev=False)
    command.arguments(parser)
    return command.run(parser.parse_args(arguments[1:])) or 0


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(["usage: joulesim COMMAND ...", "", *lines, "", "`joulesim COMMAND --help` tells more."])
