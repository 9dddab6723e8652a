"""Months in time zones: each moment is in one, whatever the clock on the wall showed."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.billing.calendar import HOUR, _last, following, month_named, month_of
from engine.events.times import parse_time

ZONES = ["UTC", "America/St_Johns", "Asia/Kathmandu", "Europe/Berlin", "Pacific/Apia", "America/Goose_Bay"]
BACK_OVER_MIDNIGHT = parse_time("2009-11-01T02:40:00Z")
"""In Newfoundland the clock went back to October a minute after midnight, ten minutes ago."""


@given(zone=st.sampled_from(ZONES), moment=st.integers(parse_time("1960-01-01T00:00:00Z"), parse_time("2060-01-01T00:00:00Z")))
@example(zone="America/St_Johns", moment=BACK_OVER_MIDNIGHT)
def test_a_moment_lies_in_its_month(zone: str, moment: int) -> None:
    _last.clear()
    month = month_of(moment, zone)
    assert month.start <= moment < month.end
    assert month == month_named(month.name, zone)
    assert month_of(month.end, zone).name == following(month.name)


@pytest.mark.parametrize("before", [BACK_OVER_MIDNIGHT - HOUR, BACK_OVER_MIDNIGHT + 100 * HOUR])
def test_the_month_does_not_depend_on_what_was_asked_before(before: int) -> None:
    _last.clear()
    month_of(before, "America/St_Johns")
    assert month_of(BACK_OVER_MIDNIGHT, "America/St_Johns").name == "2009-11"
