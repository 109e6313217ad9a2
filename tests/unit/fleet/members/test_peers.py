"""The other nodes: links that come and go, checks, strikes and who is online; in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import cast

from rota.fleet.events.event_log import read
from rota.fleet.members.health import HealthKeeper
from rota.fleet.members.peers import Peers, check_peers
from rota.fleet.members.session import NodeSession, in_session
from rota.kit.record import replace
from rota.kit.time import virtual
from rota.link.port import NodeLink, NotMe
from rota.link.records import Presence, Whom
from rota.model import codec, keys
from rota.model.config import PeersConfig
from rota.model.errors import Denied, Unavailable
from rota.model.ids import NodeId, SessionId
from rota.model.node import Node
from rota.model.peers import NodeHealth, Strikes
from rota.store import Store, open_store
from tests.kit.identities import identity
from tests.kit.virtual_trials import CLOCK

CONFIG = PeersConfig()
EVERY = CONFIG.check_every


class FakeLink:
    """A way that leads nowhere while its fleet says so."""

    def __init__(self, fleet: "Fleet", source: str, node: Node) -> None:
        self._fleet, self._source, self._node = fleet, source, node

    async def check(self, *, timeout: timedelta | None = None) -> Presence | None:
        self._fleet.checks += 1
        if error := self._fleet.trouble.get((self._source, self._node.id)):
            raise error
        return None


class Fleet:
    """Nodes that check each other over links of the test's own."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.trouble: dict[tuple[str, str], Exception] = {}
        self.peers: dict[str, Peers] = {}
        self.told: list[tuple[str, str]] = []
        self.open: list[tuple[str, str]] = []
        self.checks = 0
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str) -> None:
        """One more node."""

        async def body(session: NodeSession) -> None:
            peers = self.peers[name] = Peers(NodeId(name), lambda node: self._link(name, node))
            keeper = HealthKeeper(self.store, NodeId(name), session.incarnation, CLOCK, EVERY)
            async with asyncio.TaskGroup() as parts:
                parts.create_task(peers.follow(self.store))
                parts.create_task(peers.follow_health(self.store))
                parts.create_task(check_peers(self.store, session, peers, CONFIG, CLOCK, self._tell))
                while True:
                    await asyncio.sleep(EVERY.total_seconds())
                    await keeper.tend(0)

        called = replace(identity(name, home=name), grpc=f"{name}:1")
        self.tasks[name] = asyncio.create_task(in_session(self.store, called, CLOCK, body))

    def silence(self, name: str, by: str = "abcd") -> None:
        """Have a node not answer some of the others."""
        self.trouble.update({(other, name): Unavailable("no answer") for other in by})

    async def struck(self) -> dict[str, int]:
        """Whose key holds how many strikes."""
        entries = (await self.store.scan(keys.STRIKES)).entries
        found = {entry.key.removeprefix(keys.STRIKES): codec.decode(Strikes, entry.value) for entry in entries}
        return {key: len(each.at) for key, each in found.items()}

    async def online(self, name: str) -> bool:
        entry = await self.store.get(keys.node_health(NodeId(name)))
        assert entry is not None
        return codec.decode(NodeHealth, entry.value).is_online

    async def transitions(self) -> list[tuple[str, str]]:
        """What was told of nodes that went offline or came back."""
        kinds = ["node.offline", "node.online"]
        return [(happened.kind, happened.subject) for happened in (await read(self.store, kinds=kinds)).events]

    @asynccontextmanager
    async def _link(self, source: str, node: Node) -> AsyncIterator[NodeLink]:
        self.open.append((source, node.id))
        yield cast(NodeLink, FakeLink(self, source, node))
        self.open.remove((source, node.id))

    def _tell(self, kind: str, subject: str, **_: object) -> None:
        self.told.append((kind, subject))


def play(names: str, story: Callable[[Fleet], Awaitable[None]]) -> None:
    """A story of some nodes that know each other."""

    async def main() -> None:
        async with open_store("memory://s", clock=CLOCK) as store:
            fleet = Fleet(store)
            for name in names:
                fleet.start(name)
            await asyncio.sleep(25)
            await story(fleet)
            for task in fleet.tasks.values():
                task.cancel()
            await asyncio.gather(*fleet.tasks.values(), return_exceptions=True)
            assert fleet.open == [], "every link is closed in the end"

    virtual.run(main())


def test_there_is_one_link_for_each_other_member_and_none_for_those_that_left() -> None:
    async def story(fleet: Fleet) -> None:
        peers = fleet.peers["a"]
        assert peers.link(NodeId("b")) is not None
        assert peers.link(NodeId("a")) is None
        assert len(fleet.open) == 6
        fleet.tasks["b"].cancel()
        await asyncio.sleep(1)
        assert peers.link(NodeId("b")) is None
        assert sorted(fleet.open) == [("a", "c"), ("c", "a")]

    play("abc", story)


def test_where_all_is_well_nothing_is_written() -> None:
    async def story(fleet: Fleet) -> None:
        before, checks = await fleet.store.revision(), fleet.checks
        await asyncio.sleep(120)
        assert await fleet.store.revision() == before
        assert fleet.checks > checks + 6 * 9

    play("abc", story)


def test_a_node_that_does_not_answer_is_offline_after_three_checks_and_back_at_its_first_answer() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.silence("b")
        await asyncio.sleep(15)
        assert await fleet.online("b")
        assert (await fleet.struck()).keys() == {"b/a", "b/c"}
        await asyncio.sleep(30)
        assert await fleet.struck() == {"b/a": 3, "b/c": 3}
        assert not await fleet.online("b")
        assert fleet.peers["a"].weight(NodeId("b"), CLOCK.wall(), EVERY) == 0.0
        revision = await fleet.store.revision()
        await asyncio.sleep(60)
        assert await fleet.store.revision() == revision, "nothing new is said of it"
        fleet.trouble.clear()
        await asyncio.sleep(22)
        assert await fleet.struck() == {}
        assert await fleet.online("b")
        assert await fleet.transitions() == [("node.offline", "b"), ("node.online", "b")]
        assert 0 < fleet.peers["a"].weight(NodeId("b"), CLOCK.wall(), timedelta(hours=1)) < 1

    play("abc", story)


def test_one_blip_makes_nobody_offline() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.silence("b")
        await asyncio.sleep(9)
        fleet.trouble.clear()
        await asyncio.sleep(60)
        assert await fleet.transitions() == []

    play("abcd", story)


def test_who_reaches_nobody_says_so_once_and_strikes_nobody() -> None:
    async def story(fleet: Fleet) -> None:
        for other in "bc":
            fleet.silence(other, by="a")
        await asyncio.sleep(60)
        assert await fleet.struck() == {}
        assert fleet.told == [("node.cut_off", "a")]

    play("abc", story)


def test_two_that_do_not_reach_each_other_stay_online_and_leave_each_other_out() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.silence("b", by="a")
        fleet.silence("a", by="b")
        await asyncio.sleep(60)
        assert await fleet.transitions() == []
        assert fleet.peers["a"].weight(NodeId("b"), CLOCK.wall(), EVERY) == 0.0
        assert fleet.peers["c"].weight(NodeId("b"), CLOCK.wall(), EVERY) == 1.0

    play("abc", story)


def test_a_stranger_at_the_address_and_a_wrong_token_are_no_strikes() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.trouble["a", "b"] = NotMe(Whom(node=NodeId("b")), NodeId("z"), SessionId("z1"))
        fleet.trouble["a", "c"] = Denied("who are you?")
        await asyncio.sleep(60)
        assert await fleet.struck() == {}

    play("abc", story)


def test_a_node_that_left_is_offline_and_online_when_it_is_back() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.tasks["b"].cancel()
        await asyncio.sleep(15)
        assert not await fleet.online("b")
        fleet.start("b")
        await asyncio.sleep(15)
        assert await fleet.transitions() == [("node.offline", "b"), ("node.online", "b")]

    play("abc", story)


def test_who_is_doubted_is_checked_at_once() -> None:
    async def story(fleet: Fleet) -> None:
        fleet.silence("b", by="a")
        fleet.peers["a"].doubt()
        await asyncio.sleep(1.5)
        assert await fleet.struck() == {"b/a": 1}

    play("abc", story)
