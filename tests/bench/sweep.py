"""
Speed of sweeps, as ratios measured in one run on one machine: ``make bench`` or ``python tests/bench/sweep.py [POINTS]``.

A 7B on one device over five numeric fields, every number of a prediction written. The memory roof is a plain numpy pass that
reads as many arrays of that size and writes as many new ones. Peers run the same grid of batch and context in a throw-away
virtual environment, made on the first run (``--no-peers`` leaves them out).
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import numpy as np

import joulesim as js
from joulesim.sweep import prepare

_TURNS = 3
"""Times that each measurement on one core is made, in turns; the best counts, because other work only ever slows it."""
SCENARIO = "qwen2.5-7b-q4_0-laptop-b8"
PEERS = {
    "ecologits": """
from ecologits.impacts.llm import compute_llm_impacts
def predict(batch, context):
    return compute_llm_impacts(
        model_active_parameter_count=7.6, model_total_parameter_count=7.6, output_token_count=context / 4,
        if_electricity_mix_adpe=7.4e-8, if_electricity_mix_pe=9.99, if_electricity_mix_gwp=0.59, if_electricity_mix_wue=4.9,
        datacenter_pue=1.2, datacenter_wue=0.5)
""",
    "genz-llm": """
import contextlib, io
from GenZ import decode_moddeling
def predict(batch, context):
    with contextlib.redirect_stdout(io.StringIO()):
        return decode_moddeling(model="llama2_7b", batch_size=batch, input_tokens=context, output_tokens=180, bits="int4",
                                system_name={"Flops": 120, "Memory_size": 12, "Memory_BW": 672, "ICN": 50, "real_values": True})
""",
}
"""Package to what a prediction of it looks like; each is run for a few seconds on points of the grid."""


def fields(points: int) -> dict[str, np.ndarray]:
    """Five numeric fields whose grid has at least so many points."""
    n = int(np.ceil(points**0.2))
    return {
        "hardware.memory_bandwidth": np.linspace(3e11, 1e12, n), "hardware.power_limit": np.linspace(60.0, 140.0, n),
        "serving.batch": np.arange(1.0, n + 1), "workload.prompt_tokens": np.linspace(700, 1500, n).round(),
        "workload.output_tokens": np.linspace(50, 500, n).round(),
    }


def roof(arrays: int, points: int) -> float:
    """CPU time of a pass over memory: read as many arrays, write as many new ones. [s]"""
    source = [np.ones(points) for _ in range(arrays)]
    start = time.process_time()
    made = [array + 1.0 for array in source]
    return time.process_time() - start if len(made) == arrays else 0.0


def run(over, client=None, **options) -> tuple[float, int]:
    """Time of a sweep, and its points: CPU time in this process, wall time on a cluster. [s, 1]"""
    clock = time.process_time if client is None else time.perf_counter
    start = clock()
    found = js.sweep(SCENARIO, over, client=client, **options)
    taken = clock() - start
    assert np.isfinite(found.energy_per_answer.values.flat[0])
    return taken, found.reason.size


def peak() -> float:
    """Largest resident memory of this process so far. [B]"""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def alone(task: str, points: int) -> list[float]:
    """Numbers that a task prints, run in a process of its own on one core."""
    core = sorted(os.sched_getaffinity(0))[0]
    done = subprocess.run([sys.executable, __file__, "--task", task, str(points)], check=True, capture_output=True, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    return [float(number) for number in done.stdout.split()]


def task(name: str, points: int) -> None:
    """One measurement, printed for :func:`alone`."""
    grid = fields(points)
    plan = prepare(SCENARIO, grid)
    if name == "roof":
        print(min(roof(len(plan.variables), plan.size) for _ in range(2)), plan.size, len(plan.variables))
    elif name == "grid":
        before = peak()
        taken, n = run(grid)
        print(taken, n, peak() - before - n * plan.bytes_per_point)
    elif name == "sobol":
        ranges = {name: (values[0], values[-1]) for name, values in grid.items()}
        taken, n = run({"point": js.sobol(plan.size, ranges)})
        print(taken, n)
    elif name == "intervals":
        small = fields(max(points // 50, 1))
        print(*run(small, intervals=True))
    elif name == "predict":
        scenario = js.load_scenario(SCENARIO)
        js.predict(scenario)
        start, n = time.process_time(), 0
        while time.process_time() - start < 3.0:
            js.predict(scenario.replace({"serving.batch": 1 + n % 24}))
            n += 1
        print(time.process_time() - start, n)


def peer(name: str) -> float | None:
    """Predictions a second of a package from PyPI; ``None`` when it cannot be installed or run. [1/s]"""
    folder = Path(tempfile.gettempdir()) / f"joulesim-bench-{name}"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        if subprocess.run([python, "-m", "pip", "install", "--quiet", name]).returncode:
            return None
    loop = PEERS[name] + """
import time
points = [(1 + i % 24, 700 + 30 * (i // 24)) for i in range(600)]
predict(*points[0])
start, n = time.process_time(), 0
while time.process_time() - start < 4.0:
    predict(*points[n % 600])
    n += 1
print(n / (time.process_time() - start))
"""
    core = sorted(os.sched_getaffinity(0))[0]
    done = subprocess.run([python, "-c", loop], capture_output=True, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    if done.returncode:
        print(f"{name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return float(done.stdout.split()[-1])


def cluster(points: int) -> tuple[float, float]:
    """Wall time on a cluster of one process and on one of two, each with one thread: best of three, in turns. [s]"""
    from distributed import Client, LocalCluster

    best = {1: np.inf, 2: np.inf}
    for workers in (1, 2) * 3:
        with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as local, Client(local) as client:
            run(fields(1000), client)
            best[workers] = min(best[workers], run(fields(points), client)[0])
    return best[1], best[2]


def main(points: int, peers: bool) -> None:
    """Measure and print."""
    turns = [{name: alone(name, points) for name in ("roof", "grid", "sobol", "predict")} for _ in range(_TURNS)]
    best = {name: min((turn[name] for turn in turns), key=lambda numbers: numbers[0] / numbers[1]) for name in turns[0]}
    floor, size, arrays = best["roof"]
    size, arrays = int(size), int(arrays)
    cores, busy = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"{size:,} points, {arrays} arrays; CPU time on one core, wall time on Dask ({cores} cores, {busy:.1f} processes waiting)")
    rows = [("memory roof: numpy reads and writes as many arrays", size / floor, 1.0, "")]
    taken, n, above = best["grid"]
    rate = n / taken
    rows.append(("grid", rate, taken / floor, f"bar 12; memory {above / 1e6:,.0f} MB above the output, bar 1,000"))
    one_core = taken
    taken, n = best["sobol"]
    rows.append(("Sobol design", n / taken, taken / floor, "bar 20"))
    taken, n = alone("intervals", points)
    rows.append(("grid with intervals", n / taken, taken / n / (floor / size), f"{taken / n * rate:,.0f} x the price of the grid"))
    single, double = cluster(points)
    rows.append(("grid, Dask, 1 worker", size / single, single / floor, ""))
    rows.append(("grid, Dask, 2 workers", size / double, double / floor,
                 f"{single / double:.2f} x one worker, {one_core / double:.2f} x the CPU time of one core; bar 1.7"))
    taken, n = best["predict"]
    rows.append(("loop of predict and replace", n / taken, taken / n / (floor / size), f"the grid is {rate * taken / n:,.0f} x"))
    for name, bar in (("ecologits", 300), ("genz-llm", 100_000)) if peers else ():
        speeds = [speed for _ in range(_TURNS) if (speed := peer(name)) is not None]
        theirs = max(speeds, default=None)
        if theirs is None:
            print(f"{name}: could not be installed or run here", file=sys.stderr)
            continue
        rows.append((name, theirs, size / theirs / floor, f"the grid is {rate / theirs:,.0f} x; bar {bar:,}"))
    width = max(len(row[0]) for row in rows)
    print(f"{'':<{width}}  {'points/s':>12}  {'x roof':>9}")
    for name, speed, ratio, note in rows:
        print(f"{name:<{width}}  {speed:>12,.0f}  {ratio:>9,.1f}  {note}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--task"]:
        task(sys.argv[2], int(sys.argv[3]))
    else:
        sizes = [int(text) for text in sys.argv[1:] if text.isdigit()]
        main(sizes[0] if sizes else 10_000_000, "--no-peers" not in sys.argv)
