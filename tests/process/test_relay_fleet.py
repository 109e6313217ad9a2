"""Relays of a fleet: replicas on several nodes, one copy of each message in RabbitMQ, whatever dies."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rota.fleet.doors.certificates import revoke_certificates
from rota.kit.time.clock import SYSTEM
from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.relay.core.records import RelayMap, SinkState
from rota.sinks import Message
from rota.store import Store, open_store
from tests.kit import rabbit
from tests.kit.certificates import Authority, serial
from tests.kit.emitters import emit_from, emitting, gaps, numbers_of, relays
from tests.kit.fleet import stop_all
from tests.kit.node import NodeUnderTest, workers
from tests.kit.server_pool import ServerPool
from tests.kit.servers import RabbitMQ
from tests.kit.sinks import RabbitHarness
from tests.kit.waiting import eventually

pytestmark = pytest.mark.needs("rabbitmq")

ROOMS = [str(number) for number in range(20)]


@pytest.fixture
def place(servers: ServerPool, tmp_path: Path) -> Iterator[RabbitHarness]:
    """An exchange with a queue on a RabbitMQ that nobody hurts."""
    place = RabbitHarness(tmp_path, servers.get(RabbitMQ, "steady"))
    yield place
    place.close()


@pytest.fixture
def victim(servers: ServerPool, tmp_path: Path) -> Iterator[RabbitHarness]:
    """The same on one that may be hurt."""
    place = RabbitHarness(tmp_path, servers.get(RabbitMQ, "victim"))
    yield place
    place.rabbit.recover()
    place.close()


class Nodes:
    """Nodes on one store, with one token."""

    def __init__(
        self,
        folder: Path,
        sink: str,
        store: Store,
        stack: ExitStack,
        settings: dict[str, str],
        authority: Authority | None = None,
    ) -> None:
        self.folder, self.sink, self.store, self.authority = folder, sink, store, authority
        self._stack, self._settings = stack, settings
        self.nodes: dict[str, NodeUnderTest] = {}
        self._token = folder / "token"
        self._token.write_text("a-token-that-all-nodes-of-this-fleet-share\n")
        self._token.chmod(0o600)

    async def add(self, *names: str) -> NodeUnderTest:
        """More nodes, started together and ready; the last of them."""
        for name in names:
            self.nodes[name] = self._stack.enter_context(self._node(name))
        for name in names:
            await self.nodes[name].ready()
        return self.nodes[names[-1]]

    def _node(self, name: str) -> NodeUnderTest:
        url, flags = f"sqlite:///{self.folder}/rota.db", ["--token", f"file:{self._token}"]
        if self.authority is not None:
            known = NodeUnderTest(self.folder / name, name=name).name
            flags += ["--tls", str(self.authority.issue(known))]
        return emitting(self.folder / name, self.sink, *flags, name=name, store=url, **self._settings)

    async def map_of(self, *names: str) -> RelayMap:
        """The relay map, once it names these nodes and all relays go by it."""
        wanted = tuple(sorted(self.nodes[name].name for name in names))

        async def look() -> RelayMap | None:
            entry = await self.store.get(keys.RELAY_MAP)
            found = codec.decode(RelayMap, entry.value) if entry else None
            if found is None or found.nodes != wanted:
                return None
            statuses = [status for node, status in (await relays(self.store)).items() if node in wanted]
            is_settled = all(one.map_version == found.version and not one.is_moving for one in statuses)
            return found if is_settled and len(statuses) == len(wanted) else None

        return await eventually(look, within=60)


@asynccontextmanager
async def fleet(
    folder: Path, sink: str, names: str = "ab", authority: Authority | None = None, **settings: str
) -> AsyncIterator[Nodes]:
    async with open_store(f"sqlite:///{folder}/rota.db") as store:
        with ExitStack() as stack:
            found = Nodes(folder, sink, store, stack, settings, authority)
            await found.add(*names)
            yield found
            stop_all(found.nodes.values())
        for node in found.nodes.values():
            await eventually(lambda node=node: not node.leftovers())


def check_whole(messages: list[Message], *, may_repeat: bool = False) -> None:
    """No tick of a room is missing, and none is there twice."""
    for room in ROOMS:
        numbers = numbers_of(messages, room)
        assert gaps(numbers) == []
        if not may_repeat:
            assert len(numbers) == len(set(numbers))


async def has_grown(place: RabbitHarness, by: int = 400) -> None:
    """Wait for so many more messages."""
    before = await asyncio.to_thread(rabbit.count, place.rabbit.port, place.queue)
    await eventually(lambda: rabbit.count(place.rabbit.port, place.queue) > before + by, within=60)


async def stopped(found: Nodes) -> None:
    """Every node stopped in good order."""
    await asyncio.gather(*(asyncio.to_thread(node.stop, within=60) for node in found.nodes.values()))


async def have_lines(found: Nodes) -> None:
    """Every relay has a line from the worker of its node, and one from the other relay."""

    async def look() -> bool:
        return all(status.lines >= 2 for status in (await relays(found.store)).values())

    await eventually(look)


async def kill_hosts(node: NodeUnderTest) -> None:
    """Kill a node's hosts; return when their tasks run again in others."""
    before = workers(await node.status(), "host")
    for pid in before:
        os.kill(pid, signal.SIGKILL)

    def is_back(status: dict[str, Any]) -> bool:
        now = workers(status, "host")
        return len(now) == len(before) and not {*before} & {*now} and status["work"]["tasks_running"] == len(ROOMS)

    await node.until(is_back)


async def test_two_replicas_emit_and_each_message_is_there_once(place: RabbitHarness, tmp_path: Path) -> None:
    async with fleet(tmp_path, place.url()) as found:
        await found.map_of("a", "b")
        await emit_from(found.store, "ticker", ROOMS)
        await has_grown(place, 2000)
        await have_lines(found)
        await stopped(found)
        messages = place.arrived()
        check_whole(messages)
        by_node = {name: [one for one in messages if one.node == name] for name in {one.node for one in messages}}
        assert len(by_node) == 2, "only one node's copies went out"
        for copies in by_node.values():
            for room in ROOMS:
                assert numbers_of(copies, room) == sorted(numbers_of(copies, room))


async def test_relays_join_and_leave_and_nothing_is_repeated(place: RabbitHarness, tmp_path: Path) -> None:
    async with fleet(tmp_path, place.url()) as found:
        await found.map_of("a", "b")
        await emit_from(found.store, "ticker", ROOMS)
        await has_grown(place)
        await found.add("c")
        await found.map_of("a", "b", "c")
        await has_grown(place)
        leaving = found.nodes.pop("c")
        await asyncio.to_thread(leaving.stop, within=60)
        await found.map_of("a", "b")
        await has_grown(place)
        await stopped(found)
        check_whole(place.arrived())
        assert "relay unsent" not in leaving.errors.read_text()


async def test_a_worker_that_is_killed_costs_nothing_while_another_replica_lives(
    place: RabbitHarness, tmp_path: Path
) -> None:
    async with fleet(tmp_path, place.url()) as found:
        await found.map_of("a", "b")
        await emit_from(found.store, "ticker", ROOMS)
        for name in "aba":
            await has_grown(place)
            await kill_hosts(found.nodes[name])
        await has_grown(place, 1000)
        await stopped(found)
        check_whole(place.arrived())


async def test_a_relay_that_is_killed_repeats_with_equal_ids_and_loses_nothing(
    place: RabbitHarness, tmp_path: Path
) -> None:
    async with fleet(tmp_path, place.url()) as found:
        await found.map_of("a", "b")
        await emit_from(found.store, "ticker", ROOMS)
        for name in "ab":
            await has_grown(place)
            status = await found.nodes[name].status()
            os.kill(status["processes"]["relay"], signal.SIGKILL)
        await has_grown(place, 1000)
        await stopped(found)
        messages = place.arrived()
        check_whole(messages, may_repeat=True)
        assert len({one.id for one in messages}) == len({(one.resource, one.key) for one in messages})


async def test_a_node_that_is_killed_is_left_out_and_the_others_go_on(place: RabbitHarness, tmp_path: Path) -> None:
    async with fleet(tmp_path, place.url(), "abc", ttl="4s") as found:
        await found.map_of("a", "b", "c")
        await emit_from(found.store, "ticker", ROOMS)
        await has_grown(place)
        found.nodes["c"].kill()
        await found.map_of("a", "b")
        await has_grown(place, 1000)
        await stopped(found)
        check_whole(place.arrived(), may_repeat=True)


async def test_a_broker_that_is_away_only_delays(victim: RabbitHarness, tmp_path: Path) -> None:
    async with fleet(tmp_path, victim.url()) as found:
        await found.map_of("a", "b")
        await emit_from(found.store, "counter", ["1", "2", "3", "4"], count=4000, pause=0.5)
        await has_grown(victim, 500)
        await asyncio.to_thread(victim.rabbit.kill)

        async def is_spooling() -> bool:
            sinks = [sink for status in (await relays(found.store)).values() for sink in status.sinks]
            return any(sink.state == SinkState.DOWN and sink.spool_messages > 500 for sink in sinks)

        await eventually(is_spooling, within=30)
        await asyncio.to_thread(victim.rabbit.start)
        done = 4 * 4000
        await eventually(lambda: rabbit.count(victim.rabbit.port, victim.queue) >= done, within=60)
        await stopped(found)
        messages = victim.arrived()
        first_copies = list({one.id: one for one in messages}.values())
        for one in ("1", "2", "3", "4"):
            assert numbers_of(first_copies, one) == list(range(4000))
        assert len(messages) - len(first_copies) <= 2 * 1000, "more repeats than were under way"


async def test_a_full_spool_makes_emit_wait_and_what_was_spooled_outlives_the_node(
    victim: RabbitHarness, tmp_path: Path
) -> None:
    await asyncio.to_thread(victim.rabbit.kill)
    small = {"spool_bytes": "64KiB", "held_messages": "100", "outbox_messages": "100", "drain": "5s"}
    async with fleet(tmp_path, victim.url(), "a", **small) as found:
        node = found.nodes["a"]
        await emit_from(found.store, "counter", ["1"], count=5000)

        async def is_full() -> bool:
            sinks = [sink for status in (await relays(found.store)).values() for sink in status.sinks]
            return any("64" in sink.last_error or "65536" in sink.last_error for sink in sinks)

        await eventually(is_full, within=30)
        assert not [words for words in node.notes() if words[0] == "done"], "emit did not wait"
        assert (await node.status())["work"]["tasks_running"] == 1, "a task that waits in emit is alive"
        await asyncio.to_thread(node.stop, within=60)
        assert "relay unsent" in node.errors.read_text()
        spooled = list((node.data / "relay").glob("*/*.segment"))
        assert spooled
        await asyncio.to_thread(victim.rabbit.start)
        again = await found.add("a")
        await eventually(lambda: [words for words in again.notes() if words[0] == "done"], within=30)
        await stopped(found)
        assert sorted(set(numbers_of(victim.arrived(), "1"))) == list(range(5000))


async def test_what_an_exclusive_task_says_is_never_mixed_with_what_its_successor_says(
    place: RabbitHarness, tmp_path: Path
) -> None:
    async with fleet(tmp_path, place.url(), "abc", ttl="4s") as found:
        await found.map_of("a", "b", "c")
        await emit_from(found.store, "single", ["1", "2", "3"])
        await has_grown(place, 300)
        await asyncio.to_thread(found.nodes.pop("a").stop, within=60)
        await has_grown(place, 300)
        found.nodes["b"].kill()
        await has_grown(place, 300)
        await stopped(found)
        messages = place.arrived()
        assert len({(one.resource, one.payload) for one in messages}) > 3, "nobody took over"
        for room in ("1", "2", "3"):
            spoken = [tuple(map(int, one.key.split("."))) for one in messages if one.resource == room]
            first_copies = list(dict.fromkeys(spoken))
            assert first_copies == sorted(first_copies), "an earlier epoch spoke after a later one"
            for epoch in {epoch for epoch, _ in first_copies}:
                assert gaps(number for each, number in first_copies if each == epoch) == []


async def test_relays_with_certificates_do_the_same_and_let_go_of_one_that_is_revoked(
    place: RabbitHarness, tmp_path: Path
) -> None:
    async with fleet(tmp_path, place.url(), authority=Authority(tmp_path / "tls")) as found:
        await found.map_of("a", "b")
        await emit_from(found.store, "ticker", ROOMS)
        await has_grown(place, 2000)
        await have_lines(found)
        revoked = serial(tmp_path / "tls" / found.nodes["b"].name)
        await revoke_certificates(found.store, SYSTEM, found.nodes["b"].name, [(revoked, None)], by="ada")

        async def is_let_go() -> bool:
            return (await relays(found.store))[NodeId(found.nodes["a"].name)].lines < 2

        await eventually(is_let_go, within=30)
        await stopped(found)
