"""Hooks and the idlest node: what can be asked, and how each door says it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from rota.compose.metrics import NodeFigures, registry
from rota.doors.behind import NodeBackend
from rota.doors.grpc.pb import api_pb2 as pb
from rota.doors.guard.doorkeeper import Doorkeeper
from rota.doors.health import HealthChecks
from rota.doors.http import routes as resources
from rota.doors.http.door import door
from rota.doors.watches import Watches
from rota.fleet.core.access.gate import Access, Gate, known
from rota.fleet.core.hooks.record import Delivery, Hook, HookFailure, HookStatus
from rota.fleet.doors import hooks
from rota.fleet.doors.hooks import create_hook, delete_hook, enable_hook, list_hooks, try_hook
from rota.fleet.doors.nodes import operations as node_operations
from rota.fleet.events import event_log as events
from rota.fleet.hooks.deliver import Deliverer
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, NotFound, Unavailable
from rota.model.ids import NodeId, SessionId
from rota.model.node import NodeLoad, Role
from rota.model.peers import NodeHealth, Standing, Strikes
from rota.store import Put, Store, incarnation, open_store
from tests.kit.fleet_records import join
from tests.kit.grpc_caller import Code, opened, refused
from tests.kit.hand_clock import HandClock
from tests.kit.hooks import HOOK
from tests.kit.http_caller import Caller
from tests.kit.http_caller import opened as opened_http
from tests.kit.relay_records import count

CLOCK = HandClock()


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        yield store


@asynccontextmanager
async def delivering(store: Store, error: str | None = None, output: str = "") -> AsyncIterator[None]:
    """Some node that delivers."""
    joined = await incarnation.current(store, CLOCK)

    async def send(_: Hook, __: Delivery) -> HookFailure | None:
        return None if error is None else HookFailure(error, output)

    deliverer = Deliverer(store, NodeId("a"), joined, CLOCK, lambda: 0.0, send, Counter())
    running = asyncio.create_task(deliverer.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])


async def busy(store: Store, node: str, score: float, used: int = 0) -> None:
    load = NodeLoad(score=score, cpu=score / 100, memory=0.5, executors=8, executors_used=used)
    await store.commit(Put(keys.node_load(NodeId(node)), codec.encode(load)))


async def fall(store: Store, node: str) -> None:
    health = NodeHealth(node=NodeId(node), is_online=False, since=CLOCK.wall(), why="a did not reach it")
    await store.commit(Put(keys.node_health(NodeId(node)), codec.encode(health)))


# Nodes


async def test_the_idlest_is_the_one_with_the_lowest_score_that_is_to_be_had(store: Store) -> None:
    for name, score in (("a", 40.0), ("b", 3.5), ("c", 2.0), ("d", 1.0)):
        await join(store, name)
        await busy(store, name, score, used=3)
    await join(store, "e", role=Role.SUPERVISE)
    await busy(store, "e", 0.0)
    await node_operations.cordon_node(store, CLOCK, "c")
    await fall(store, "d")
    found = await node_operations.idlest_node(store)
    assert (found.node, found.score, found.executors_free) == ("b", 3.5, 5)


async def test_where_no_node_is_to_be_had_each_says_why(store: Store) -> None:
    with pytest.raises(Unavailable, match="there are no nodes"):
        await node_operations.idlest_node(store)
    await join(store, "a")
    await join(store, "b")
    await fall(store, "b")
    with pytest.raises(Unavailable, match="a: it has not said yet how busy it is; b: it is offline"):
        await node_operations.idlest_node(store)


async def test_nodes_show_load_and_standing(store: Store) -> None:
    for name in "abc":
        await join(store, name)
    await busy(store, "a", 12.5)
    await fall(store, "c")
    held = Strikes(node=NodeId("b"), session=SessionId("s-b"), observer=NodeId("a"), at=[CLOCK.wall()], why="no answer")
    await store.commit(Put(keys.strikes(NodeId("b"), NodeId("a")), codec.encode(held)))
    nodes = {node.id: node for node in (await node_operations.list_nodes(store)).nodes}
    assert nodes[NodeId("a")].load == NodeLoad(score=12.5, cpu=0.125, memory=0.5, executors=8, executors_used=0)
    assert [nodes[NodeId(name)].standing for name in "abc"] == list(Standing)
    assert nodes[NodeId("b")].standing_why == "a did not reach it: no answer"


# Hooks


async def test_a_hook_is_made_listed_switched_and_removed(store: Store) -> None:
    made = await create_hook(store, CLOCK, {**HOOK, "timeout": "3s", "retries": 1})
    assert (made.timeout, made.retries, made.per_minute, made.enabled) == ("3s", 1, 60, True)
    assert [each.name for each in await list_hooks(store)] == ["pager"]
    with pytest.raises(Conflict, match="hook pager exists already"):
        await create_hook(store, CLOCK, HOOK)
    assert not (await enable_hook(store, "pager", False)).enabled
    assert not (await enable_hook(store, "pager", False)).enabled
    await delete_hook(store, "pager")
    assert await list_hooks(store) == ()
    for asked in (delete_hook(store, "pager"), enable_hook(store, "pager", True), try_hook(store, CLOCK, "pager")):
        with pytest.raises(NotFound, match='there is no hook "pager"'):
            await asked


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": None}, "a hook needs a name"),
        ({"name": "a/b"}, 'use letters, digits, ".", "_" and "-"'),
        ({"events": []}, "events must be a list of 1 to 50"),
        ({"events": ["node.ofline"]}, 'no event is called "node.ofline"; did you mean "node.offline"'),
        ({"url": None}, "give a URL to call or a command to run"),
        ({"command": ["true"]}, "and not both"),
        ({"url": "ftp://x"}, "has an unknown scheme"),
        ({"url": "https://me:secret@x/"}, "without a name and a password in it"),
        ({"url": "https://"}, "url must be like"),
        ({"url": "https://x:99999/"}, "url must be like"),
        ({"url": None, "command": [1]}, "command must be a list"),
        ({"url": None, "command": ["", "x"]}, "must begin with a program"),
        ({"timeout": "1h"}, "at most 5m"),
        ({"timeout": "1ms"}, "100ms or more"),
        ({"retries": -1}, "from 0 to 20"),
        ({"per_minute": 0}, "from 1 to 6000"),
        ({"enabled": "yes"}, "must be True or False"),
        ({"urls": "x"}, 'there is no field "urls"; did you mean "url"'),
    ],
)
async def test_what_cannot_be_a_hook_is_refused_with_a_sentence(
    store: Store, changes: dict[str, object], words: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        await create_hook(store, CLOCK, {**HOOK, **changes})
    assert words in str(refusal.value)
    assert "secret" not in str(refusal.value)


async def test_a_hook_is_tried_once_and_what_came_of_it_is_told(store: Store) -> None:
    await create_hook(store, CLOCK, HOOK)
    async with delivering(store):
        assert (await try_hook(store, CLOCK, "pager")).error == ""
    async with delivering(store, "nobody was there"):
        assert (await try_hook(store, CLOCK, "pager")).error == "nobody was there"
    status = (await list_hooks(store))[0].status
    assert (status.delivered, status.failed, status.error) == (1, 1, "nobody was there")
    await enable_hook(store, "pager", False)
    with pytest.raises(Invalid, match="enable it first"):
        await try_hook(store, CLOCK, "pager")


async def test_arguments_and_output_of_commands_are_for_admins_alone(store: Store) -> None:
    await create_hook(store, CLOCK, {**HOOK, "url": None, "command": ["curl", "-u", "me:secret", "x"], "retries": 0})
    await create_hook(store, CLOCK, {**HOOK, "name": "short", "url": None, "command": ["true"]})
    async with delivering(store, "the command exited with 3", "me:secret was refused"):
        admins = await try_hook(store, CLOCK, "pager", Access.ADMIN)
        others = await try_hook(store, CLOCK, "pager", Access.OPERATE)
    assert (admins.error, admins.output) == ("the command exited with 3", "me:secret was refused")
    assert (others.error, others.output) == ("the command exited with 3", "")
    told = (await events.read(store, kinds=["hook.failed"])).events
    assert [each.fields["why"] for each in told] == ["the command exited with 3"] * 2
    for access in (Access.VIEW, Access.OPERATE):
        pager, short = await list_hooks(store, access)
        assert (pager.command, short.command) == (["curl", "…"], ["true"])
        assert "secret" not in repr(pager)
    for access in (Access.ADMIN, Access.NODE):
        pager, _ = await list_hooks(store, access)
        assert (pager.command[2], pager.status.output) == ("me:secret", "me:secret was refused")
    older = HookStatus(failed=1, error="the command exited with 3: me:secret was refused")
    await store.commit(Put(keys.hook_status("pager"), codec.encode(older)))
    assert (await list_hooks(store, Access.VIEW))[0].status.error == "the command exited with 3"


async def test_the_doors_show_viewers_no_arguments(store: Store) -> None:
    await create_hook(store, CLOCK, {**HOOK, "url": None, "command": ["curl", "-u", "me:secret", "x"]})
    for access in Access:
        keeper = Doorkeeper(Gate((known(f"rota_{access}", access),), "see: cat data/token"))
        routes = resources.routes(NodeBackend(lambda: store, CLOCK, Watches(), count))
        app = door(HealthChecks(CLOCK), registry(NodeFigures), dict, gate=keeper, more=routes, clock=CLOCK)
        shown = await Caller(app, f"rota_{access}")("GET", "/v1/hooks")
        assert (shown.status, b"me:secret" in shown.body) == (200, access.covers(Access.ADMIN))
    async with opened(lambda: store) as ask:  # who shows no token has the least of all roles
        listed = await ask("rota.v1.Hooks.List", pb.ListHooksRequest(), pb.HookList)
        assert list(listed.hooks[0].command) == ["curl", "…"]


async def test_where_no_node_delivers_the_trial_ends(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "PATIENCE", timedelta())
    await create_hook(store, CLOCK, {**HOOK, "timeout": "100ms"})
    with pytest.raises(Unavailable, match="no node took the event for hook pager within 100ms"):
        await try_hook(store, CLOCK, "pager")
    assert (await list_hooks(store))[0].waiting == 0


# The doors


async def test_over_http(store: Store) -> None:
    ask = opened_http(store)
    made = await ask("POST", "/v1/hooks", HOOK)
    assert (made.status, made.headers["location"]) == (201, "/v1/hooks/pager")
    assert (await ask("POST", "/v1/hooks", HOOK)).status == 409
    assert (await ask("GET", "/v1/hooks")).json["hooks"][0]["url"] == "https://example.com/…"
    async with delivering(store):
        assert (await ask("POST", "/v1/hooks/pager/test", {})).json["error"] == ""
    assert (await ask("PATCH", "/v1/hooks/pager", {"enabled": False})).json == {"name": "pager", "enabled": False}
    assert (await ask("PATCH", "/v1/hooks/pager", {"enabled": "no"})).status == 422
    assert (await ask("DELETE", "/v1/hooks/pager")).status == 204
    assert (await ask("DELETE", "/v1/hooks/pager")).status == 404
    none = await ask("GET", "/v1/nodes/idlest")
    assert none.status == 503
    assert "no node is available" in none.json["error"]
    await join(store, "a")
    await busy(store, "a", 7.25)
    assert (await ask("GET", "/v1/nodes/idlest")).json["score"] == 7.25


async def test_over_grpc(store: Store) -> None:
    async with opened(lambda: store) as ask:
        wanted = pb.CreateHookRequest(name="pager", events=["node.*"], command=["true"], retries=2)
        wanted.timeout.FromTimedelta(timedelta(seconds=4))
        made = await ask("rota.v1.Hooks.Create", wanted, pb.Hook)
        assert (made.name, list(made.command), made.retries, made.timeout.seconds) == ("pager", ["true"], 2, 4)
        async with refused(Code.ALREADY_EXISTS, "exists already"):
            await ask("rota.v1.Hooks.Create", wanted, pb.Hook)
        async with delivering(store, "no"):
            tried = await ask("rota.v1.Hooks.Test", pb.TestHookRequest(name="pager"), pb.TestHookAnswer)
        assert tried.error == "no"
        listed = await ask("rota.v1.Hooks.List", pb.ListHooksRequest(), pb.HookList)
        assert [(each.name, each.failed, each.error) for each in listed.hooks] == [("pager", 1, "no")]
        off = await ask("rota.v1.Hooks.Enable", pb.EnableHookRequest(name="pager"), pb.EnableHookAnswer)
        assert not off.enabled
        gone = await ask("rota.v1.Hooks.Delete", pb.DeleteHookRequest(name="pager"), pb.DeleteHookAnswer)
        assert gone.name == "pager"
        async with refused(Code.UNAVAILABLE, "no node is available"):
            await ask("rota.v1.Nodes.Idlest", pb.IdlestRequest(), pb.IdlestAnswer)
        await join(store, "a")
        await busy(store, "a", 7.25)
        found = await ask("rota.v1.Nodes.Idlest", pb.IdlestRequest(), pb.IdlestAnswer)
        assert (found.node, found.score, found.executors_free) == ("a", 7.25, 8)
        nodes = await ask("rota.v1.Nodes.List", pb.ListNodesRequest(), pb.NodeList)
        assert (nodes.nodes[0].standing, nodes.nodes[0].load.cpu) == ("online", 0.0725)


@pytest.mark.parametrize("told", ["3s", "PT3S"])
async def test_a_duration_is_accepted_as_it_is_answered_and_as_programs_write_it(store: Store, told: str) -> None:
    ask = opened_http(store)
    made = (await ask("POST", "/v1/hooks", {**HOOK, "timeout": told})).json
    assert made["timeout"] == "3s"
    assert (await ask("DELETE", "/v1/hooks/pager")).status == 204
    again = await ask("POST", "/v1/hooks", {**HOOK, "timeout": made["timeout"]})
    assert (again.status, again.json["timeout"]) == (201, "3s")
    (listed,) = (await ask("GET", "/v1/hooks")).json["hooks"]
    assert listed["timeout"] == "3s"
