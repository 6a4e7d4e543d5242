"""``joulesim frontier``: a view of the sweep."""

from __future__ import annotations

from joulesim.cli import output
from joulesim.cli import sweep as sweeping


def arguments(parser) -> None:
    """Options of the command."""
    sweeping.over_arguments(parser)
    parser.add_argument("--minimise", default="energy_per_answer,ttft", metavar="A,B",
                        help="quantities to trade against each other; -QUANTITY is made large (default: %(default)s)")
    parser.add_argument("--subject-to", action="append", default=[], metavar="LIMIT", help="e.g. 'tpot <= 50 ms'")
    output.arguments(parser)
    parser.add_argument("--plot", metavar="FILE", help="draw the frontier among all points")


def run(options) -> int:
    """Print the points that no other beats in every quantity."""
    from joulesim.sweep import views

    quantities = [name.strip() for name in options.minimise.split(",")]
    found = sweeping.dataset(options)
    rows = views.frontier(found, quantities, options.subject_to)
    if options.plot:
        from joulesim import plots

        plots.save(plots.frontier(found, *quantities[:2]), options.plot)
    if options.output in ("csv", "json"):
        import sys

        sweeping.write(rows, options.output, sys.stdout)
        return 0
    print(sweeping.table(rows, [name.lstrip("-") for name in quantities], options.output))
    print(f"\n{rows.reason.size:,} of {found.reason.size:,} points: no other is better in {' and '.join(quantities)}")
    return 0
