"""Devices that do not exist, made from one that does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from joulesim import catalogue
from joulesim.specs.hardware import HardwareSpec


def scale(hardware: HardwareSpec | str, factors: Mapping[str, float], name: str = "",
          **carry_over: Any) -> HardwareSpec:
    """
    A device with some numbers multiplied.

    Parameters
    ----------
    hardware : HardwareSpec or str
        The device to start from, or its shipped name.
    factors : mapping
        Dotted field to its factor: ``{"memory_bandwidth": 2, "compute_rate.fp16": 1.5}``.
    name : str
        Of the new device; by default the base's with the factors.
    **carry_over
        What happens to ``static_power``, ``energy_per_byte`` and ``energy_per_operation``: ``"kept"``, a factor such as
        ``"x1.2"``, or for bytes a number such as ``"40 pJ/B"``.

    Returns
    -------
    HardwareSpec
        Its changed numbers are marked ``hypothetical``; efficiencies are the base's.

    Raises
    ------
    InputError
        When it is left unsaid what happens to a power or an energy that the change bears on.

    Examples
    --------
    >>> fast = scale("h100-sxm", {"memory_bandwidth": 2}, static_power="kept", energy_per_byte="kept")
    >>> fast.memory_bandwidth, fast.source("memory_bandwidth").kind
    (6700000000000.0, 'hypothetical')
    """
    changes: dict[str, Any] = {"base": hardware, **({"name": name} if name else {})}
    for field, factor in factors.items():
        inner = changes
        *parents, last = field.split(".")
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = f"x{factor!r}"
    if carry_over:
        changes["carry_over"] = carry_over
    return catalogue.load_hardware(changes)
