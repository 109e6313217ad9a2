"""Tokens: made, rotated and revoked in the store, over HTTP, and what doorkeepers know of it a moment later."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, timedelta
from typing import TypeVar

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from rota.compose.metrics import NodeFigures, registry
from rota.doors.behind import NodeBackend
from rota.doors.grpc import door as grpc_door
from rota.doors.grpc.pb import safety_pb2 as pb
from rota.doors.guard.doorkeeper import Doorkeeper
from rota.doors.health import HealthChecks
from rota.doors.http import routes as resources
from rota.doors.http.door import door
from rota.doors.watches import Watches
from rota.fleet.core.access.gate import Access, AdmittedCaller, Gate, TurnedAway, digest, known
from rota.fleet.core.access.token import TokenRecord
from rota.fleet.doors import audit
from rota.fleet.doors.tokens import create_token, list_tokens, revoke_token, rotate_token
from rota.kit.record import replace
from rota.link import serve_link
from rota.model import codec, keys
from rota.model.errors import Conflict, Denied, Invalid, NotFound, Unavailable
from rota.model.ids import Key
from rota.store import Delete, Put, Store, open_store
from rota.store.around import StoreAround
from rota.store.port import Entry
from tests.kit.doorkeeping import ADMIN, GATE, OWN, Time, admitted, watched
from tests.kit.grpc_caller import Code, refused
from tests.kit.http_caller import Caller
from tests.kit.link_server import Desk
from tests.kit.relay_records import count

M = TypeVar("M", bound=Message)

HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        yield store


async def test_a_token_is_told_once_and_its_digest_kept(store: Store, clock: Time) -> None:
    made = await create_token(store, clock, "grafana", "view", by="ada", expires_in=HOUR)
    assert made.token.startswith("rota_")
    assert len(made.token) > 40
    entry = await store.get(keys.token("grafana"))
    assert entry is not None
    assert made.token.encode() not in entry.value
    (view,) = await list_tokens(store, clock)
    assert (view.name, view.access, view.by, view.is_good) == ("grafana", Access.VIEW, "ada", True)
    assert view.expires == clock.now + HOUR


async def test_doorkeepers_hear_of_what_is_made_revoked_and_deleted(store: Store, clock: Time) -> None:
    old = await create_token(store, clock, "old", "view", by="ada")
    async with watched(store, clock) as keeper:
        assert await admitted(keeper, old.token, True)
        made = await create_token(store, clock, "grafana", "operate", by="ada")
        assert await admitted(keeper, made.token, True)
        assert keeper.judge(f"Bearer {made.token}", Access.OPERATE) == AdmittedCaller("grafana", Access.OPERATE)
        await revoke_token(store, clock, "grafana")
        assert not await admitted(keeper, made.token, False)
        judged = keeper.judge(f"Bearer {made.token}", Access.VIEW)
        assert isinstance(judged, TurnedAway)
        assert "token grafana was revoked" in judged.why
        await store.commit(Delete(keys.token("old")))
        assert not await admitted(keeper, old.token, False)
        assert await admitted(keeper, OWN, True)


async def test_a_rotation_makes_a_new_token_and_may_keep_the_old_one_for_a_while(store: Store, clock: Time) -> None:
    first = await create_token(store, clock, "ci", "operate", by="ada", expires_in=HOUR)
    clock.now += HOUR / 2
    second = await rotate_token(store, clock, "ci", by="bob", keep_old=HOUR / 4)
    assert second.expires == clock.now + HOUR
    async with watched(store, clock) as keeper:
        assert await admitted(keeper, first.token, True)
        assert await admitted(keeper, second.token, True)
        clock.now += HOUR / 4
        assert not await admitted(keeper, first.token, False)
        third = await rotate_token(store, clock, "ci", by="bob")
        assert await admitted(keeper, third.token, True)
        assert not await admitted(keeper, second.token, False)


async def test_a_name_is_taken_while_its_token_is_good(store: Store, clock: Time) -> None:
    await create_token(store, clock, "ci", "view", by="ada", expires_in=HOUR)
    with pytest.raises(Conflict, match="rotate it, revoke it first"):
        await create_token(store, clock, "ci", "admin", by="ada")
    clock.now += HOUR
    with pytest.raises(Invalid, match="make a new one with create"):
        await rotate_token(store, clock, "ci", by="ada")
    assert (await create_token(store, clock, "ci", "admin", by="ada")).access is Access.ADMIN
    revoked = await revoke_token(store, clock, "ci")
    clock.now += HOUR
    assert await revoke_token(store, clock, "ci") == revoked  # since then, not since now
    assert (await create_token(store, clock, "ci", "view", by="ada")).access is Access.VIEW


@pytest.mark.parametrize(
    ("name", "role", "life", "words"),
    [
        ("../x", "view", None, "use letters, digits"),
        ("", "view", None, "use letters, digits"),
        ("x" * 64, "view", None, "at most 63"),
        ("x", "god", None, "there are view, operate, admin, node"),
        ("x", "view", timedelta(), "more than 0 s"),
        ("x", "view", timedelta(days=10_000), "at most 3650 days"),
    ],
)
async def test_what_is_wrong_is_said(
    store: Store, clock: Time, name: str, role: str, life: timedelta | None, words: str
) -> None:
    with pytest.raises(Invalid, match=words):
        await create_token(store, clock, name, role, by="ada", expires_in=life)


async def test_a_token_that_is_not_there_is_not_found(store: Store, clock: Time) -> None:
    await create_token(store, clock, "grafana", "view", by="ada")
    with pytest.raises(NotFound, match='did you mean "grafana"'):
        await revoke_token(store, clock, "grafanaa")
    with pytest.raises(NotFound):
        await rotate_token(store, clock, "../grafana", by="ada")


async def test_nobody_gives_away_more_than_it_has(store: Store, clock: Time) -> None:
    with pytest.raises(Denied, match="would open node, and yours opens admin"):
        await create_token(store, clock, "x", "node", by="ada", most=Access.ADMIN)
    await create_token(store, clock, "join", "node", by="ada")
    with pytest.raises(Denied, match="would open node"):
        await rotate_token(store, clock, "join", by="ada", most=Access.ADMIN)


# The node's own token, once the store has known it


def own(token: str) -> Gate:
    """The gate of a node whose file has this token."""
    return Gate((known(token, Access.NODE),))


@asynccontextmanager
async def restarted(store: Store, clock: Time, token: str) -> AsyncIterator[Doorkeeper]:
    """The doorkeeper of a node that starts with this token in its file, once it has asked the store."""
    keeper = Doorkeeper(own(token), clock, asks_first=True)
    following = asyncio.create_task(keeper.follow(store))
    try:
        await asyncio.wait_for(keeper.has_asked.wait(), 60)
        yield keeper
    finally:
        following.cancel()
        await asyncio.wait([following])


async def is_refused(store: Store, clock: Time, running: Doorkeeper, token: str) -> None:
    """The token opens nothing at a node that runs, nor at one that starts with it in its file."""
    assert not await admitted(running, token, False)
    async with restarted(store, clock, token) as keeper:
        judged = keeper.judge(f"Bearer {token}", Access.VIEW)
        assert isinstance(judged, TurnedAway)
        assert judged.is_stranger
        assert digest(token).hex() not in keeper.for_nodes()


async def test_a_rotated_token_stays_refused_where_the_nodes_own_file_has_it(store: Store, clock: Time) -> None:
    first = await create_token(store, clock, "fleet", "node", by="ada")
    async with restarted(store, clock, first.token) as keeper:
        assert keeper.judge(f"Bearer {first.token}", Access.NODE) == AdmittedCaller("fleet", Access.NODE)
        second = await rotate_token(store, clock, "fleet", by="ada")
        await is_refused(store, clock, keeper, first.token)
        await rotate_token(store, clock, "fleet", by="ada", keep_old=HOUR)
        await is_refused(store, clock, keeper, first.token)
        clock.now += 2 * HOUR
        await is_refused(store, clock, keeper, second.token)
        await rotate_token(store, clock, "fleet", by="ada")
        await is_refused(store, clock, keeper, second.token)


async def test_a_revoked_token_stays_refused_when_its_name_is_made_anew_or_its_record_deleted(
    store: Store, clock: Time
) -> None:
    first = await create_token(store, clock, "fleet", "node", by="ada")
    async with restarted(store, clock, first.token) as keeper:
        await revoke_token(store, clock, "fleet")
        await is_refused(store, clock, keeper, first.token)
        await create_token(store, clock, "fleet", "view", by="ada")
        await is_refused(store, clock, keeper, first.token)
        await store.commit(Delete(keys.token("fleet")))
        await is_refused(store, clock, keeper, first.token)


async def test_what_an_older_rota_wrote_and_rotated_stays_refused_too(store: Store, clock: Time) -> None:
    """It does not note digests: a node of this version does, as soon as it sees the record."""
    first = await create_token(store, clock, "fleet", "node", by="ada")
    note = keys.token_digest(digest(first.token).hex())
    await store.commit(Delete(note))
    entry = await store.get(keys.token("fleet"))
    assert entry is not None
    async with restarted(store, clock, "rota_another_0123456789"):
        await noted(store, note)
    later = replace(codec.decode(TokenRecord, entry.value), digest=digest("rota_by_the_older_one").hex())
    await store.commit(Put(entry.key, codec.encode(later)))
    async with restarted(store, clock, first.token) as keeper:
        assert not await admitted(keeper, first.token, False)


async def noted(store: Store, key: str) -> None:
    async with asyncio.timeout(60):
        while await store.get(key) is None:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_a_nodes_own_token_opens_nothing_before_the_store_was_asked(store: Store, clock: Time) -> None:
    keeper = Doorkeeper(own(OWN), clock, asks_first=True)
    judged = keeper.judge(f"Bearer {OWN}", Access.VIEW)
    assert isinstance(judged, TurnedAway)
    assert judged.is_unsure
    app = door(HealthChecks(clock), registry(NodeFigures), dict, gate=keeper, clock=clock)
    answer = await Caller(app, OWN)("GET", "/v1/node")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    async with restarted(store, clock, OWN) as asked:
        assert asked.judge(f"Bearer {OWN}", Access.NODE) == AdmittedCaller("operator", Access.NODE)
        asked.renew(own(ADMIN))  # its file has another one now
        assert await admitted(asked, ADMIN, True)
        assert not await admitted(asked, OWN, False)


async def test_nobody_revokes_more_than_it_has_nor_takes_the_name_of_a_nodes_own_token(
    store: Store, clock: Time
) -> None:
    await create_token(store, clock, "join", "node", by="ada")
    with pytest.raises(Denied, match="opens node, and yours opens admin"):
        await revoke_token(store, clock, "join", most=Access.ADMIN)
    for name in ("operator", "Operator"):
        with pytest.raises(Invalid, match="use another"):
            await create_token(store, clock, name, "view", by="ada")


# Over HTTP


async def test_tokens_over_http_and_the_trail_of_it(store: Store, clock: Time) -> None:
    async with watched(store, clock) as keeper:
        more = resources.routes(NodeBackend(lambda: store, clock, Watches(), count))
        app = door(HealthChecks(clock), registry(NodeFigures), dict, gate=keeper, more=more, clock=clock)
        ask = Caller(app, ADMIN)
        wanted = {"name": "grafana", "role": "operate", "expires_in": "90d"}
        made = await ask("POST", "/v1/tokens", wanted)
        assert (made.status, made.headers["location"]) == (201, "/v1/tokens/grafana")
        token = made.json["token"]
        assert await admitted(keeper, token, True)
        assert "would open node" in await ask.refused(403, "POST", "/v1/tokens", {"name": "x", "role": "node"})
        assert "role is missing" in await ask.refused(422, "POST", "/v1/tokens", {"name": "x"})
        rotated = await ask("POST", "/v1/tokens/grafana/rotate", {"keep_old": "1h"})
        assert rotated.status == 200
        assert (await ask("POST", "/v1/tokens/grafana/revoke", {})).json["is_good"] is False
        listed = await ask("GET", "/v1/tokens")
        assert [each["name"] for each in listed.json["tokens"]] == ["grafana"]
        assert token.encode() not in listed.body
    lines = (await audit.read_audit(store)).entries
    assert [(line.entry.by, line.entry.origin, line.entry.what) for line in lines] == [
        ("ada", "http 127.0.0.1", "create_token"),
        ("ada", "http 127.0.0.1", "rotate_token"),
        ("ada", "http 127.0.0.1", "revoke_token"),
    ]
    shown = await Caller(app, ADMIN)("GET", "/v1/audit?limit=2")
    assert len(shown.json["entries"]) == 2
    assert (await Caller(app, ADMIN)("GET", "/v1/audit/verify")).json["waiting"] == 3


# Over gRPC


async def test_tokens_over_grpc_and_the_trail_of_it(store: Store, clock: Time) -> None:
    async with watched(store, clock) as keeper:
        behind = NodeBackend(lambda: store, clock, Watches(), count)

        def more() -> list[grpc.GenericRpcHandler]:
            return grpc_door.handlers(behind, HealthChecks(clock), asyncio.Event(), keeper)

        async with (
            serve_link("grpc://127.0.0.1:0", Desk(), more=more) as server,
            grpc.aio.insecure_channel(server.address.removeprefix("grpc://")) as channel,
        ):

            async def ask(method: str, request: Message, kind: type[M], token: str = ADMIN) -> M:
                shown = (("authorization", f"Bearer {token}"),)
                call = channel.unary_unary(f"/rota.v1.{method}")
                return kind.FromString(await call(request.SerializeToString(), timeout=60, metadata=shown))

            wanted = pb.CreateTokenRequest(name="ci", role="operate", expires_in=Duration(seconds=3600))
            made = await ask("Tokens/Create", wanted, pb.NewToken)
            assert (made.name, made.access, made.expires.ToDatetime(UTC)) == ("ci", "operate", clock.now + HOUR)
            assert await admitted(keeper, made.token, True)
            async with refused(Code.ALREADY_EXISTS, "rotate it"):
                await ask("Tokens/Create", wanted, pb.NewToken)
            async with refused(Code.PERMISSION_DENIED, "would open node"):
                await ask("Tokens/Create", pb.CreateTokenRequest(name="x", role="node"), pb.NewToken)
            rotated = await ask("Tokens/Rotate", pb.RotateTokenRequest(name="ci"), pb.NewToken)
            assert rotated.token != made.token
            assert not (await ask("Tokens/Revoke", pb.RevokeTokenRequest(name="ci"), pb.Token)).is_good
            (listed,) = (await ask("Tokens/List", pb.ListTokensRequest(), pb.TokenList)).tokens
            assert (listed.name, listed.HasField("revoked")) == ("ci", True)
            with_key = (("authorization", f"Bearer {ADMIN}"), ("idempotency-key", "k"))
            async with refused(Code.INVALID_ARGUMENT, "over HTTP alone"):
                await channel.unary_unary("/rota.v1.Tokens/Create")(b"", timeout=60, metadata=with_key)
            lines = (await ask("Audit/Read", pb.ReadAuditRequest(by="ada"), pb.AuditLines)).entries
            assert [line.what for line in lines] == ["create_token", "rotate_token", "revoke_token"]
            assert [change.HasField("before") for change in lines[0].changes] == [False, False]
            assert {line.origin for line in lines} == {"grpc 127.0.0.1"}
            verdict = await ask("Audit/Verify", pb.VerifyAuditRequest(), pb.AuditVerdict)
            assert (verdict.is_whole, verdict.waiting) == (True, 3)


async def test_a_record_that_an_older_rota_replaces_before_its_digest_is_noted_is_noted_all_the_same(
    store: Store, clock: Time
) -> None:
    """The store does not answer while the record is there; afterwards another one is."""
    first = await create_token(store, clock, "fleet", "node", by="ada")
    note = keys.token_digest(digest(first.token).hex())
    await store.commit(Delete(note))
    entry = await store.get(keys.token("fleet"))
    assert entry is not None
    away = Away(store)
    keeper = Doorkeeper(GATE, clock)
    following = asyncio.create_task(keeper.follow(away))
    try:
        await asyncio.wait_for(away.was_asked.wait(), 60)
        await store.commit(Delete(entry.key))
        away.is_back.set()
        await noted(store, note)
    finally:
        following.cancel()
        await asyncio.wait([following])


class Away(StoreAround):
    """A store that shows what there is, and does not answer what it is asked about notes before it is back."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.was_asked, self.is_back = asyncio.Event(), asyncio.Event()

    async def get(self, key: Key) -> Entry | None:
        if key.startswith(keys.TOKEN_DIGESTS) and not self.is_back.is_set():
            self.was_asked.set()
            raise Unavailable("the store is away")
        return await self._store.get(key)
