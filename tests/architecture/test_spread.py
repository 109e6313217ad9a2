"""Which tests share a worker is said by their names, and what they need by marks; both must agree."""

import pytest

from tests.kit.spread import GROUPS, LONGEST_FIRST, group, rank


def test_whatever_needs_a_server_that_is_slow_to_start_stays_with_the_others_that_do(
    request: pytest.FixtureRequest,
) -> None:
    for item in request.session.items:
        needed = {mark.args[0] for mark in item.iter_markers("needs")} & GROUPS.keys()
        assert needed == {group(item.nodeid)} - {"browser", "parsed", None}, item.nodeid


def test_every_folder_that_is_named_has_tests(request: pytest.FixtureRequest) -> None:
    folders = {item.nodeid.split("/")[1] for item in request.session.items if item.nodeid.count("/") > 1}
    if folders >= {"architecture", "browser", "unit"}:  # the whole was asked for
        assert {folder.split("/")[1] for folder in LONGEST_FIRST} <= folders


def test_tests_that_take_long_do_not_begin_last() -> None:
    names = ["tests/unit/a.py::t", "tests/architecture/a.py::t", "tests/process/a.py::t", "tests/system/a.py::t"]
    assert sorted(names, key=rank) == [names[3], names[2], names[0], names[1]]
