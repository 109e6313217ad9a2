"""What can be asked of a fleet, on a store without a leader: here the tests write what a leader would."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.doors import limits
from rota.doors.guard import idempotency
from rota.doors.verbs import OPERATIONS
from rota.fleet.core.access.gate import Access
from rota.fleet.doors import audit, certificates, event_operations, hooks, steering, tokens
from rota.fleet.doors.nodes import labels
from rota.fleet.doors.nodes import operations as node_operations
from rota.fleet.doors.nodes import why as node_why
from rota.jobs.doors import operations as job_operations
from rota.jobs.doors import run_operations, run_output
from rota.jobs.doors import why as job_why
from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, NotFound, Unavailable, Unknown
from rota.model.ids import NodeId, TermNumber
from rota.model.node import Role
from rota.placement.doors import planning
from rota.relay.doors import operations as relays
from rota.resources.core.records import Cordon, KindRecord, Listing, Query, Trouble, WantedResource, record_of
from rota.resources.doors import crawler, syncing
from rota.resources.doors import operations as resource_operations
from rota.resources.doors import why as resource_why
from rota.resources.doors.answers import LARGEST, ResourceView
from rota.store import Delete, Put, Store, open_store
from rota.streams.doors import operations as stream_operations
from rota.views import fleet_status, overview, printing, pulse, watching, why
from tests.kit.fleet_records import CLOCK, SPEC, assign, create, declare, join, lead, settle
from tests.kit.hand_clock import HandClock
from tests.kit.waiting import eventually

SOON = timedelta(milliseconds=30)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store in which one kind, `room`, is declared."""
    async with open_store("memory://") as store:
        await declare(store, "room")
        yield store


# Specs


@pytest.mark.parametrize(
    ("id", "spec", "said"),
    [
        ("1", {}, 'room "1": spec: field "lang" is missing; it must be a text'),
        ("1", {"lang": 3}, 'field "lang" is 3; it must be a text'),
        ("1", {"lang": "en", "dept": 3}, 'spec has no field "dept"; did you mean "depth"?'),
        ("one", {"lang": "en"}, 'field "id" is "one"; it must be a whole number'),
    ],
)
async def test_a_spec_that_its_kind_does_not_take_is_refused(
    store: Store, id: str, spec: dict[str, Any], said: str
) -> None:
    await declare(store, "room", schema=SPEC)
    with pytest.raises(Invalid) as refused:
        await create(store, id, spec=spec)
    assert said in str(refused.value)
    assert await store.get(keys.resource("room", id)) is None


async def test_a_spec_is_checked_when_it_changes_and_an_old_one_may_stay(store: Store) -> None:
    await create(store, "1", spec={"old": True})
    await declare(store, "room", schema=SPEC)
    assert (await resource_operations.update_resource(store, "room", "1", {"priority": 3})).priority == 3
    with pytest.raises(Invalid, match="depth"):
        await resource_operations.update_resource(store, "room", "1", {"spec": {"lang": "en", "depth": "deep"}})
    changed = await resource_operations.update_resource(store, "room", "1", {"spec": {"lang": "en", "depth": 2}})
    assert changed.spec == {"lang": "en", "depth": 2}


# Making


async def test_a_resource_is_made_as_it_was_asked_for(store: Store) -> None:
    fields = {
        "spec": {"x": "y", "depth": 3}, "priority": -2, "replicas": 2, "cost": 3, "labels": {"zone": "a"}, "pin": "n1",
    }  # fmt: skip
    made = await create(store, "21452505", **fields)
    assert {name: getattr(made, name) for name in fields} == fields
    assert (made.name, made.origin, made.created) == ("room/21452505", "api", CLOCK.wall())
    assert made.status is None
    assert await resource_operations.get_resource(store, "room", "21452505") == made
    entry = await store.get("/resources/room/21452505")
    assert entry is not None
    assert entry.modified == made.version


async def test_what_is_left_out_or_null_is_the_default(store: Store) -> None:
    first, second = await create(store, "1"), await create(store, "2", spec=None, replicas=None, labels=None, cost=None)
    for made in (first, second):
        assert (made.spec, made.priority, made.replicas, made.cost, made.labels, made.pin) == ({}, 0, None, 1, {}, None)
    assert first.uid != second.uid


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "a resource needs a kind and an id; kind is missing"),
        ({"kind": "room"}, "a resource needs a kind and an id; id is missing"),
        ({"kind": 3, "id": "1"}, 'kind "3": the name is 3; it must be a str'),
        ({"kind": "../x", "id": "1"}, "use letters, digits"),
        ({"kind": "rom", "id": "1"}, 'no app of this fleet has a kind "rom"; did you mean "room"?'),
        ({"kind": "room", "id": ""}, "the id is ''; it must be a str that is not empty"),
        ({"kind": "room", "id": 5}, "the id is 5; it must be a str that is not empty"),
        ({"kind": "room", "id": "a/b"}, 'no "/"; choose another'),
        ({"kind": "room", "id": "a\nb"}, "printable characters only"),
        ({"kind": "room", "id": "\udcff"}, "printable characters only"),
        ({"kind": "room", "id": "é" * 101}, "at most 200 bytes"),
        ({"kind": "room", "id": "1", "replica": 2}, 'room "1": there is no field "replica"; did you mean "replicas"?'),
        ({"kind": "room", "id": "1", "uid": "x"}, 'there is no field "uid"'),
        ({"kind": "room", "id": "1", "replicas": 0}, "replicas is 0; it must be from 1 to 1000"),
        ({"kind": "room", "id": "1", "replicas": "2"}, 'replicas is "2"; it must be a whole number'),
        ({"kind": "room", "id": "1", "replicas": True}, "replicas is True; it must be a whole number"),
        ({"kind": "room", "id": "1", "cost": -1}, "cost is -1; it must be from 1"),
        ({"kind": "room", "id": "1", "priority": 1.5}, "priority is 1.5; it must be a whole number"),
        ({"kind": "room", "id": "1", "priority": 10**30}, "it must be from -1000000 to 1000000"),
        ({"kind": "room", "id": "1", "spec": ["x"]}, "spec is ['x']; it must be an object"),
        ({"kind": "room", "id": "1", "spec": {"x": "y" * LARGEST}}, f"at most {LARGEST} are kept with it"),
        ({"kind": "room", "id": "1", "labels": {"zone": 1}}, "labels has \"zone\": 1; both must be str"),
        ({"kind": "room", "id": "1", "pin": 7}, "pin is 7; it must be a str that is not empty"),
    ],
)  # fmt: skip
async def test_a_wrong_field_is_named(store: Store, fields: dict[str, object], said: str) -> None:
    with pytest.raises(Invalid) as refused:
        await resource_operations.create_resource(store, CLOCK, fields)
    assert said in str(refused.value)
    assert not (await store.scan(keys.RESOURCES)).entries


async def test_a_fleet_without_kinds_says_so() -> None:
    async with open_store("memory://") as store:
        with pytest.raises(Invalid, match='no app of this fleet has a kind "room", or any; start a node'):
            await create(store)


async def test_what_stands_for_a_group_of_a_stream_is_left_to_it(store: Store) -> None:
    await declare(store, "stream:clicks")
    assert [kind.name for kind in await resource_operations.list_kinds(store)] == ["room"]
    says = 'stream:clicks/g stands for a group of stream "clicks"'
    with pytest.raises(Invalid, match="use letters, digits"):
        await resource_operations.create_resource(store, HandClock(), {"kind": "stream:clicks", "id": "g"})
    with pytest.raises(Invalid, match=says):
        await resource_operations.update_resource(store, "stream:clicks", "g", {"replicas": 2})
    with pytest.raises(Invalid, match=says):
        await resource_operations.delete_resource(store, "stream:clicks", "g")


async def test_an_exclusive_kind_has_one_task(store: Store) -> None:
    await declare(store, "lock", exclusive=True)
    with pytest.raises(Invalid, match="its kind is exclusive"):
        await resource_operations.create_resource(store, CLOCK, {"kind": "lock", "id": "1", "replicas": 2})
    made = await resource_operations.create_resource(store, CLOCK, {"kind": "lock", "id": "1"})
    with pytest.raises(Invalid, match="its kind is exclusive"):
        await resource_operations.update_resource(store, "lock", "1", {"replicas": 2})
    assert (await resource_operations.get_resource(store, "lock", "1")).version == made.version


async def test_a_taken_name_is_a_conflict_that_names_the_version(store: Store) -> None:
    made = await create(store)
    with pytest.raises(Conflict, match=f"room/1 exists already, at version {made.version}; update it"):
        await create(store)


async def test_of_many_that_make_the_same_one_wins(store: Store) -> None:
    made = await asyncio.gather(*(create(store) for _ in range(10)), return_exceptions=True)
    assert sum(isinstance(each, ResourceView) for each in made) == 1
    assert sum(isinstance(each, Conflict) for each in made) == 9


# Idempotency


async def test_the_same_request_twice_is_one_resource(store: Store) -> None:
    first = await create(store, key="k1", spec={"a": 1, "b": 2})
    again = await create(store, key="k1", spec={"b": 2, "a": 1})
    assert again == first


async def test_the_same_request_at_the_same_time_is_one_resource(store: Store) -> None:
    made = await asyncio.gather(*(create(store, key="k1") for _ in range(10)))
    assert len({each.uid for each in made}) == 1


async def test_a_repeated_request_sees_what_became_of_it(store: Store) -> None:
    await create(store, key="k1")
    changed = await resource_operations.update_resource(store, "room", "1", {"priority": 5})
    assert await create(store, key="k1") == changed


async def test_a_key_is_for_one_request(store: Store) -> None:
    await create(store, key="k1")
    with pytest.raises(Conflict, match="k1 was used for another request"):
        await create(store, key="k1", priority=1)


async def test_a_repeated_request_does_not_bring_back_what_was_deleted(store: Store) -> None:
    await create(store, key="k1")
    await resource_operations.delete_resource(store, "room", "1")
    with pytest.raises(Conflict, match="deleted since; use a new key"):
        await create(store, key="k1")
    await create(store)  # another of that name is not its resource either
    with pytest.raises(Conflict, match="deleted since; use a new key"):
        await create(store, key="k1")


async def test_another_key_does_not_help_with_a_taken_name(store: Store) -> None:
    made = await create(store)
    with pytest.raises(Conflict, match=f"exists already, at version {made.version}"):
        await create(store, key="k2")
    assert await store.get(idempotency.place("k2")) is None


async def test_notes_go_with_their_lease(store: Store) -> None:
    await create(store, key="k1")
    entry = await store.get(idempotency.place("k1"))
    assert entry is not None
    assert entry.lease is not None
    await store.revoke(entry.lease)
    with pytest.raises(Conflict, match="exists already"):
        await create(store, key="k1")


@pytest.mark.parametrize("key", ["", "a b", "a/b", "é", "x" * 201])
async def test_a_key_is_plain_text(store: Store, key: str) -> None:
    with pytest.raises(Invalid, match=r"idempotency key .* a UUID is a good one"):
        await create(store, key=key)


# Waiting


async def test_waiting_ends_when_it_is_placed(store: Store) -> None:
    waiting = asyncio.create_task(create(store, wait=timedelta(seconds=20)))
    made = await eventually(lambda: resource_operations.get_resource(store, "room", "1"), despite=(NotFound,))
    await settle(store, made, "a", replicas=2)  # one of two, and no word on the other: not decided yet
    await settle(store, made, "a", "b", replicas=2)
    placed = (await waiting).status
    assert placed is not None
    assert placed.AssignedNode == "a|a:7701,b|b:7701"


async def test_waiting_ends_when_it_is_pending(store: Store) -> None:
    waiting = asyncio.create_task(create(store, wait=timedelta(seconds=20)))
    made = await eventually(lambda: resource_operations.get_resource(store, "room", "1"), despite=(NotFound,))
    await settle(store, made, pending="no node has room")
    view = await waiting
    assert view.status is not None
    assert (view.status.pending, view.is_pending) == ("no node has room", True)


async def test_waiting_ends_by_itself(store: Store) -> None:
    assert (await create(store, wait=SOON)).status is None


async def test_a_wait_without_bounds_is_refused_before_anything_is_made(store: Store) -> None:
    with pytest.raises(Invalid, match="it must be from 0s to 1m"):
        await create(store, wait=timedelta(hours=1))
    assert not (await store.scan(keys.RESOURCES)).entries


async def test_the_status_of_an_earlier_resource_of_that_name_is_not_shown(store: Store) -> None:
    first = await create(store)
    await settle(store, first, "a")
    await resource_operations.delete_resource(store, "room", "1")
    assert (await create(store, wait=SOON)).status is None


# Reading, changing, deleting


async def test_what_is_not_there_is_not_found(store: Store) -> None:
    for asking in (
        resource_operations.get_resource(store, "room", "9"),
        resource_operations.update_resource(store, "room", "9", {"priority": 1}),
        resource_operations.delete_resource(store, "room", "9"),
        why.why(store, "room/9"),
    ):
        with pytest.raises(NotFound, match="there is no resource room/9"):
            await asking


async def test_an_update_changes_what_it_names(store: Store) -> None:
    made = await create(store, spec={"a": 1}, labels={"zone": "a"}, pin="n1", replicas=3)
    changed = await resource_operations.update_resource(
        store, "room", "1", {"priority": 7, "pin": None, "replicas": None}
    )
    assert (changed.priority, changed.pin, changed.replicas) == (7, None, None)
    assert (changed.spec, changed.labels, changed.uid, changed.created) == (
        {"a": 1}, {"zone": "a"}, made.uid, made.created,
    )  # fmt: skip
    assert changed.version > made.version
    assert await resource_operations.get_resource(store, "room", "1") == changed


async def test_an_update_that_changes_nothing_leaves_the_version(store: Store) -> None:
    made = await create(store, priority=7)
    assert await resource_operations.update_resource(store, "room", "1", {"priority": 7}) == made


async def test_a_stale_version_is_a_conflict_that_names_the_present_one(store: Store) -> None:
    made = await create(store)
    changed = await resource_operations.update_resource(store, "room", "1", {"priority": 1}, version=made.version)
    for asking in (
        resource_operations.update_resource(store, "room", "1", {"priority": 2}, version=made.version),
        resource_operations.delete_resource(store, "room", "1", version=made.version),
    ):
        with pytest.raises(Conflict, match=f"room/1 is at version {changed.version}, not {made.version}"):
            await asking
    assert (await resource_operations.delete_resource(store, "room", "1", version=changed.version)).priority == 1


async def test_of_two_updates_of_one_version_one_wins(store: Store) -> None:
    made = await create(store)
    done = await asyncio.gather(
        *(
            resource_operations.update_resource(store, "room", "1", {"priority": number}, version=made.version)
            for number in range(1, 6)
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(each, Conflict) for each in done) == 4


async def test_updates_without_a_version_do_not_lose_each_other(store: Store) -> None:
    await create(store)
    await asyncio.gather(
        resource_operations.update_resource(store, "room", "1", {"priority": 3}),
        resource_operations.update_resource(store, "room", "1", {"cost": 4}),
        resource_operations.update_resource(store, "room", "1", {"labels": {"zone": "b"}}),
    )
    view = await resource_operations.get_resource(store, "room", "1")
    assert (view.priority, view.cost, view.labels) == (3, 4, {"zone": "b"})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "nothing is to change; give at least one of spec, priority"),
        ({"id": "2"}, "id never changes; delete this resource and make another"),
        ({"colour": "red"}, 'there is no field "colour"; there are spec'),
        ({"cost": 0}, "cost is 0"),
    ],
)
async def test_a_wrong_change_is_named(store: Store, changes: dict[str, object], said: str) -> None:
    made = await create(store)
    with pytest.raises(Invalid, match=said):
        await resource_operations.update_resource(store, "room", "1", changes)
    assert await resource_operations.get_resource(store, "room", "1") == made


async def test_what_nobody_declares_any_more_can_be_changed_and_deleted(store: Store) -> None:
    await create(store)
    await store.commit(Delete(keys.kind("room")))
    assert (await resource_operations.update_resource(store, "room", "1", {"priority": 1})).priority == 1
    await resource_operations.delete_resource(store, "room", "1")
    assert not (await store.scan(keys.RESOURCES)).entries


# Lists


async def listed(store: Store, **asked: Any) -> list[str]:
    """The names on all pages."""
    names: list[str] = []
    page = await resource_operations.list_resources(store, **asked)
    names += [view.name for view in page.resources]
    while page.next:
        page = await resource_operations.list_resources(store, token=page.next, **asked)
        names += [view.name for view in page.resources]
    return names


async def test_pages_fit_together(store: Store) -> None:
    for number in range(25):
        await create(store, f"{number:02}")
    everything = [f"room/{number:02}" for number in range(25)]
    for limit in (1, 7, 25, 100):
        assert await listed(store, limit=limit) == everything
    page = await resource_operations.list_resources(store, limit=25)
    assert page.next is None


async def test_a_list_can_be_of_one_kind_of_ids_that_begin_so_and_of_what_is_pending(store: Store) -> None:
    await declare(store, "roomy")
    for id in ("a1", "a2", "b1"):
        await settle(store, await create(store, id), "n1")
    await resource_operations.create_resource(store, CLOCK, {"kind": "roomy", "id": "a1"})
    await settle(store, await create(store, "a3"), pending="no room")
    assert await listed(store, kind="room") == ["room/a1", "room/a2", "room/a3", "room/b1"]
    assert await listed(store, prefix="a") == ["room/a1", "room/a2", "room/a3", "roomy/a1"]
    assert await listed(store, kind="room", prefix="a", limit=2) == ["room/a1", "room/a2", "room/a3"]
    assert await listed(store, pending=True, limit=1) == ["room/a3", "roomy/a1"]
    assert await listed(store, kind="none") == []


async def test_a_list_has_the_status_of_each(store: Store) -> None:
    for number in range(10):
        made = await create(store, str(number))
        if number % 3:
            await settle(store, made, f"n{number}")
    # Statuses that a leader has not cleared yet do not shift the others.
    for number in range(5):
        gone = await create(store, f"0-{number}")
        await settle(store, gone, "x")
        await resource_operations.delete_resource(store, "room", gone.id)
    for limit in (2, 100):
        page = await resource_operations.list_resources(store, limit=limit)
        for view in page.resources:
            expected = f"n{view.id}|n{view.id}:7701" if int(view.id) % 3 else None
            assert (view.status.AssignedNode if view.status else None) == expected


@pytest.mark.parametrize("limit", [0, 1001])
async def test_a_page_has_bounds(store: Store, limit: int) -> None:
    with pytest.raises(Invalid, match="it must be from 1 to 1000"):
        await resource_operations.list_resources(store, limit=limit)


async def test_a_record_of_a_newer_rota_does_not_hide_the_others(store: Store) -> None:
    await create(store, "1")
    await store.commit(Put(keys.resource("room", "2"), b'{"v":99}'))
    await create(store, "3")
    page = await resource_operations.list_resources(store)
    assert [view.id for view in page.resources] == ["1", "3"]
    assert "upgrade this node" in page.not_understood["room/2"]


# Nodes


async def test_nodes_with_what_they_offer_and_what_is_taken(store: Store) -> None:
    await join(store, "a", kinds=("room",))
    await join(store, "b", role=Role.SUPERVISE)
    await lead(store, "a")
    await assign(store, "a", "1", cost=3)
    await assign(store, "a", "2")
    await assign(store, "gone", "3")
    await node_operations.cordon_node(store, CLOCK, "b", "disk")
    a, b, gone = (await node_operations.list_nodes(store)).nodes
    assert (a.id, a.is_up, a.leads, a.role, a.slots, a.used, a.tasks) == ("a", True, True, "both", 10, 4, 2)
    assert (a.labels, a.kinds, a.cordon, a.app) == ({"zone": "a"}, ("room",), None, "app")
    assert a.age_s is not None
    assert (b.id, b.leads, b.tasks, b.kinds, b.app) == ("b", False, 0, (), None)
    assert b.cordon == Cordon(node=NodeId("b"), since=CLOCK.wall(), why="disk")
    assert (gone.id, gone.is_up, gone.tasks, gone.age_s) == ("gone", False, 1, None)


async def test_a_node_of_a_newer_rota_is_shown_as_far_as_it_is_understood(store: Store) -> None:
    await store.commit(Put(keys.node(NodeId("x")), b'{"v":99}'))
    (node,) = (await node_operations.list_nodes(store)).nodes
    assert node.is_up
    assert "upgrade this node" in str(node.not_understood)
    assert "not understood" in (await why.why(store, "x")).reasons[0]


async def test_a_cordon_comes_and_goes(store: Store) -> None:
    await join(store, "a")
    first = await node_operations.cordon_node(store, CLOCK, "a", "disk")
    assert await node_operations.cordon_node(store, CLOCK, "a") == first  # no reason is no change
    again = await node_operations.cordon_node(store, CLOCK, "a", "memory")
    assert (again.why, again.since) == ("memory", first.since)
    assert await node_operations.uncordon_node(store, "a")
    assert not await node_operations.uncordon_node(store, "a")
    assert (await node_operations.list_nodes(store)).nodes[0].cordon is None


async def test_only_a_node_that_is_there_is_cordoned(store: Store) -> None:
    await join(store, "a")
    for asking in (node_operations.cordon_node(store, CLOCK, "b"), node_operations.uncordon_node(store, "b")):
        with pytest.raises(NotFound, match='there is no node "b"; there are a'):
            await asking


async def test_a_node_that_left_can_be_uncordoned(store: Store) -> None:
    await join(store, "a")
    await node_operations.cordon_node(store, CLOCK, "a")
    await store.commit(Delete(keys.node(NodeId("a"))))
    assert await node_operations.uncordon_node(store, "a")


@pytest.mark.parametrize("why", ["x" * 201, "a\nb"])
async def test_a_reason_is_a_line(store: Store, why: str) -> None:
    await join(store, "a")
    with pytest.raises(Invalid, match="at most 200 characters"):
        await node_operations.cordon_node(store, CLOCK, "a", why)


# Why


async def test_why_a_resource_is_where_it_is(store: Store) -> None:
    made = await create(store)
    await settle(
        store,
        made,
        "a",
        "b",
        replicas=3,
        pending="no third node has it",
        chosen={"a": "most free"},
        refusals={"c": "full"},
    )
    told = await why.why(store, "room/1")
    assert told.says == "2 of 3 tasks are placed, on a, b; no third node has it"
    assert (told.chosen, told.refusals) == ({"a": "most free"}, {"c": "full"})


async def test_why_names_the_nodes_that_gave_a_resource_back_lately(store: Store) -> None:
    await settle(store, await create(store), "a", replicas=1)
    now = datetime.now(UTC)
    for node, ago in {"a": 1, "b": 2, "c": 30}.items():
        trouble = Trouble(node=NodeId(node), at=now - timedelta(hours=ago), why=f"no camera at {node}", strikes=3)
        await store.commit(Put(keys.trouble("room", "1", trouble.node), codec.encode(trouble)))
    first, second = (await why.why(store, "room/1")).reasons
    assert first.startswith("node a gave it back at ")
    assert first.endswith("time 3 in a row: no camera at a")
    assert second.startswith("node b")


async def test_why_nobody_has_placed_a_resource(store: Store) -> None:
    await create(store)
    assert (await why.why(store, "room/1")).says.startswith("no node leads")
    await lead(store, "a")
    assert (await why.why(store, "room/1")).says.startswith("the leader has not looked at it yet")


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ({"role": Role.SUPERVISE}, "its role is supervise"),
        ({}, "it runs no app"),
        ({"kinds": ("room",), "slots": 1}, "all its slots are taken"),
        ({"kinds": ("room",), "slots": 0}, "it has no slots"),
    ],
)
async def test_why_a_node_gets_nothing(store: Store, node: dict[str, Any], says: str) -> None:
    await join(store, "a", **node)
    await lead(store, "a")
    await assign(store, "a", "1")
    told = await why.why(store, "a")
    assert told.holds == ("room/1#0",)
    assert told.says == f"it has 1 task in 1 of {node.get('slots', 10)} slots; {'; '.join(told.reasons)}"
    assert told.reasons[0].startswith(says)


async def test_why_a_node_may_get_more_and_what_it_refuses(store: Store) -> None:
    await join(store, "a", kinds=("room",))
    for number in range(15):
        made = await create(store, f"{number:02}")
        await settle(store, made, pending="no node fits", refusals={"a": "labels", "z": "full"})
    assert (await why.why(store, "a")).reasons == ("no node leads, so nothing is placed",)
    await lead(store, "a")
    told = await why.why(store, "a")
    assert told.says == "it has 0 tasks in 0 of 10 slots, and may get more"
    assert told.refusals == {f"room/{number:02}": "labels" for number in range(limits.SHOWN)}
    await node_operations.cordon_node(store, CLOCK, "a", "disk")
    assert (await why.why(store, "a")).reasons == ("it is cordoned since 2026-01-01 00:00:00 UTC, because: disk",)


async def test_why_a_node_that_is_gone_gets_nothing(store: Store) -> None:
    await assign(store, "a", "1")
    assert (await why.why(store, "a")).reasons == ("it is not in the fleet",)
    with pytest.raises(NotFound, match='there is no node "b"'):
        await why.why(store, "b")


# The seed's door


async def crawl(store: Store, name: object = "task-1", wait: timedelta = SOON) -> crawler.NodeSpec:
    return await crawler.add_resource(store, CLOCK, name, patience=wait)


async def test_the_seed_gets_the_node_that_has_its_resource(store: Store) -> None:
    adding = asyncio.create_task(crawl(store, wait=timedelta(seconds=20)))
    made = await eventually(lambda: resource_operations.get_resource(store, "room", "task-1"), despite=(NotFound,))
    await settle(store, made, "w2", "w1", replicas=2)
    assert await adding == crawler.NodeSpec("w2", "w2:7701")
    assert await crawl(store) == crawler.NodeSpec("w2", "w2:7701")  # there it is already
    await crawler.remove_resource(store, "task-1")
    with pytest.raises(NotFound, match=r"^no such task"):
        await crawler.remove_resource(store, "task-1")


async def test_without_a_worker_the_seed_is_told_and_the_resource_is_kept(store: Store) -> None:
    with pytest.raises(Unknown, match="is kept, but was not placed"):
        await crawl(store)
    await settle(store, await resource_operations.get_resource(store, "room", "task-1"), pending="there is no node")
    with pytest.raises(Unavailable, match=r"^no worker nodes: there is no node; room/task-1 is kept"):
        await crawl(store)


async def test_the_seed_knows_no_kinds(store: Store) -> None:
    await declare(store, "spider")
    with pytest.raises(Invalid, match="the fleet has room, spider; name one of them crawler"):
        await crawl(store)
    await declare(store, "crawler")
    with pytest.raises(Unknown, match=r"^crawler/task-1 is kept"):
        await crawl(store)
    async with open_store("memory://") as empty:
        with pytest.raises(Unavailable, match=r"^no worker nodes"):
            await crawl(empty)


@pytest.mark.parametrize("name", [None, "", 3])
async def test_the_seed_needs_a_name(store: Store, name: object) -> None:
    with pytest.raises(Invalid, match="it must be a text that is not empty"):
        await crawl(store, name)


# What operations need


PARTS = {"nodes_with", "explained", "explained_run", "run_record", "no_job", "no_node"}
"""What operations share, and no door offers."""


def test_every_operation_says_what_it_needs() -> None:
    changing = {name for name, access in OPERATIONS.items() if access is Access.OPERATE}
    assert changing == {
        "create_resource", "update_resource", "delete_resource", "cordon_node", "uncordon_node", "drain_node",
        "undrain_node", "set_slots", "label_node", "add_resource", "remove_resource", "enable_hook", "try_hook",
        "enable_job", "disable_job", "run_job", "sync_source",
        "backfill_job", "restart_run", "interrupt_run", "delete_run",
        "suspend_stream", "resume_stream", "terminate_stream", "scale_stream", "hand_off_groups", "reset_stream",
        "reset_offsets", "reload_node", "rollback_node", "clear_service", "resize_service",
    }  # fmt: skip
    governing = {name for name, access in OPERATIONS.items() if access is Access.ADMIN}
    assert governing == {
        "create_hook", "delete_hook", "put_job", "delete_job", "list_tokens", "get_token", "create_token",
        "rotate_token", "revoke_token", "read_audit", "verify_audit", "revoke_certificates", "list_revoked",
        "stream_spec",
    }  # fmt: skip
    public = {
        name
        for module in (
            resource_operations,
            resource_why,
            node_operations,
            node_why,
            event_operations,
            why,
            planning,
            watching,
            relays,
            hooks,
            job_operations,
            run_operations,
            run_output,
            job_why,
            stream_operations,
            tokens,
            audit,
            certificates,
            crawler,
            overview,
            pulse,
            steering,
            fleet_status,
            syncing,
            labels,
            printing,
        )
        for name, thing in vars(module).items()
        if (asyncio.iscoroutinefunction(thing) or name.startswith(("watch_", "follow_")))
        and not name.startswith("_")
        and thing.__module__ == module.__name__
    }
    assert public - PARTS == OPERATIONS.keys()


async def test_events_have_bounds(store: Store) -> None:
    assert (await event_operations.read_events(store, since=datetime(2026, 1, 1, tzinfo=UTC))).events == ()
    with pytest.raises(Invalid, match="it must be from 0 to 1000"):
        await event_operations.read_events(store, limit=5000)


# Slots


async def test_slots_are_set_and_given_back(store: Store) -> None:
    await join(store, "n1", slots=10, kinds=("room",))
    await lead(store, "n1")
    for number in range(4):
        await assign(store, "n1", str(number))
    given = await node_operations.set_slots(store, CLOCK, "n1", 3)
    assert given is not None
    assert await node_operations.set_slots(store, CLOCK, "n1", 3) == given
    (node,) = (await node_operations.list_nodes(store)).nodes
    assert (node.slots, node.configured_slots, node.slots_set) == (3, 10, given)
    told = await node_why.why_node(store, "n1")
    assert "in 4 of 3 slots (set on " in told.says
    assert "its settings say 10" in told.says
    assert told.reasons == (
        "all its slots are taken",
        "it has more tasks than slots, so the newest of them move away, some at a time",
    )
    assert await node_operations.set_slots(store, CLOCK, "n1", None) is None
    (node,) = (await node_operations.list_nodes(store)).nodes
    assert (node.slots, node.slots_set) == (10, None)


@pytest.mark.parametrize("slots", [-1, "3", 1.5, True, 10**7])
async def test_slots_that_cannot_be_are_refused(store: Store, slots: object) -> None:
    await join(store, "n1")
    with pytest.raises(Invalid, match='node "n1": slots is'):
        await node_operations.set_slots(store, CLOCK, "n1", slots)


async def test_slots_are_those_of_a_node(store: Store) -> None:
    with pytest.raises(NotFound, match="n9"):
        await node_operations.set_slots(store, CLOCK, "n9", 3)


# Sources


async def test_a_source_that_is_held_is_explained_also_with_its_resources(store: Store) -> None:
    entry = await store.get(keys.kind("room"))
    assert entry is not None
    kind = replace(codec.decode(KindRecord, entry.value), source_every=timedelta(minutes=30))
    listing = Listing(kind="room", nonce="1", node=NodeId("n1"), at=CLOCK.wall(), held="x", why="the list is empty")
    query = Query(kind="room", node=NodeId("n1"), nonce="1", asked=CLOCK.wall(), term=TermNumber(1))
    listed = record_of(WantedResource(kind="room", id="1"), "uid", CLOCK.wall(), "source")
    await store.commit(
        Put(keys.kind("room"), codec.encode(kind)),
        Put(keys.listing("room"), codec.encode(listing)),
        Put(keys.query("room"), codec.encode(query)),
        Put(keys.resource("room", "1"), codec.encode(listed)),
    )
    await settle(store, await resource_operations.get_resource(store, "room", "1"), "n1")
    told = await resource_why.why_source(store, "room")
    assert told.thing == "source of room"
    assert "rota resources sync room --force" in told.says
    assert "no node leads" in told.says
    assert told.says in (await why.why(store, "room/1")).reasons[0]
    with pytest.raises(Invalid, match="nothing"):
        await resource_why.why_source(store, "nothing")
