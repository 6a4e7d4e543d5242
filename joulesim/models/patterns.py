"""Lists of module names, as quantisation schemes write them: exact names, endings, and patterns with ``*``."""

from __future__ import annotations

import fnmatch
import re
from collections import defaultdict
from collections.abc import Callable, Iterable

from joulesim.errors import Fault, InputError
from joulesim.models.fields import short

Test = Callable[[str], bool]
PREFIX = re.compile(
    r"^(model\.language_model\.|language_model\.model\.|language_model\.|model\.|backbone\.|transformer\.)"
)
"""What checkpoints put before ``layers``; lists and tensors are compared without it."""
NAMED_MODULES = {"indexers_proj": "indexer.weights_proj"}
"""Modules that an exclusion list calls otherwise than the checkpoint."""
MOST_GENERAL = 500
"""Most patterns that do not begin with a layer: each is tried on every module."""


def matching(patterns: Iterable[str], where: str) -> Test:
    """
    Whether a module is one of the named ones, inside one, ends like one, or fits a pattern.

    Parameters
    ----------
    patterns : iterable of str
        Names. A pattern ``re:…`` of compressed-tensors is taken as one with ``*``.
    where : str
        What to call the config in a fault.

    Raises
    ------
    InputError
        For a regular expression that is more than names and ``.*``, and for too many general patterns: somebody
        else's patterns must not take forever.
    """
    names: set[str] = set()
    found: dict[str, list[str]] = defaultdict(list)
    for pattern in patterns:
        name = PREFIX.sub("", _plain(pattern, where))
        if "*" in name:
            found[_layer(name)] += [fnmatch.translate(name), fnmatch.translate(f"{name}.*")]
        else:
            names.add(name)
    if len(found.get("", ())) > 2 * MOST_GENERAL:
        raise InputError(
            Fault(f"{where}: quantization_config", f"expected at most {MOST_GENERAL} general patterns, got more")
        )
    fits = {layer: re.compile("|".join(f"(?:{pattern})" for pattern in own)) for layer, own in found.items()}

    def test(module: str) -> bool:
        steps = module.split(".")
        listed = any(".".join(steps[:i]) in names or ".".join(steps[i:]) in names for i in range(1, len(steps) + 1))
        return listed or any(layer in fits and fits[layer].match(module) for layer in ("", _layer(module)))

    return test


def _layer(name: str) -> str:
    """``layers.12`` of a name that begins with a whole layer number, else nothing."""
    match = re.match(r"(layers\.\d+)\.", name)
    return match.group(1) if match else ""


def _plain(pattern: str, where: str) -> str:
    """Pattern with ``*`` for a regular expression that is no more than that."""
    if pattern.startswith("re:"):
        pattern = re.sub(r"\\(.)", r"\1", pattern[3:].removesuffix("$").removeprefix("^").replace(".*", "*"))
        if re.search(r"[\[\](){}|+?\\]", pattern):
            raise InputError(
                Fault(f"{where}: quantization_config", f"expected a pattern of names and .*, got {short(pattern)}")
            )
    for there, here in NAMED_MODULES.items():
        pattern = pattern.replace(there, here)
    return re.sub(r"\*+", "*", pattern)
