"""Time stamps: four styles, and the zone that some of them lack."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulesim.errors import InputError
from joulesim.measure.importers import stamps

MOMENT = 1736944496.789
"""2025-01-15 12:34:56.789 UTC. [s]"""


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("2025/01/15 12:34:56.789", True),
        ("2025-01-15T12:34:56.789", True),
        ("2025-01-15 12:34:56.789", True),
        ("2025-01-15T12:34:56.789Z", False),
        ("2025-01-15T13:34:56.789+01:00", False),
        ("1736944496.789", False),
        ("1736944496789", False),
        ("01-15-2025 12:34:56.789", True),
    ],
)
def test_styles(text, used):
    """Case nvidia_smi-21: local without a zone, ISO, seconds and milliseconds since 1970."""
    assert stamps.unix(text, UTC) == (pytest.approx(MOMENT, abs=1e-6), used)


def test_whole_seconds_are_stamps_too():
    assert stamps.unix("2025/01/15 12:34:56", UTC)[0] == pytest.approx(MOMENT - 0.789)
    assert stamps.unix("01-15-2025 12:34:56", UTC)[0] == pytest.approx(MOMENT - 0.789)


def test_zone_is_asked_for():
    with pytest.raises(stamps.NoZone, match="time stamp '2025/01/15 12:34:56.789' has no zone"):
        stamps.unix("2025/01/15 12:34:56.789")


def test_no_stamp():
    with pytest.raises(ValueError, match="expected a time stamp, got 'noon'"):
        stamps.unix("noon", UTC)


@pytest.mark.parametrize(
    ("name", "hours"), [("UTC", 0), ("+02:00", 2), ("-0530", -5.5), ("Europe/Berlin", 1)]
)
def test_zones(name, hours):
    local = stamps.zone(name, "log.csv")
    assert stamps.unix("2025/01/15 12:34:56.789", local)[0] == pytest.approx(MOMENT - hours * 3600)


def test_no_such_zone():
    message = "log.csv: expected a time zone, got 'Mars/Base'; write it as e.g. 'Europe/Berlin' or '.02:00'"
    with pytest.raises(InputError, match=message):
        stamps.zone("Mars/Base", "log.csv")


@given(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)), st.integers(-12 * 60, 14 * 60))
def test_styles_agree(moment, minutes):
    zone = timezone(timedelta(minutes=minutes))
    true = moment.replace(tzinfo=zone).timestamp()
    written = [
        moment.strftime("%Y/%m/%d %H:%M:%S.%f"),
        moment.strftime("%m-%d-%Y %H:%M:%S.%f"),
        moment.isoformat(),
        moment.replace(tzinfo=zone).isoformat(),
    ]
    for text in written:
        assert stamps.unix(text, zone)[0] == pytest.approx(true, abs=1e-5)
