"""Which tests share a worker is said by their names, and what they need by marks; both must agree."""

import pytest

from tests.kit.spread import GROUPS, group


def test_whatever_needs_a_server_that_is_slow_to_start_stays_with_the_others_that_do(
    request: pytest.FixtureRequest,
) -> None:
    for item in request.session.items:
        needed = {mark.args[0] for mark in item.iter_markers("needs")} & GROUPS.keys()
        assert needed == {group(item.nodeid)} - {"browser", "parsed", None}, item.nodeid
