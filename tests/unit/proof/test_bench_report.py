"""The bench's page and picture: every row is there, also those that fell short."""

from pathlib import Path
from xml.etree import ElementTree

from benchmarks import document, report, suite
from benchmarks.__main__ import Run
from benchmarks.measure import Goal, Row, alone, compare
from benchmarks.picture import COLOURS, LABEL, SCALE, picture
from rota.kit.record import replace

FAST = compare("jobs: drained", "/s", "a | b", [100.0], [500.0], Goal(at=2.0, short=1.0))
SLOW = compare("services: p99", "ms", "burst", [10.0], [9.0], Goal(at=0.3, short=0.5))
OWN = replace(compare("watch while idle", "ms", "LISTEN", [300.0], [298.0]), goal="≤ 20.0 ms", verdict="short")
"""Has something beside it, but a goal of its own."""

LONE = alone("memory: watch, p50", "/s", [1000.0], Goal(at=2000, short=500))


def bars(rows: list[Row]) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(picture(rows))
    return [each for each in root.iter("{http://www.w3.org/2000/svg}rect") if each.get("fill") in COLOURS.values()]


def test_every_row_is_on_the_page_and_what_is_short_comes_first() -> None:
    page = document.page([FAST, SLOW, LONE], {"cores": "2"}, "A note.", "bench.svg")
    assert "3 figures have a goal: 1 meet it, 1 do not and are not short either, 1 are short." in page
    assert page.index("| services: p99 |") < page.index("| jobs: drained |")
    assert page.count("| services: p99 |") == 2
    assert "| cores | 2 |" in page
    assert "![Ratios and their goals](bench.svg)" in page


def test_a_bar_in_a_cell_does_not_break_the_table() -> None:
    page = document.page([FAST], {}, "", "bench.svg")
    assert "a \\| b" in page


def test_the_picture_has_a_bar_for_each_ratio_with_a_goal() -> None:
    found = bars([FAST, SLOW, OWN, LONE])
    assert [each.get("fill") for each in found] == [COLOURS["goal"], COLOURS["short"]]


def test_a_ratio_above_one_goes_to_the_right_and_one_below_to_the_left() -> None:
    right, left = (float(each.get("x", "")) for each in bars([FAST, SLOW]))
    assert LABEL <= left < right <= LABEL + SCALE


def test_nothing_to_show_is_a_picture_too() -> None:
    assert bars([LONE]) == []


def test_machine_and_versions_are_stated() -> None:
    facts = report.facts()
    assert all(facts[name] for name in ("machine", "cores", "rota", "postgresql", "drivers", "disk"))
    assert "burst" in facts["beside"]
    assert "celery" in facts["beside"]


def test_one_store_is_measured_without_what_needs_none() -> None:
    assert set(suite.chosen(store="etcd")) == {"store", "watch"}
    assert suite.chosen("jobs", store="etcd") == ("jobs",)
    assert set(suite.chosen(everything=True)) - set(suite.chosen()) == {"scale"}


def test_a_run_that_is_ended_early_has_a_page_that_says_so(tmp_path: Path) -> None:
    run = Run({"cores": "2"}, 3, ["start", "jobs"], rows=[FAST])
    run.write(tmp_path / "bench.md")
    assert "It was ended before start, jobs could be measured." in (tmp_path / "bench.md").read_text()
    assert (tmp_path / "bench.svg").read_text() == picture([FAST])
