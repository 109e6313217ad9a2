"""Cron expressions and due times, over changes of the clock too."""

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.jobs.core.cron import ALIASES, due_times, normal, ticks


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def first(count, expression, tz, after):
    return [f"{due:%m-%d %H:%M:%S}" for due in islice(due_times(expression, tz, at(after)), count)]


@pytest.mark.parametrize(
    "text",
    ["* * * * *", "0 3 * * *", "*/5 0-6,22 1 JAN-MAR SUN", "0 0 L * *", "0 0 * * 5#2", "30 0 3 * * *", "0 0 29 2 *"],
)
def test_what_is_an_expression(text):
    assert normal(text) == text


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases_are_written_out(alias):
    assert normal(alias.upper()) == ALIASES[alias]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("61 * * * *", "has minute 61; minutes are 0-59"),
        ("* 24 * * *", "has hour 24; hours are 0-23"),
        ("* * 32 * *", "has day 32; days are 1-31"),
        ("* * 0 * *", "has day 0; days are 1-31"),
        ("* * * 13 *", "has month 13; months are 1-12"),
        ("* * * * 8", "has weekday 8; weekdays are 0-7"),
        ("* * * * MUN", "has weekday MUN; weekdays are 0-7 or SUN-SAT"),
        ("60 * * * * *", "has second 60; seconds are 0-59"),
        ("*/0 * * * *", "has minute */0; minutes are 0-59"),
        ("5-1 * * * *", "has minute 5-1; minutes are 0-59"),
        ("", "has 0 fields; write five"),
        ("* * * *", "has 4 fields; write five (minute hour day month weekday), or six with seconds first"),
        ("* * * * * * *", "has 7 fields; write five"),
        ("0 0 30 2 *", "has day 30; days are 1-31, or L for the last, and some month must have it"),
        ("@dayly", "is no alias; there are @yearly"),
        ("@reboot", "is no alias; there are @yearly"),
    ],
)
def test_what_is_none(text, says):
    with pytest.raises(ValueError, match=r"has|is") as told:
        normal(text)
    assert says in str(told.value)


@pytest.mark.parametrize(
    ("expression", "tz", "after", "due"),
    [
        pytest.param("0 3 * * *", "UTC", "2026-01-01T00:00", ["01-01 03:00:00", "01-02 03:00:00"], id="daily"),
        pytest.param("0 3 * * *", "UTC", "2026-01-01T03:00", ["01-02 03:00:00", "01-03 03:00:00"], id="later, not at"),
        pytest.param("0 3 * * *", "Asia/Shanghai", "2026-01-01T00:00", ["01-01 19:00:00", "01-02 19:00:00"], id="zone"),
        pytest.param("*/20 * * * * *", "UTC", "2026-01-01T00:00", ["01-01 00:00:20", "01-01 00:00:40"], id="seconds"),
        pytest.param(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00",
            ["03-29 01:00:00", "03-30 00:30:00"],
            id="spring, in the gap",
        ),
        pytest.param(
            "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["10-25 00:30:00", "10-26 01:30:00"], id="autumn, once"
        ),
        pytest.param(
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-10-25T00:10",
            ["10-25 00:30:00", "10-25 01:00:00", "10-25 01:30:00", "10-25 02:00:00"],
            id="autumn, through",
        ),
    ],
)
def test_due_times(expression, tz, after, due):
    assert first(len(due), expression, tz, after) == due


@pytest.mark.parametrize(
    ("every", "after", "due"),
    [
        (timedelta(hours=1), "2026-01-01T00:00", "2026-01-01T01:00"),
        (timedelta(hours=1), "2026-01-01T00:59:59", "2026-01-01T01:00"),
        (timedelta(days=1), "2026-01-01T00:00", "2026-01-02T00:00"),
        (timedelta(seconds=90), "2026-01-01T00:00", "2026-01-01T00:01:30"),
    ],
)
def test_ticks(every, after, due):
    assert next(ticks(every, at(after))) == at(due)


@given(
    every=st.integers(1, 10**6).map(lambda number: timedelta(seconds=number)),
    after=st.integers(0, 4 * 10**9).map(lambda number: datetime.fromtimestamp(number, UTC)),
)
def test_ticks_are_the_same_from_wherever_one_counts(every, after):
    one, two, three = islice(ticks(every, after), 3)
    assert after < one <= after + every
    assert two - one == three - two == every
    assert next(ticks(every, one)) == two


@pytest.mark.parametrize("tz", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("expression", ["0 0 * * *", "* * * * *"])
def test_the_calendar_ends_and_nothing_falls_over_it(expression: str, tz: str) -> None:
    end = datetime(9999, 12, 30, tzinfo=UTC)
    assert all(due > end for due in due_times(expression, tz, end))
    assert list(due_times(expression, tz, datetime.max.replace(tzinfo=UTC))) == []


@pytest.mark.parametrize("every", [timedelta(days=10**6), timedelta.max])
def test_a_period_longer_than_the_calendar_is_never_due(every: timedelta) -> None:
    after = datetime(9998, 1, 1, tzinfo=UTC)
    assert [due for due in ticks(every, after) if due <= after] == []
    assert list(ticks(timedelta.max, after)) == []
