"""Put the energy of a power log into records that know when they ran."""

from __future__ import annotations

from collections.abc import Iterable

from joulesim.errors import Fault, InputError
from joulesim.measure.power_log import PowerLog
from joulesim.measure.record import Record, fields_of
from joulesim.measure.records import Records


def with_power(records: Iterable[Record], log: PowerLog, clock_offset: float | None = None) -> Records:
    """
    The records with their energy from a power log.

    A window that the log does not cover keeps its record, with the reason why there is no energy. A record that
    has an energy already keeps it and gets the log's as a further reading.

    Parameters
    ----------
    clock_offset : float, optional
        Time of the log minus time of the records. Needed where they are on different clocks, since stamps of
        two clocks are never subtracted. [s]
    """
    faults = list(getattr(records, "faults", ()))
    joined = []
    for number, record in enumerate(records, start=1):
        if record.window is None:
            where = _where(record, number)
            faults.append(Fault(where, "expected a start and a stop, got neither", "add window.start and window.stop"))
            continue
        if clock_offset is None and record.window.clock != log.clock:
            what = f"runs on the clock {record.window.clock!r} and {log.file} on {log.clock!r}"
            remedy = "give clock_offset, the log's time minus the record's"
            raise InputError(Fault(_where(record, number), what, remedy))
        joined.append(_joined(record, log, clock_offset or 0.0))
    return Records(joined, (*faults, *log.faults))


def _joined(record: Record, log: PowerLog, offset: float) -> Record:
    reading = log.reading(record.window.start + offset, record.window.stop + offset)
    if record.energy is not None:
        return _changed(record, other_readings=(*record.other_readings, reading))
    metered = fields_of(reading) | {
        "window": record.window,
        "validity": record.validity.plus(*reading.reasons),
    }
    return _changed(record, **metered)


def _changed(record: Record, **fields) -> Record:
    """The record with other fields, checked again as a whole."""
    return Record.model_validate({**dict(record), **fields})


def _where(record: Record, number: int) -> str:
    source = record.source
    return f"{source.file}:{source.line}" if source and source.line else f"record {number}"
