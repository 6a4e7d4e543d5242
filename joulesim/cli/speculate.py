"""``joulesim speculate``."""

from __future__ import annotations

from joulesim import units
from joulesim.cli import output
from joulesim.cli import scenario as scenario_arguments
from joulesim.errors import Fault, InputError


def arguments(parser) -> None:
    """Options of the command."""
    parser.add_argument("scenario", help="shipped scenario or YAML file that declares speculation")
    scenario_arguments.arguments(parser)
    parser.add_argument(
        "--for",
        dest="goal",
        choices=("energy", "time", "front"),
        default="front",
        help="least energy per correct answer, least time, or the front between them (default: front)",
    )
    parser.add_argument(
        "--lengths", default="1..16", metavar="FROM..TO", help="draft lengths to try (default: %(default)s)"
    )
    output.arguments(parser)


def run(options) -> int:
    """Print the draft lengths and thresholds worth using."""
    from joulesim import drafting

    scenario, _ = scenario_arguments.read(options.scenario, options)
    found = drafting.study(scenario, _lengths(options.lengths))
    chosen = {
        "energy": lambda: [min((found.plain, *found.options), key=lambda o: o.energy)],
        "time": lambda: [min((found.plain, *found.options), key=lambda o: o.time)],
        "front": found.front,
    }[options.goal]()
    if options.output == "json":
        print(
            output.to_json(
                {
                    "verdict": found.verdict,
                    "per": found.per,
                    "plain": _plain(found.plain),
                    "options": [_plain(o) for o in chosen],
                }
            )
        )
        return 0
    headers = (
        "draft length",
        "threshold",
        "tokens a round",
        "drafted",
        "wasted",
        "speed-up",
        "decode energy ratio",
        "time of a request",
        f"energy per {found.per}",
    )
    print(output.table([_row(o, found.per, options.output == "csv") for o in chosen], headers, options.output))
    if options.output != "csv":
        print(f"\n{scenario.name}: {found.verdict}.")
    return 0


def _lengths(text: str) -> tuple[int, ...]:
    low, dots, high = text.partition("..")
    if not (low.isdigit() and (high.isdigit() or not dots)) or not 1 <= int(low) <= int(high or low) <= 64:
        raise InputError(Fault("--lengths", f"expected FROM..TO between 1 and 64, got {text!r}"))
    return tuple(range(int(low), int(high or low) + 1))


def _plain(o) -> dict:
    return {
        "draft_length": o.draft_length,
        "threshold": o.threshold,
        "time": o.time,
        "energy": o.energy,
        "speed_up": o.speed_up,
        "energy_ratio": o.energy_ratio,
        "round": None
        if o.round is None
        else {
            "tokens": o.round.tokens,
            "drafted": o.round.drafted,
            "verified": o.round.verified,
            "accepted": o.round.accepted,
            "wasted": o.round.wasted,
            "draft_calls": o.round.draft_calls,
        },
    }


def _row(o, per: str, raw: bool) -> tuple:
    figures = (
        ("", "", "")
        if o.round is None
        else tuple(value if raw else f"{value:.2f}" for value in (o.round.tokens, o.round.drafted, o.round.wasted))
    )
    return (
        o.draft_length or "plain",
        o.threshold if o.draft_length else "",
        *figures,
        o.speed_up if raw else f"{o.speed_up:.2f}",
        o.energy_ratio if raw else f"{o.energy_ratio:.2f}",
        o.time if raw else units.show(o.time, "second"),
        o.energy if raw else units.show(o.energy, "joule/answer"),
    )
