"""Times as people write them: each form names one moment, and what names none or two is refused in one line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.formatting import SHOWN_ZONE, stamp
from engine.formatting import moment as moment_shown
from engine.moments import parse_moment, zone_of

NOW = datetime(2026, 5, 2, 10, 0, 30, tzinfo=UTC)
BERLIN = zone_of("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", "2026-05-02T10:00:30"),
        ("today", "2026-05-01T22:00"),
        ("Yesterday 14:05", "2026-05-01T12:05"),
        ("tomorrow 9:05", "2026-05-03T07:05"),
        ("14:05", "2026-05-02T12:05"),
        ("14:05:06.5", "2026-05-02T12:05:06.5"),
        ("2026-05-01", "2026-04-30T22:00"),
        ("20260501", "2026-04-30T22:00"),
        ("2026-01-01 14:05", "2026-01-01T13:05"),
        ("2026-05-01T14:05:00.5+05:30", "2026-05-01T08:35:00.5"),
        ("2026-05-01 14:05:00Z", "2026-05-01T14:05"),
        ("2026-05-01 14:05 +02:00", "2026-05-01T12:05"),
        ("2026-05-01 14:05 Asia/Tokyo", "2026-05-01T05:05"),
        ("2026-05-01 UTC", "2026-05-01T00:00"),
        ("@1777640700", "2026-05-01T13:05"),
        ("-2h", "2026-05-02T08:00:30"),
        ("1d12h", "2026-04-30T22:00:30"),
        ("+30m", "2026-05-02T10:30:30"),
        ("2 hours ago", "2026-05-02T08:00:30"),
        ("an hour ago", "2026-05-02T09:00:30"),
        ("1 day 2 hours ago", "2026-05-01T08:00:30"),
        ("  90 min ago ", "2026-05-02T08:30:30"),
        ("999999999w", "0001-01-01T00:00"),
    ],
)
def test_a_time_as_users_of_kubectl_git_and_journalctl_write_it(text, moment):
    assert parse_moment(text, NOW, BERLIN) == datetime.fromisoformat(moment).replace(tzinfo=UTC)


def test_without_a_zone_a_time_is_utc():
    assert parse_moment("yesterday 14:05", NOW) == datetime(2026, 5, 1, 14, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ago",
        "05/01/2026",
        "25:00",
        "2026-02-30",
        "1 month ago",
        "someday",
        "yesterday 25:00",
        "٢h",
        "5 h",
        "x" * 9999,
        "h",
        "1h-2h",
    ],
)
def test_what_is_no_time_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match="is no time") as refused:
        parse_moment(text, NOW, BERLIN)
    assert len(str(refused.value)) < 250
    assert "\n" not in str(refused.value)


def test_a_time_skipped_by_summer_time_is_refused_with_the_next_one():
    with pytest.raises(ValueError, match=r"does not exist in Europe/Berlin.*2026-03-29T03:30:00\+02:00"):
        parse_moment("2026-03-29 02:30", NOW, BERLIN)


def test_a_clock_time_that_occurs_twice_is_refused_with_both_moments():
    with pytest.raises(ValueError, match=r"twice.*2026-10-25T02:30:00\+02:00 or 2026-10-25T02:30:00\+01:00"):
        parse_moment("2026-10-25 02:30", NOW, BERLIN)
    assert parse_moment("2026-10-25T02:30+01:00", NOW, BERLIN) == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(("zone", "day", "first"), [("Africa/Cairo", "2026-04-24", 22), ("America/Havana", "2026-11-01", 28)])
def test_a_day_whose_midnight_is_skipped_or_occurs_twice_begins_once(zone, day, first):
    begin = datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(hours=first - 24)
    assert parse_moment(day, NOW, zone_of(zone)) == begin


@pytest.mark.parametrize("text", ["0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00"])
def test_a_time_outside_the_years_1_to_9999_is_refused(text):
    with pytest.raises(ValueError, match="outside the years"):
        parse_moment(text, NOW)


@pytest.mark.parametrize("name", ["Europe/Berln", "../etc/passwd", "", "Europe", "\0", "/etc/localtime", "x" * 9999])
def test_a_zone_that_does_not_exist_is_refused(name):
    with pytest.raises(ValueError, match="there is no time zone"):
        zone_of(name)


def test_a_misspelt_zone_is_named_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean Europe/Berlin"):
        zone_of("Europe/Berln")


@given(text=st.text(max_size=30) | st.from_regex(r"[0-9T:+ /-]{1,25}", fullmatch=True))
def test_any_text_is_a_moment_or_refused(text):
    try:
        found = parse_moment(text, NOW, BERLIN)
    except ValueError:
        return
    assert found.tzinfo is UTC


@given(moment=st.datetimes(timezones=st.just(UTC)))
def test_a_moment_that_is_shown_in_a_zone_is_read_back_as_itself(moment):
    tokyo = zone_of("Asia/Tokyo")
    assume(1900 < moment.year < 9999)
    assert parse_moment(moment.astimezone(tokyo).isoformat(" "), NOW, BERLIN) == moment


@pytest.mark.parametrize("micros", [2**62, 1])
def test_a_moment_at_the_end_of_the_calendar_is_shown_in_every_zone(micros):
    """A timer may be due in centuries: no zone's clock has a year after 9999."""
    for name in ("Pacific/Kiritimati", "Pacific/Niue"):
        token = SHOWN_ZONE.set(ZoneInfo(name))
        try:
            assert moment_shown(micros)
            assert stamp(micros)
        finally:
            SHOWN_ZONE.reset(token)
