"""What real hardware did: meters, records of measurements, and importers for the logs of others."""

from joulesim.measure.reading import MeterInfo, Reading
from joulesim.measure.record import Record
from joulesim.measure.records import RecordFile, Records, read_records
from joulesim.measure.validity import REASONS, Reason, Validity

__all__ = [
    "REASONS", "MeterInfo", "Reading", "Reason", "Record", "RecordFile", "Records", "Validity",
    "read_records",
]
