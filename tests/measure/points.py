"""Records for tests."""

from joulesim.measure.reading import MeterInfo
from joulesim.measure.record import Record
from joulesim.measure.validity import Reason

SCENARIO = {"model": "qwen2.5-7b-instruct", "weights": "q4_0", "serving": {"batch": 8}, "note": None}
METER = MeterInfo(name="nvml", boundary="board", method="counter", energy_resolution=1e-3, update_period=0.1)


def measured(energy=100.0, time=1.0, **more):
    """A complete point with an energy."""
    more = {"scenario": SCENARIO, "meter": METER, "boundary": "board"} | more
    return Record(provenance="measured", energy=energy, power=energy / time, time=time, **more)


def unmetered(**more):
    """A complete point on a machine without a meter."""
    more = {"scenario": SCENARIO, "energy_reason": Reason(code="no-meter")} | more
    return Record(provenance="measured", time=1.0, **more)
