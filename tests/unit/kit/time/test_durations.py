"""Durations as people write them."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.kit.time.durations import parse, render


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("2d", 172_800),
        ("10us", 0.00001),
        ("0s", 0),
        ("1m1m", 120),
        ("PT10S", 10),
        ("PT1.5S", 1.5),
        ("PT1H30M", 5400),
        ("P1DT12H", 129_600),
        ("P2W", 1_209_600),
        ("P1D", 86_400),
        ("PT0S", 0),
    ],
)
def test_parse(text, seconds):
    assert parse(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "30",
        "s",
        "-1s",
        "1 s",
        "1s ",
        "1S",
        ".5s",
        "1w",
        "1s30",
        "٣x",
        "P",
        "PT",
        "P1DT",
        "P1Y",
        "P1M",
        "-PT1S",
        "pt1s",
        "PT1",
        "P1S",
        "PT٣S",
        "PT1S1M",
    ],
)
def test_what_is_no_duration_is_told_how_to_write_one(text):
    with pytest.raises(ValueError, match="like 30s, 1h30m or 250ms"):
        parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (90, "1m30s"), (0.25, "250ms"), (86_400, "1d"), (3600.000001, "1h1us")]
)
def test_render(seconds, text):
    assert render(timedelta(seconds=seconds)) == text


@given(st.timedeltas(min_value=timedelta()))
def test_what_is_rendered_is_parsed_to_the_same(duration):
    assert parse(render(duration)) == duration


@given(st.timedeltas(min_value=timedelta(), max_value=timedelta(days=36500)))
def test_what_programs_write_is_parsed_to_the_same(duration):
    assert parse(msgspec.json.decode(msgspec.json.encode(duration))) == duration


def test_a_negative_duration_is_not_rendered():
    with pytest.raises(ValueError, match="negative"):
        render(timedelta(seconds=-1))
