"""Time and energy of a stretch of work under a power limit, and what binds it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from joulesim.calls import bandwidth, instruction_rate
from joulesim.formulas import power, roofline
from joulesim.inputs import Inputs
from joulesim.work import Stretch, Work


class Energy(NamedTuple):
    """Where the energy of a phase goes, over all devices. [J]"""

    static: Any
    active: Any
    compute: Any
    unpack: Any
    memory: Any
    link: Any


class Phase(NamedTuple):
    """Prefill or decode of a round of ``batch`` requests."""

    work: Work
    host: Any
    time: Any
    clock: Any
    energy: Energy

    def less(self, other: Phase) -> Phase:
        """What is left when the other is done anyway, at the same clock."""
        energy = Energy(*(a - b for a, b in zip(self.energy, other.energy, strict=True)))
        return Phase(self.work.less(other.work), self.host - other.host, self.time - other.time, self.clock, energy)


def _energies(x: Inputs, c, stretch: Stretch):
    """Memory, link, clock-on, arithmetic and unpacking energy of a device at full clock. [J]"""
    work, scale = stretch.work, c["power_residual"]
    working = (work.busy + work.sampling + c["launch_activity"] * work.launch
               + c["link_activity"] * work.link) * c["time_residual"]
    return (
        scale * c["energy_per_byte"] * work.bytes,
        scale * c["energy_per_link_byte"] * work.link_bytes,
        scale * c["active_power"] * working,
        scale * c["energy_per_flop"] * (work.flops + c["narrow_flop_energy"] * work.narrow_flops),
        scale * c["energy_per_instruction"] * work.instructions,
    )


def phase(x: Inputs, c, stretch: Stretch, clock=None) -> Phase:
    """Time and energy of a stretch, energy over all devices; at a given clock, else at the one that its power allows."""
    moved, linked, active, compute, unpack = _energies(x, c, stretch)
    static, full, slow = c["power_residual"] * c["static_power"], stretch.time * c["time_residual"], slowing(c, stretch)
    clock_on = active / np.where(full > 0, full, 1.0)
    if clock is None:
        within = power.clock_factor(x.power_limit * c["limit_margin"], static, moved + linked, compute + unpack, clock_on,
                                    c["voltage_share"], **slow)
        unpriced = np.isnan(moved + linked + active + compute + unpack + static)  # then no limit can be checked
        clock = np.minimum(np.where(unpriced, 1.0, within), x.clock)
    time, working = power.time_at(clock, **slow), x.working_devices
    cheaper = power.energy_at(clock, 1.0, c["voltage_share"]) * working
    energy = Energy(
        static=static * time * x.devices, active=clock_on * clock * time * cheaper,
        compute=compute * cheaper, unpack=unpack * cheaper, memory=moved * working, link=linked * working,
    )
    return Phase(stretch.work, stretch.host, time, clock, energy)


def slowing(c, stretch: Stretch) -> dict[str, Any]:
    """How the time of a stretch depends on the clock, for :func:`joulesim.formulas.power.time_at`."""
    work, p, residual = stretch.work, c["overlap_exponent"], c["time_residual"]
    return {
        "fixed": (stretch.time - work.busy - work.launch) * residual, "launched": work.launch * residual,
        "overlapped": work.busy * residual, "chip_share": roofline.share_of(work.issuing, work.streaming, exponent=p),
        "exponent": p,
    }


def bounds(x: Inputs, c, p: Phase) -> dict[str, Any]:
    """Time that each limit of a phase would take alone; the largest one binds. [s]"""
    return {
        "memory": p.work.bytes / bandwidth(x, c),
        "compute": p.work.flops / (x.compute_rate * c["compute_efficiency"])
        + p.work.narrow_flops / (x.narrow_compute_rate * c["narrow_compute_efficiency"]),
        "unpack": p.work.instructions / instruction_rate(x, c),
        "sampling": p.work.sampling,
        "launch": p.work.launch,
        "link": p.work.link,
        "host": p.host,
    }
