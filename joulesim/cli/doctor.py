"""``joulesim doctor``: what can be measured here, what is missing, and the command that fixes it."""

from __future__ import annotations

from joulesim.cli import output


def arguments(parser) -> None:
    """Options of the command."""
    parser.add_argument("--quick", action="store_true", help="do not try the runtimes on a tiny model")
    output.arguments(parser)


def run(options) -> int:
    """Probe meters and runtimes."""
    found = examine(tries=not options.quick)
    if options.output == "json":
        print(output.to_json(found))
        return 0
    machine = found["machine"]
    print(output.table([(key, value) for key, value in machine.items()], ("machine", ""), options.output) + "\n")
    rows = [(m["name"], "yes" if m["available"] else "no", m["boundary"], m["resolution"], m["shortest_window"],
             m["detail"] or m["scope"], m["remedy"]) for m in found["meters"]]
    headers = ("meter", "works", "boundary", "resolution", "shortest window", "what", "fix")
    print(output.table(rows, headers, options.output) + "\n")
    rows = [(r["name"], r["works"], r["version"], r["backend"], r["note"], r["remedy"]) for r in found["runtimes"]]
    print(output.table(rows, ("runtime", "works", "version", "backend", "note", "fix"), options.output))
    if options.output == "table":
        print("\n" + "\n".join(found["next"]))
    return 0


def examine(tries: bool = True) -> dict:
    """Machine, meters and runtimes as plain data."""
    import os

    from joulesim.measure import host, meters

    probed = meters.probe()
    machine = {"processor": host.processor(), "cores": os.cpu_count(), "features": " ".join(host.features()),
               "memory": _bytes(host.memory()), "power source": host.power_source() or "not stated",
               "host": host.describe()}
    seen = [_meter(info) for info in probed]
    engines = [_runtime(name, tries) for name in ("llama_cpp", "llama_server", "transformers")]
    nvidia = any(info.name == "nvml" and info.available for info in probed)
    return {"machine": machine, "meters": seen, "runtimes": engines, "next": _advice(seen, engines, nvidia)}


def _meter(info) -> dict:
    from joulesim.units import show

    return {
        "name": info.name, "available": info.available, "boundary": info.boundary, "scope": info.scope,
        "method": info.method,
        "resolution": show(info.energy_resolution, "joule") if info.energy_resolution else None,
        "shortest_window": show(info.shortest_window, "second") if info.available else None,
        "devices": list(info.devices), "detail": str(info.reason) if info.reason else "", "remedy": info.remedy,
        "notes": list(info.notes),
    }


def _runtime(name: str, tries: bool) -> dict:
    from joulesim.measure import runtimes

    known = runtimes.RUNTIMES[name]
    if absent := runtimes.missing(name):
        return {"name": name, "works": "no", "version": "", "backend": "", "note": runtimes.not_there(absent),
                "remedy": known.install}
    if not tries:
        return {"name": name, "works": "installed", "version": "", "backend": "", "note": known.title, "remedy": ""}
    from joulesim.measure.probe import trial
    from joulesim.measure.runtimes import Settings

    tried = trial(name, Settings())
    remedy = ""
    if tried.note:
        portable = ("build without the instructions that fail here: CMAKE_ARGS='-DGGML_NATIVE=OFF -DGGML_AVX2=ON "
                    "-DGGML_FMA=ON -DGGML_F16C=ON' pip install --force-reinstall --no-cache-dir llama-cpp-python")
        remedy = portable if "SIGILL" in tried.note and known.models == ".gguf" else known.install
    return {"name": name, "works": "yes" if tried.works else "no", "version": tried.facts.get("version", ""),
            "backend": tried.facts.get("backend", ""), "build": tried.facts.get("build", ""), "note": tried.note,
            "remedy": remedy}


def _advice(meters: list[dict], engines: list[dict], nvidia: bool) -> list[str]:
    lines = []
    if nvidia and not any(r["backend"] == "gpu" for r in engines):
        lines.append("An NVIDIA GPU is here and no runtime uses it: "
                     "CMAKE_ARGS='-DGGML_CUDA=on' pip install --force-reinstall --no-cache-dir llama-cpp-python, "
                     "or pip install 'joulesim[transformers]'")
    if not any(m["available"] for m in meters):
        lines.append("No energy meter answers: times and tokens are measured, joules stay unknown. A meter at the wall "
                     "(--meter shelly:ADDRESS) gives joules of the whole machine.")
    ready = {r["name"] for r in engines if r["works"] in ("yes", "installed")}
    if ready == {"transformers"}:
        lines.append("Ready: joulesim validate local --runtime transformers --campaign gpu-f16  "
                     "(--gpu-layers 0: on the CPU)")
    elif ready:
        lines.append("Ready: joulesim validate local --minutes 6")
    else:
        lines.append("No runtime is installed: pip install 'joulesim[server]' takes a second.")
    return lines


def _bytes(n: int | None) -> str:
    from joulesim.units import show

    return show(n, "byte") if n else "not stated"
