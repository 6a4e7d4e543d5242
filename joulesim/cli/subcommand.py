"""Sub-commands whose modules are imported only when chosen."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from types import ModuleType


def add_subcommands(parser: argparse.ArgumentParser, known: Mapping[str, str], module: Callable[[str], ModuleType]) -> None:
    """Add a choice of sub-commands to a command; ``module`` finds the one that has ``arguments`` and ``run``."""
    choices = parser.add_subparsers(dest="kind", required=True, metavar="KIND", parser_class=type(parser))
    for name, text in known.items():
        found = module(name)
        child = choices.add_parser(name, help=text, description=text, allow_abbrev=False)
        found.arguments(child)
        child.set_defaults(subcommand=found)
