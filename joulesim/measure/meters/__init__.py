"""Energy meters, one module a vendor, found by asking the devices and never by their names."""

from __future__ import annotations

from importlib import import_module

from joulesim.errors import Fault, NotFoundError, did_you_mean
from joulesim.measure.meters.base import Meter, MeterAbsent, NoMeter
from joulesim.measure.reading import MeterInfo

METERS = {
    "nvml": "NVIDIA GPUs",
    "amd": "AMD GPUs",
    "apple": "Apple silicon",
    "jetson": "NVIDIA Jetson",
    "rapl": "CPU packages and DRAM",
}
"""Meters that can be found without being told where they are, best first; each is a module of this package."""


def probe() -> list[MeterInfo]:
    """Every meter that could be here, with what it measures or why it does not."""
    return [_module(name).probe() for name in METERS]


def open_meter(name: str | None = None) -> Meter:
    """
    A meter, ready to start.

    Parameters
    ----------
    name : str, optional
        One of :data:`METERS`, ``shelly:ADDRESS``, or ``none``. Without it the first that works is taken; where
        none works a :class:`NoMeter` says why for each.
    """
    if name is None:
        infos = probe()
        found = next((info for info in infos if info.available), None)
        return _module(found.name).open_meter() if found else NoMeter(_none_of(infos))
    if name == "none":
        return NoMeter()
    if name.startswith("shelly:"):
        return import_module("joulesim.measure.meters.shelly").open_meter(name.removeprefix("shelly:"))
    if name not in METERS:
        known = [*METERS, "shelly:ADDRESS", "none"]
        hint = did_you_mean(name, known) or f"there is {', '.join(known)}"
        raise NotFoundError(Fault(f"meter {name}", "no such meter", hint))
    return _module(name).open_meter()


def open_beside(engine: str, name: str | None = None) -> Meter:
    """A meter for what an engine does; a stand-in, which computes nothing, gets none unless one is named."""
    return open_meter("none" if engine == "fake" and name is None else name)


def _module(name: str):
    return import_module(f"joulesim.measure.meters.{name}")


def _none_of(infos: list[MeterInfo]) -> MeterInfo:
    """No meter, with the most telling reason: a meter that is there and locked comes before one that is not."""
    locked = [info for info in infos if info.reason and info.reason.code == "no-permission"]
    first = locked[0] if locked else infos[0]
    notes = tuple(f"{info.name}: {info.reason}" for info in infos)
    reason = first.reason.model_copy(update={"detail": f"{first.name}: {first.reason.detail}"})
    return MeterInfo(name="none", available=False, reason=reason, remedy=first.remedy, notes=notes)


__all__ = ["METERS", "Meter", "MeterAbsent", "MeterInfo", "NoMeter", "open_beside", "open_meter", "probe"]
