"""
A Shelly plug or meter at the wall, over HTTP on the local network.

Which generation answers is asked of the device (``/shelly``). Power is polled and integrated. The energy totals
of these devices are not used: they move in steps of a watt-minute (first generation) or about once a minute.

References
----------
Shelly Gen1 API reference, "/shelly", "/status", "/meter/0", "/emeter/0"; Shelly Gen2+ API reference,
"Switch.GetStatus", "EM1.GetStatus", "PM1.GetStatus", "EM.GetStatus".
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from joulesim.measure.meters.base import MeterAbsent, MeterError
from joulesim.measure.meters.sampled import Channel, SampledMeter
from joulesim.measure.reading import MeterInfo
from joulesim.measure.record import Device
from joulesim.measure.validity import Reason

ANSWER_TIME = 2.0
"""A plug that takes longer is not asked further in this poll. [s]"""
PERIOD = 1.0
"""Plugs refresh their values about once a second. [s]"""
_GEN2 = (("Switch", "apower"), ("PM1", "apower"), ("EM1", "act_power"), ("EM", "total_act_power"))
"""Components of the second generation that meter, and the name of their power. [W]"""

Ask = Callable[[str], Any]


@dataclass(frozen=True)
class _Plug:
    """Where a device's power stands in its answers."""

    model: str
    path: str
    power: Callable[[Any], float | None]
    """[W]"""


def probe(address: str, timeout: float = ANSWER_TIME) -> MeterInfo:
    """What answers at an address such as ``192.168.1.20``, or why it is no meter."""
    try:
        return _info(address, _plug(_asker(address, timeout)))
    except MeterAbsent as absent:
        return absent.info


def open_meter(
    address: str, timeout: float = ANSWER_TIME, clock: Callable[[], float] = time.monotonic, threaded: bool = True
) -> ShellyMeter:
    """Meter of what is plugged into the device at this address."""
    ask = _asker(address, timeout)
    return ShellyMeter(address, ask, _plug(ask), clock, threaded)


class ShellyMeter(SampledMeter):
    """Energy at the wall, from polled power."""

    def __init__(self, address: str, ask: Ask, plug: _Plug, clock: Callable[[], float], threaded: bool):
        def power() -> float:
            value = plug.power(ask(plug.path))
            if value is None:
                raise MeterError("missing-values", f"{address}: no power in the answer")
            return value

        channels = [Channel(plug.model, power=power)]
        super().__init__(_info(address, plug), channels, period=PERIOD, clock=clock, threaded=threaded)
        self._model = plug.model

    def device(self) -> Device:
        return Device(names=(self._model,), count=1)


def _asker(address: str, timeout: float) -> Ask:
    base = address if address.startswith(("http://", "https://")) else f"http://{address}"

    def ask(path: str):
        try:
            with urllib.request.urlopen(base + path, timeout=timeout) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise MeterError("driver-error", f"{address}{path} answers {error.code}") from None
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            why = getattr(error, "reason", error)
            raise MeterError("driver-error", f"{address} does not answer ({why})") from None
        except (ValueError, OSError, http.client.HTTPException):
            raise MeterError("driver-error", f"{address}{path} does not answer in JSON") from None

    return ask


def _plug(ask: Ask) -> _Plug:
    """The meter behind the address."""
    try:
        about = ask("/shelly")
        if not isinstance(about, dict):
            raise _absent("the device does not answer as a Shelly does")
        return _second_generation(ask, about) if about.get("gen", 1) >= 2 else _first_generation(ask, about)
    except MeterError as error:
        raise _absent(error.reason.detail, "check the address; open http://ADDRESS/shelly in a browser") from None


def _first_generation(ask: Ask, about: dict) -> _Plug:
    if about.get("auth"):
        raise _locked()
    model, status = f"Shelly {about.get('type', '')}".strip(), ask("/status")
    for meters in ("emeters", "meters"):
        if status.get(meters):
            return _Plug(model, "/status", lambda answer, name=meters: _sum(answer.get(name, [])))
    raise _absent(f"{model} does not meter power")


def _second_generation(ask: Ask, about: dict) -> _Plug:
    if about.get("auth_en"):
        raise _locked()
    model = f"Shelly {about.get('app') or about.get('model', '')}".strip()
    for component, power in _GEN2:
        path = f"/rpc/{component}.GetStatus?id=0"
        try:
            status = ask(path)
        except MeterError:
            continue
        if isinstance(status, dict) and power in status:
            return _Plug(model, path, lambda answer, name=power: answer.get(name))
    raise _absent(f"{model} does not meter power")


def _sum(meters: list[dict]) -> float | None:
    """Power over phases or sockets, unknown when one is not valid. [W]"""
    powers = [meter.get("power") if meter.get("is_valid", True) else None for meter in meters]
    return None if None in powers or not powers else sum(powers)


def _info(address: str, plug: _Plug) -> MeterInfo:
    return MeterInfo(
        name="shelly",
        boundary="wall",
        scope=f"all that is plugged into {address}",
        method="sampled power",
        fields=(plug.path,),
        devices=(plug.model,),
        power_resolution=0.1,
        update_period=PERIOD,
        notes=("a plug is good to about 1 %; it sends its values when they change, so windows must be long",),
    )


def _locked() -> MeterAbsent:
    return _absent("the device asks for a password", "switch authentication off on the local network", "no-permission")


def _absent(detail: str, remedy: str = "", code: str = "no-meter") -> MeterAbsent:
    reason = Reason(code=code, detail=detail)
    return MeterAbsent(MeterInfo(name="shelly", available=False, reason=reason, remedy=remedy))
