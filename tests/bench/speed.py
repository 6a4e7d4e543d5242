"""
How long the tool takes: `make bench` prints CPU times here and now, beside a bare import of numpy for scale.

These are figures to look at, never a test: a busy machine doubles them. The load is printed with them.
"""

from __future__ import annotations

import compileall
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tabulate import tabulate

import joulesim as js
from joulesim.compare import compare
from joulesim.explain import steps

PROCESSES = 9
BATCHES, CALLS = 36, 50
"""Short batches: on a shared machine a long one is never undisturbed."""
SCENARIO = "qwen2.5-7b-q4_0-laptop-b8"
COLD = {
    "python -c 'import numpy'": ["-c", "import numpy"],
    "python -c 'import pydantic'": ["-c", "import pydantic"],
    "python -c 'import joulesim'": ["-c", "import joulesim"],
    f"joulesim predict {SCENARIO}": ["-m", "joulesim", "predict", SCENARIO],
    f"joulesim predict {SCENARIO} -o json": ["-m", "joulesim", "predict", SCENARIO, "-o", "json"],
    "joulesim predict llama-3.1-8b-instruct --on h100-sxm": ["-m", "joulesim", "predict", "llama-3.1-8b-instruct",
                                                            "--on", "h100-sxm"],
    f"joulesim explain {SCENARIO}": ["-m", "joulesim", "explain", SCENARIO],
    "joulesim compare (three scenarios)": ["-m", "joulesim", "compare", "qwen2.5-1.5b-q4_0-laptop-b1",
                                           "qwen2.5-7b-q4_0-laptop-b1", SCENARIO],
}
"""Command lines, each a new process."""


def cold(arguments: list[str]) -> float:
    """CPU time of one process, user and system. [s]"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def warm(call: Callable[[], object]) -> float:
    """CPU time of one call in this process, over a batch of calls. [s]"""
    start = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - start) / CALLS


def calls() -> dict[str, Callable[[], object]]:
    """What is called in process."""
    lengths = {"distribution": "lognormal", "mean": 900, "sd": 600, "maximum": 8000}
    laptop, server = js.load_scenario(SCENARIO), js.load_scenario("llama-3.1-8b-h100")
    spread = laptop.replace({"workload.prompt_tokens": lengths, "workload.output_tokens": lengths})
    serving = server.replace({"workload.prompt_tokens": lengths, "workload.output_tokens": lengths})
    experts = js.load_scenario("qwen3-30b-a3b-h100")
    pair = [js.predict(laptop), js.predict(laptop.replace({"serving.batch": 1}))]
    return {
        "js.predict, lengths are numbers": lambda: js.predict(laptop),
        "js.predict, continuous batching": lambda: js.predict(server),
        "js.predict, mixture of experts": lambda: js.predict(experts),
        "js.predict, log-normal lengths": lambda: js.predict(spread),
        "js.predict, continuous, log-normal lengths": lambda: js.predict(serving),
        "scenario.replace({'serving.batch': 4})": lambda: laptop.replace({"serving.batch": 4}),
        "explain.steps of a prediction": lambda: steps(pair[0]),
        "compare of two predictions": lambda: compare(pair),
    }


def imports(count: int = 12) -> list[tuple[str, str]]:
    """The imports of `joulesim predict` that take longest by themselves."""
    command = [sys.executable, "-X", "importtime", "-m", "joulesim", "predict", SCENARIO]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stderr.splitlines()
    packages: dict[str, float] = {}
    for line in lines:
        own, _, name = (part.strip() for part in line.removeprefix("import time:").split("|"))
        if own.isdigit():
            package = ".".join(name.split(".")[:2]) if name.startswith("joulesim") else name.split(".")[0]
            packages[package] = packages.get(package, 0.0) + float(own) / 1e3
    longest = sorted(packages.items(), key=lambda entry: -entry[1])[:count]
    return [(name, f"{milliseconds:.1f}") for name, milliseconds in longest]


def main() -> None:
    """Print the tables. Bytecode is written first, as an installation does."""
    compileall.compile_dir(Path(js.__file__).parent, quiet=1)
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start\n")
    bare, rows = None, []
    for name, arguments in COLD.items():
        times = [cold(arguments) for _ in range(PROCESSES)]
        bare = bare or min(times)
        rows.append((name, f"{min(times):.3f}", f"{statistics.median(times):.3f}", f"{min(times) / bare:.2f}"))
    print(tabulate(rows, (f"a new process ({PROCESSES} runs)", "CPU s, min", "median", "over bare numpy"), tablefmt="github"))

    rows = []
    for name, call in calls().items():
        call()
        times = [warm(call) for _ in range(BATCHES)]
        rows.append((name, f"{1e3 * min(times):.3f}", f"{1e3 * statistics.median(times):.3f}"))
    print("\n" + tabulate(rows, (f"in process ({BATCHES} x {CALLS} calls)", "CPU ms, min", "median"), tablefmt="github"))
    print("\n" + tabulate(imports(), ("imported by a predict", "ms in its own code"), tablefmt="github"))


if __name__ == "__main__":
    main()
