"""``joulesim validate``: how wrong predictions are."""

from __future__ import annotations

from importlib import import_module

from joulesim.cli.subcommand import add_subcommands

KINDS = {
    "local": "measure this machine on calls that were set aside, fit its constants, and report",
    "published": "errors on published tables, with models or devices left out; or predict a table of your own",
    "claims": "findings of the source studies: predicted, published, inside or outside, and what was fitted",
}
"""What can be validated; each has a module ``joulesim.cli.validate_<name>``."""


def arguments(parser) -> None:
    """One sub-command a kind of evidence."""
    add_subcommands(parser, KINDS, lambda name: import_module(f"joulesim.cli.validate_{name}"))


def run(options) -> int:
    """Run the chosen kind."""
    return options.subcommand.run(options)
