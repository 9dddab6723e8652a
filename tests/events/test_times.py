"""Microseconds and RFC 3339 are two ways to write the same moment."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events.times import EARLIEST, LATEST, format_time, parse_time, to_micros


@given(st.integers(EARLIEST, LATEST))
def test_a_moment_survives_being_written(micros):
    assert parse_time(format_time(micros)) == micros


@given(st.integers(EARLIEST, LATEST), st.integers(EARLIEST, LATEST))
def test_written_moments_sort_as_the_moments_do(one, other):
    assert (format_time(one) < format_time(other)) == (one < other)


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("1970-01-02", 86_400_000_000),
        ("2017-08-07T10:03:01", 1_502_100_181_000_000),
        ("2017-08-07 10:03:01Z", 1_502_100_181_000_000),
    ],
)
def test_times_are_read_as_utc_unless_they_say_otherwise(text, micros):
    assert parse_time(text) == micros


@pytest.mark.parametrize("text", ["", "now", "2017-13-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-01:00", "10000-01-01"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_time(text)


def test_moments_beyond_what_can_be_written_are_written_as_the_nearest():
    assert format_time(LATEST + 1) == "9999-12-31T23:59:59.999999Z"
    assert format_time(EARLIEST - 1) == "0001-01-01T00:00:00.000000Z"


def test_datetimes_without_a_zone_are_utc():
    naive = datetime(2026, 3, 2, 9, 0, 0, 5)  # noqa: DTZ001  # a naive one is the point
    assert to_micros(naive) == to_micros(naive.replace(tzinfo=UTC))
    assert to_micros(naive.replace(tzinfo=timezone(timedelta(hours=1)))) == to_micros(naive) - 3_600_000_000
