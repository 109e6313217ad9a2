"""What a proxy serves by while one generation takes over from another."""

from functools import reduce

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.services.core.frames import BOX, MAPLE_TASK
from rota.services.core.routing import ROUTER, ByField, ByRange, ByWorker
from rota.services.core.table import CmdRoute, Table, active, merged


def table(groups, routes, rule=None, **others):
    return Table("logic", groups, {cmd: CmdRoute(group) for cmd, group in routes.items()}, rule, **others)


def routes(found):
    return {cmd: route.group for cmd, route in found.routes.items()}


def test_a_group_flips_with_what_is_routed_to_it():
    old = table({1: 1, 2: 1}, {10: 1, 20: 2})
    new = table({1: 2, 2: 1}, {10: 1, 11: 1, 20: 2, 21: 2})
    found = merged(old, new, 2)
    assert found.groups == {1: 2, 2: 1}
    assert routes(found) == {10: 1, 11: 1, 20: 2}


def test_when_all_have_flipped_the_new_one_holds():
    old = table({1: 1, 2: 1}, {10: 1, 20: 2})
    new = table({1: 2}, {10: 1})
    assert merged(old, new, 2) == new


def test_a_new_group_is_not_served_before_its_workers_are_there():
    found = merged(table({1: 1}, {10: 1}), table({1: 2, 3: 0}, {10: 1, 30: 3}), 2)
    assert found.groups == {1: 2}
    assert routes(found) == {10: 1}


def test_a_group_that_goes_is_served_until_the_last_has_flipped():
    found = merged(table({1: 1, 2: 1, 3: 1}, {10: 1, 30: 3}), table({1: 1, 2: 2}, {10: 1, 30: 1}), 2)
    assert found.groups == {1: 1, 2: 2, 3: 1}
    assert routes(found) == {10: 1, 30: 3}


def test_a_cmd_that_goes_is_served_until_its_group_flips():
    old, new = {10: 1, 11: 1, 20: 2}, {10: 1, 20: 2}
    assert 11 in merged(table({1: 1, 2: 1}, old), table({1: 1, 2: 2}, new), 2).routes
    assert 11 not in merged(table({1: 1, 2: 1}, old), table({1: 2, 2: 1}, new), 2).routes


@pytest.mark.parametrize(("one", "two"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_a_cmd_that_moves_to_another_group_is_always_served(one, two):
    found = merged(table({1: 1, 2: 1}, {10: 1}), table({1: one, 2: two}, {10: 2}), 2)
    assert routes(found) == {10: 2 if two == 2 else 1}


def test_a_rule_changes_with_the_last_group():
    old = table({1: 1, 2: 1}, {10: 1}, ByRange(((0, 99, 1),)))
    new = table({1: 2, 2: 1}, {10: 1}, ByField("sn"))
    assert merged(old, new, 2).rule == old.rule
    assert merged(old, msgspec.structs.replace(new, groups={1: 2, 2: 2}), 2).rule == ByField("sn")


def test_equal_fields_go_where_they_went_until_the_last_group_has_flipped():
    old = table({1: 1, 2: 1}, {10: 1}, ByField("sn"))
    assert merged(old, table({1: 2, 2: 1, 3: 2}, {10: 1}, ByField("sn")), 2).groups == {1: 2, 2: 1}


@pytest.mark.parametrize(
    ("groups", "router"),
    [
        pytest.param({1: 1, 2: 1, ROUTER: 2}, 2, id="it names groups that are served"),
        pytest.param({1: 1, 2: 1, 3: 0, ROUTER: 2}, 1, id="it may name a group that is not served yet"),
        pytest.param({1: 1, 2: 1, 3: 2, ROUTER: 2}, 2, id="the new group is served too"),
        pytest.param({1: 2, 2: 1, ROUTER: 1}, 1, id="its workers are not there yet"),
    ],
)
def test_a_new_routing_function_takes_over_when_all_its_groups_are_served(groups, router):
    old = table({1: 1, 2: 1, ROUTER: 1}, {10: 1}, ByWorker())
    assert merged(old, table(groups, {10: 1}, ByWorker()), 2).groups[ROUTER] == router


def test_the_first_routing_function_begins_when_the_last_group_has_flipped():
    found = merged(table({1: 1, 2: 1}, {10: 1}), table({1: 2, 2: 1, ROUTER: 2}, {10: 1}, ByWorker()), 2)
    assert found.groups == {1: 2, 2: 1}
    assert found.rule is None


def test_a_function_that_is_gone_routes_until_the_last_group_has_flipped():
    found = merged(table({1: 1, 2: 1, ROUTER: 1}, {10: 1}, ByWorker()), table({1: 2, 2: 1}, {10: 1}), 2)
    assert found.groups == {1: 2, 2: 1, ROUTER: 1}
    assert found.rule == ByWorker()


def test_with_another_layout_nothing_changes_before_everything_can():
    old = table({1: 1, 2: 1}, {10: 1}, layout=BOX)
    new = table({1: 2, 2: 1}, {10: 1, 20: 2}, layout=MAPLE_TASK)
    assert merged(old, new, 2) == old
    all_ready = msgspec.structs.replace(new, groups={1: 2, 2: 2})
    assert merged(old, all_ready, 2) == all_ready


def test_limits_change_at_once():
    assert merged(table({1: 1, 2: 1}, {}), table({1: 2, 2: 1}, {}, queue=5), 2).queue == 5


@pytest.mark.parametrize(
    ("now", "ready", "generation"),
    [
        pytest.param(1, {1: 2}, 1, id="nobody has come"),
        pytest.param(1, {1: 2, 2: 1}, 1, id="some have come"),
        pytest.param(1, {1: 2, 2: 2}, 2, id="all have come"),
        pytest.param(1, {2: 1}, 2, id="some have come and nobody else is there"),
        pytest.param(1, {}, 1, id="nobody is there"),
        pytest.param(0, {2: 1}, 2, id="the first of a new group"),
        pytest.param(2, {}, 2, id="it has them already"),
    ],
)
def test_a_group_flips_when_all_its_new_workers_are_ready(now, ready, generation):
    assert active(now, 2, ready, wanted=2) == generation


GROUPS = st.sets(st.integers(1, 4), min_size=1)


@settings(deadline=None)
@given(before=GROUPS, after=GROUPS, data=st.data())
def test_whatever_the_order_of_flips_a_cmd_of_both_tables_always_has_a_group(before, after, data):
    old = table(dict.fromkeys(before, 1), {cmd: data.draw(st.sampled_from(sorted(before))) for cmd in range(5)})
    wanted = {cmd: data.draw(st.sampled_from(sorted(after))) for cmd in range(5)}

    def flip(held, group):
        groups = {each: held.groups.get(each, 0) for each in after} | {group: 2}
        found = merged(held, table(groups, wanted), 2)
        assert found.routes.keys() == set(range(5))
        assert all(route.group in found.groups for route in found.routes.values())
        assert found.groups.keys() >= before or routes(found) == wanted
        return found

    # A new group counts as flipped once it is served, so those that are left come with the last of them.
    last = reduce(flip, data.draw(st.permutations(sorted(after))), old)
    assert (last.groups, routes(last)) == (dict.fromkeys(after, 2), wanted)
