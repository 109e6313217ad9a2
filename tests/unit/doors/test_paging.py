"""Pages of everything that is listed, at both doors."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.doors.grpc.pb import api_pb2 as pb
from rota.doors.grpc.pb import safety_pb2
from rota.doors.paging import LONGEST, paged
from rota.fleet.doors.hooks import create_hook
from rota.fleet.doors.tokens import create_token
from rota.fleet.events.event_log import event_put
from rota.model.errors import Invalid
from rota.model.ids import NodeId
from rota.store import Store, open_store
from tests.kit.fleet_records import declare, join
from tests.kit.grpc_caller import Caller as GrpcCaller
from tests.kit.grpc_caller import opened as opened_grpc
from tests.kit.hand_clock import HandClock
from tests.kit.hooks import HOOK
from tests.kit.http_caller import Caller, opened

CLOCK = HandClock()
NAMES = [f"n{number}" for number in range(7)]


@given(st.sets(st.text(max_size=3)), st.integers(1, 5))
def test_pages_together_are_the_list(names: set[str], limit: int) -> None:
    wanted, seen, token = sorted(names - {""}), list[str](), None
    while True:
        page, token = paged(wanted, str, limit=limit, token=token)
        seen += page
        assert len(page) <= limit
        if token is None:
            break
    assert seen == wanted


def test_what_goes_between_two_pages_hides_nothing() -> None:
    first, token = paged(["a", "b", "c", "d"], str, limit=2)
    assert (first, token) == (("a", "b"), "b")
    assert paged(["a", "c", "d"], str, limit=2, token=token) == (("c", "d"), None)


@pytest.mark.parametrize("limit", [0, LONGEST + 1])
def test_a_page_has_a_length_that_there_can_be(limit: int) -> None:
    with pytest.raises(Invalid, match=f"limit is {limit}; it must be from 1 to {LONGEST}"):
        paged([], str, limit=limit)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        for number, name in enumerate(NAMES):
            await join(store, name)
            await declare(store, name)
            await create_hook(store, CLOCK, {**HOOK, "name": name})
            await create_token(store, CLOCK, name, "view", by="ada")
            happened = CLOCK.wall() - timedelta(minutes=number * 40)
            await store.commit(
                event_put("node.joined", name, {"term": 1}, node=NodeId("n0"), at=happened, number=100 + number)
            )
        yield store


@pytest.fixture
def ask(store: Store) -> Caller:
    return opened(store)


@pytest.mark.parametrize(
    ("path", "key", "name"),
    [
        ("/v1/nodes", "nodes", "id"),
        ("/v1/kinds", "kinds", "name"),
        ("/v1/hooks", "hooks", "name"),
        ("/v1/tokens", "tokens", "name"),
    ],
)
async def test_lists_come_in_pages_over_http(ask: Caller, path: str, key: str, name: str) -> None:
    whole = (await ask("GET", path)).json
    assert ([each[name] for each in whole[key]], whole["next"]) == (NAMES, None)
    seen: list[str] = []
    further = ""
    while further is not None:
        page = (await ask("GET", f"{path}?limit=3{further and f'&token={further}'}")).json
        seen += [each[name] for each in page[key]]
        further = page["next"]
    assert seen == NAMES
    assert "from 1 to 1000" in await ask.refused(422, "GET", f"{path}?limit=0")


async def test_events_are_read_further_back_over_http(ask: Caller) -> None:
    seen: list[str] = []
    further = ""
    while further is not None:
        page = (await ask("GET", f"/v1/events?limit=2{further and f'&token={further}'}")).json
        seen = [each["subject"] for each in page["events"]] + seen
        further = page["next"]
    assert seen == NAMES[::-1]
    assert (await ask("GET", "/v1/events?limit=0")).json["next"] is None


async def test_one_node_hook_and_token_over_http(ask: Caller) -> None:
    node = (await ask("GET", "/v1/nodes/n3")).json
    assert node == next(each for each in (await ask("GET", "/v1/nodes")).json["nodes"] if each["id"] == "n3")
    assert (await ask("GET", "/v1/hooks/n3")).json["name"] == "n3"
    token = await ask("GET", "/v1/tokens/n3")
    assert (token.json["name"], token.json["is_good"]) == ("n3", True)
    for path, code in (("nodes", "node"), ("hooks", "hook"), ("tokens", "token")):
        answer = await ask("GET", f"/v1/{path}/n9")
        assert (answer.status, answer.json["code"]) == (404, f"{code}_not_found")


async def pages_over_grpc(ask: GrpcCaller, method: str, request: Any, answer: Any, field: str) -> list[Any]:
    seen: list[Any] = []
    token = ""
    while True:
        page = await ask(method, request(limit=3, token=token), answer)
        seen.append(list(getattr(page, field)))
        token = page.next
        if not token:
            return seen


async def test_lists_come_in_pages_over_grpc(store: Store) -> None:
    async with opened_grpc(lambda: store) as ask:
        for method, request, answer, field, name in (
            ("rota.v1.Nodes.List", pb.ListNodesRequest, pb.NodeList, "nodes", "id"),
            ("rota.v1.Resources.ListKinds", pb.ListKindsRequest, pb.KindList, "kinds", "name"),
            ("rota.v1.Hooks.List", pb.ListHooksRequest, pb.HookList, "hooks", "name"),
            ("rota.v1.Tokens.List", safety_pb2.ListTokensRequest, safety_pb2.TokenList, "tokens", "name"),
        ):
            pages = await pages_over_grpc(ask, method, request, answer, field)
            assert [getattr(each, name) for page in pages for each in page] == NAMES, method
            assert len(pages) == 3
            assert len(getattr(await ask(method, request(), answer), field)) == 7
        pages = await pages_over_grpc(ask, "rota.v1.Events.List", pb.ListEventsRequest, pb.EventList, "events")
        assert [each.subject for page in reversed(pages) for each in page] == NAMES[::-1]


async def test_one_node_hook_and_token_over_grpc(store: Store) -> None:
    async with opened_grpc(lambda: store) as ask:
        assert (await ask("rota.v1.Nodes.Get", pb.GetNodeRequest(node="n3"), pb.Node)).id == "n3"
        assert (await ask("rota.v1.Hooks.Get", pb.GetHookRequest(name="n3"), pb.Hook)).name == "n3"
        token = await ask("rota.v1.Tokens.Get", safety_pb2.GetTokenRequest(name="n3"), safety_pb2.Token)
        assert (token.name, token.is_good) == ("n3", True)
