"""``joulesim validate claims``."""

from __future__ import annotations

from typing import Any

from joulesim.cli import output
from joulesim.errors import Fault, InputError, did_you_mean


def arguments(parser) -> None:
    """Options of the command."""
    parser.add_argument("claim", nargs="*", help="only claims whose id starts with one of these")
    parser.add_argument(
        "--without",
        metavar="MECHANISM",
        help="switch a mechanism off and print the claims that flip; `all` for each in turn",
    )
    parser.add_argument(
        "--leave-one-note-out", action="store_true", help="refit without each study in turn and predict it (a minute)"
    )
    parser.add_argument("--page", metavar="FILE", help="write the page of docs/ too")
    output.arguments(parser)


def run(options) -> int:
    """Check every claim; exit with 1 when fewer are supported than the project promises."""
    if options.without:
        return _without(options)
    if options.leave_one_note_out:
        return _left_out(options)
    rows = [entry(f) for f in _findings(options.claim)]
    if options.page:
        _write_page(options.page, rows)
    if options.output == "json":
        print(output.to_json(rows))
        return 0
    print(
        output.table(
            [_row(r) for r in rows],
            ("claim", "kind", "role", "published", "accepted", "predicted", "verdict"),
            options.output,
        )
    )
    if options.output != "csv":
        print("\n" + "\n".join(_summary(rows)))
    return 0


def _write_page(path: str, rows: list[dict]) -> None:
    from pathlib import Path

    from joulesim.validate.claims_page import page

    try:
        Path(path).write_text(page(rows, lambda cells, head: output.table(cells, head, "md"), _short), "utf-8")
    except OSError as error:
        raise InputError(Fault("--page", f"{path} cannot be written ({error.strerror})")) from None


def _findings(wanted: list[str]):
    from joulesim.validate import claims

    known = claims.load()
    chosen = [c for c in known if not wanted or any(c.id.startswith(start) for start in wanted)]
    if not chosen:
        raise InputError(
            Fault(
                "joulesim validate claims",
                f"no claim starts with {wanted[0]!r}",
                did_you_mean(wanted[0], [c.id for c in known]),
            )
        )
    return [claims.check(c) for c in chosen]


def entry(finding) -> dict[str, Any]:
    """Plain data of a finding, with the fitted and assumed numbers it rests on."""
    from joulesim.validate import numbers

    claim = finding.claim
    rest = numbers.rests_on(claim) if claim.kind != "method" else ()
    one = list(finding.predicted.values())[0] if set(finding.predicted) == {"value"} else finding.predicted or None
    return {
        "id": claim.id,
        "note": claim.note,
        "kind": claim.kind,
        "role": "fit" if rest else "test",
        "statement": claim.statement,
        "reading": claim.reading or None,
        "published": claim.published,
        "predicted": one,
        "accept": claim.accept,
        "verdict": finding.verdict,
        "why": finding.why or None,
        "beside": finding.beside,
        "scenarios": list(dict.fromkeys(_named(s) for s in claim.scenarios)),
        "fitted_numbers": [{"name": n.name, "value": n.value, "kind": n.kind, "note": n.note} for n in rest],
    }


def _named(s) -> str:
    weights = s.weights.name if s.weights else "as stored"
    mode = f" [{s.power_mode}]" if s.power_mode else ""
    return (
        f"{s.model.name} {weights} on {s.hardware.name}{mode}, {s.runtime.name}, batch {s.serving.batch}, "
        f"prompt {s.workload.prompt_tokens:g}"
        + (f", {s.speculation.text or s.speculation.method} drafted" if s.speculation.method != "none" else "")
    )


def _row(r: dict) -> tuple:
    return (
        r["id"],
        r["kind"],
        r["role"],
        _short(r["published"]),
        _short(r["accept"]),
        _short(r["predicted"]) if r["predicted"] is not None else r["why"],
        r["verdict"],
    )


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_short(inner)}" for name, inner in value.items())
    if isinstance(value, list) and len(value) > 2:
        return f"{min(value):.3g} to {max(value):.3g}"
    if isinstance(value, list):
        return " to ".join(_short(v) for v in value)
    return "" if value is None else f"{value:.3g}" if isinstance(value, (int, float)) else str(value)


def _summary(rows: list[dict]) -> list[str]:
    supported = [r for r in rows if r["verdict"] == "supported"]
    tests = [r for r in supported if r["role"] == "test"]
    numbers = {n["name"]: n for r in supported for n in r["fitted_numbers"]}
    lines = [
        f"{len(supported)} of {len(rows)} supported; {len(tests)} of them rest on no fitted or assumed number. "
        f"{len(numbers)} such numbers carry the others:"
    ]
    for name, n in numbers.items():
        carried = [r["id"] for r in supported if name in {m["name"] for m in r["fitted_numbers"]}]
        lines.append(f"- {name} = {n['value']:.4g} ({n['kind']}; {n['note']}): {len(carried)} claims")
    lines += [f"{r['id']}: {r['verdict']}, {r['why']}" for r in rows if r["verdict"] != "supported"]
    return lines


def _without(options) -> int:
    from joulesim.validate import claims
    from joulesim.validate.mechanisms import SWITCHES

    names = list(SWITCHES) if options.without == "all" else [options.without]
    if names[0] not in SWITCHES:
        raise InputError(
            Fault(
                "--without",
                f"expected a mechanism ({', '.join(SWITCHES)}), got {names[0]!r}",
                did_you_mean(names[0], SWITCHES),
            )
        )
    before = {f.claim.id: f for f in _findings(options.claim)}
    flips = {}
    for name in names:
        switch = SWITCHES[name][1]
        after = [claims.check(f.claim, lambda s, x, c, switch=switch: switch(x, c)) for f in before.values()]
        flips[name] = [
            {
                "id": f.claim.id,
                "before": before[f.claim.id].verdict,
                "after": f.verdict,
                "predicted_before": before[f.claim.id].predicted,
                "predicted_after": f.predicted,
            }
            for f in after
            if f.verdict != before[f.claim.id].verdict
        ]
    if options.output == "json":
        print(output.to_json(flips))
        return 0
    rows = [
        (name, f["id"], f["before"], f["after"])
        for name in names
        for f in flips[name] or [dict.fromkeys(("id", "before", "after"), "")]
    ]
    print(output.table(rows, ("without", "claim", "with it", "without it"), options.output))
    if options.output != "csv":
        print(
            "\n" + "\n".join(f"without {name} ({SWITCHES[name][0]}): {len(flips[name])} claims flip" for name in names)
        )
    return 0


def _left_out(options) -> int:
    from joulesim.validate import claims, refit

    shipped = sum(claims.check(c).verdict == "supported" for c in claims.load())
    notes = refit.leave_one_note_out()
    found = [(n, f) for n in notes for f in n.findings]
    kept = sum(f.verdict == "supported" for _, f in found)
    if options.output == "json":
        print(
            output.to_json(
                {
                    "supported": kept,
                    "supported_with_all": shipped,
                    "claims": [
                        {
                            "id": f.claim.id,
                            "note": n.note,
                            "predicted": f.predicted,
                            "verdict": f.verdict,
                            "refitted": n.numbers,
                        }
                        for n, f in found
                    ],
                }
            )
        )
        return 0
    rows = [
        (
            f.claim.id,
            len(n.numbers),
            _short(f.predicted if len(f.predicted) > 1 else next(iter(f.predicted.values()), "")),
            _short(f.claim.accept),
            f.verdict,
        )
        for n, f in found
    ]
    print(
        output.table(
            rows, ("claim", "numbers refitted", "predicted without its note", "accepted", "verdict"), options.output
        )
    )
    if options.output != "csv":
        print(f"\n{kept} of {len(found)} supported when their note is left out of the fit, {shipped} with all notes.")
    return 0
