"""When a job is due next, and what is odd about it."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.jobs.core.preview import HORIZON, preview
from rota.jobs.core.records import JobSpec


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_so_many_and_until():
    spec = JobSpec(name="a", every=timedelta(hours=1))
    assert [each.due.hour for each in preview(spec, at("2026-01-01T00:30"), count=3)] == [1, 2, 3]
    assert len(preview(spec, at("2026-01-01T00:30"), count=9, until=at("2026-01-01T02:00"))) == 2


def test_a_job_started_by_hand_has_none():
    assert preview(JobSpec(name="a"), at("2026-01-01T00:00")) == []


@pytest.mark.parametrize(
    ("expression", "tz", "after", "odd"),
    [
        pytest.param("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["clocks jump", ""], id="in the gap"),
        pytest.param("0 3 * * *", "Europe/Berlin", "2026-03-28T12:00", ["", ""], id="at the end of the gap, as meant"),
        pytest.param("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["comes twice", ""], id="the hour comes twice"),
        pytest.param(
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-10-24T23:45",
            ["comes twice", "comes twice", "second time", "second time", ""],
            id="through both",
        ),
        pytest.param("15 0 * * *", "Asia/Beirut", "2026-03-28T12:00", ["clocks jump", ""], id="a gap at midnight"),
        pytest.param(
            "15 2 * * *", "Australia/Lord_Howe", "2026-10-02T16:00", ["clocks jump", ""], id="half an hour is missing"
        ),
    ],
)
def test_odd_ones_are_marked(expression, tz, after, odd):
    found = preview(JobSpec(name="a", cron=expression, tz=tz), at(after), count=len(odd))
    for coming, words in zip(found, odd, strict=True):
        assert words in coming.odd
        assert bool(words) == bool(coming.odd)


def test_a_gap_says_from_when_to_when():
    (coming,) = preview(JobSpec(name="a", cron="30 2 * * *", tz="Europe/Berlin"), at("2026-03-28T12:00"), count=1)
    assert coming.odd == "clocks jump from 02:00 to 03:00, and its time lies between"
    assert f"{coming.local:%H:%M}" == "03:00"


@pytest.mark.parametrize("expression", ["0 0 29 2 *", "*/59 * 29 2 *"])
def test_a_look_ahead_at_a_rare_schedule_ends_at_the_horizon(expression):
    begin = at("2026-01-01T00:00")
    coming = preview(JobSpec(name="a", cron=expression, tz="Europe/Berlin"), begin, count=1000)
    assert coming
    assert coming[-1].due <= begin + HORIZON


def test_a_look_ahead_from_the_last_year_ends_with_the_calendar():
    assert preview(JobSpec(name="a", cron="0 0 29 2 *"), at("9999-12-31T23:00"), count=1000) == []
