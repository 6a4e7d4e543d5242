"""``joulesim validate local``: how wrong the model is on the machine in front of you."""

from __future__ import annotations

from pathlib import Path

from joulesim.cli import measure, output

ANSWERING = 0.2
"""Share of the budget for tasks, where a real model has any to answer."""


def arguments(parser) -> None:
    """Options of the command."""
    parser.add_argument("--campaign", default="standard", help="a shipped campaign or a file (default: standard)")
    parser.add_argument("--records", metavar="FILE", help="records to go on with (default: FOLDER/records.jsonl)")
    parser.add_argument("--folder", default="joulesim-local", help="where records, report and profile go")
    parser.add_argument("--hardware", metavar="NAME",
                        help="profile of this machine: where the fit starts, and what the written profile starts from")
    parser.add_argument("--no-measuring", action="store_true", help="fit and report what is in the records")
    parser.add_argument("--strict", action="store_true", help="exit status 1 when an error is beyond its bar")
    measure.engine_arguments(parser)
    output.arguments(parser)


def run(options) -> int:
    """Look around, measure, fit, compare, report."""
    from joulesim.cli import doctor
    from joulesim.validate import local_answers

    folder = Path(options.folder)
    records = Path(options.records or folder / "records.jsonl")
    campaign = {}
    if not options.no_measuring:
        campaign = _measure(options, records)
    found, page, result = evaluate(records, doctor.examine(tries=False), campaign, options.hardware)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").write_text(page)
    found |= {"report": str(folder / "report.html"), "profile": str(result.write(folder / "profile.yaml"))}
    if options.output == "json":
        print(output.to_json(found))
    else:
        headers = ("held out", "calls", "number", "median error", "90th percentile", "bias", "noise of this run", "as timed",
                   "bar")
        print(output.table([_row(e) for e in found["errors"]], headers, options.output))
        if found["answers"]:
            print("\n" + output.table([local_answers.cells(one) for one in found["answers"]], local_answers.HEADERS,
                                      options.output))
        if options.output in ("table", "md"):
            print(f"\n{found['verdict']}\n{found['joules']}\nReport: {found['report']}   "
                  f"Profile: joulesim predict MODEL --on {found['profile']}")
    return 1 if options.strict and not found["passed"] else 0


def _measure(options, records: Path) -> dict:
    """Run the campaign, and where there is a real model its tasks, within the budget; what became of the campaign."""
    import time

    from joulesim.cli import measure_task

    began, budget = time.monotonic(), measure.seconds(options)
    waiting = measure_task.missing(options, records)
    share = ANSWERING if waiting else 0.0
    campaign = measure.run_campaign(options, options.campaign, str(records), budget and (1 - share) * budget)
    measure_task.run_missing(options, records, budget and budget - (time.monotonic() - began))
    return measure.plain(campaign)


def _row(e: dict) -> tuple:
    noises = ("" if e[f"{kind}_median"] is None else f"{e[f'{kind}_median']:.1f} / {e[f'{kind}_p90']:.1f} %"
              for kind in ("noise", "repeat"))
    bar = "" if e["bar"] is None else f"{e['bar'][0]:g} / {e['bar'][1]:g} %{'' if e['passed'] else ' (missed)'}"
    cells = (f"{e['median']:.1f} %", f"{e['p90']:.1f} %", f"{e['bias']:+.1f} %")
    return (e["axis"], e["phase"], e["count"], *cells, *noises, bar)


def _of_the_last_clock(read: list, campaign: dict) -> tuple[list, dict]:
    """Records without the calls that an earlier run timed by another clock, and the campaign with their number."""
    calls = [r for r in read if r.campaign and r.campaign.role in ("fit", "test")]
    foreign = {id(r) for r in calls if r.clock != calls[-1].clock}
    return [r for r in read if id(r) not in foreign], {**campaign, "left out of another clock": len(foreign)}


def evaluate(records: Path, seen: dict, campaign: dict, hardware: str | None = None):
    """Errors as plain data, the report, and the fit, from records and what the doctor saw."""
    import math

    from joulesim.measure.records import read_records
    from joulesim.validate import local_answers, local_report
    from joulesim.validate.local_result import fit

    read, campaign = _of_the_last_clock(list(read_records(records)), campaign)
    result = fit(read, hardware)
    fitted, calls, errors = result.fitted, result.calls, result.errors
    first = calls.records[0]
    modelled = first.provenance == "modelled"
    metered = [r for r in read if r.energy is not None]
    judged = [e for e in errors if e.axis in ("all", "model")]
    passed = bool(judged) and all(e.passed for e in judged)
    said = (f"over all axes {'are within' if passed else 'miss'} their bars" if judged else
            "are unknown: no held-out call was measured")
    verdict = ("Dry run: times are computed by a stand-in, nothing here was measured." if modelled else
               f"Held-out errors {said}; times are {'CPU time of one thread' if first.clock == 'cpu' else 'wall time'}.")
    sampling = [r.state.sampling for r in metered if r.state.sampling is not None]
    cost = f" Sampling took at most {max(sampling):.2%} of a core." if sampling else ""
    joules = (f"{len(metered)} windows were metered at the {metered[0].boundary} boundary.{cost}" if metered else
              f"Joules are unknown: {first.energy_reason}.")
    plain = [{**e._asdict(), "bar": e.bar, "passed": e.passed} for e in errors]
    for row in plain:
        row.update({key: None for key in row if key.startswith(("noise_", "repeat_")) and math.isnan(row[key])})
    found = {
        "title": f"joulesim on {first.device.names[0]}", "verdict": verdict, "joules": joules, "passed": passed,
        "clock": first.clock, "split_hash": first.campaign.hash, "records_hash": fitted.records_hash,
        "machine": {**seen["machine"], "runtime": f"{first.runtime.name} {first.runtime.version}",
                    "build": first.runtime.build},
        "campaign": {**campaign, "calls": len(calls),
                     "fitted on": sum(r.campaign.role == "fit" for r in calls.records),
                     "split hash": first.campaign.hash, "clock": first.clock},
        "scatter": fitted.scatter, "errors": plain,
        "held_out": {phase: held._asdict() for phase, held in result.held_out.items()},
        "answers": [local_answers.plain(one) for one in local_answers.answered(result, read)],
        "constants": [{**c._asdict(), "value": float(c.value)} for c in fitted.constants()],
        "unidentified": result.unidentified,
        "meters": [(m["name"], "yes" if m["available"] else "no", m["boundary"], m["detail"] or m["scope"])
                   for m in seen["meters"]],
    }
    return found, local_report.sections(found, result), result
