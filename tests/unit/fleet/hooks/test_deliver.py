"""Hooks, on the memory store in virtual time: each event to each hook once, tries, and what is given up."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta

from rota.fleet.core.hooks.record import Delivery, Hook, HookFailure, HookStatus
from rota.fleet.events.event_log import EventLog, read
from rota.fleet.hooks.deliver import Collector, Deliverer
from rota.fleet.leading.duties import Duties
from rota.kit.time import virtual
from rota.model import codec, keys
from rota.model.ids import NodeId, SessionId
from rota.store import Delete, Put, Store, incarnation, open_store
from tests.kit.virtual_trials import CLOCK

BEAT = timedelta(seconds=10)


class Fleet:
    """Nodes that collect and deliver."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.log = EventLog(store, NodeId("z"), CLOCK)
        self.sent: list[tuple[str, str, str]] = []
        self.outcomes: Counter[str] = Counter()
        self.trouble: HookFailure | None = None
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, name: str, score: float = 0.0) -> None:
        """One more node."""
        joined, me = await incarnation.current(self.store, CLOCK), NodeId(name)

        async def send(hook: Hook, delivery: Delivery) -> HookFailure | None:
            await asyncio.sleep(0.1)
            self.sent.append((name, hook.name, delivery.event.subject))
            return self.trouble

        async def run() -> None:
            duties = Duties(self.store, me, SessionId(name), joined, CLOCK, lambda: score)
            collector = Collector(self.store, me, joined, CLOCK, BEAT)
            async with asyncio.TaskGroup() as parts:
                parts.create_task(collector.run())
                parts.create_task(duties.every("hooks", BEAT, collector.hold))
                parts.create_task(Deliverer(self.store, me, joined, CLOCK, lambda: score, send, self.outcomes).run())

        self.tasks[name] = asyncio.create_task(run())

    async def add(self, name: str, *events: str, retries: int = 2) -> None:
        made = Hook(name=name, events=list(events), url="http://x", retries=retries, created=CLOCK.wall())
        await self.store.commit(Put(keys.hook(name), codec.encode(made)))

    async def happen(self, *subjects: str, kind: str = "node.offline") -> None:
        for subject in subjects:
            self.log.record(kind, subject)
        await self.log.flush()

    async def status(self, name: str) -> HookStatus:
        entry = await self.store.get(keys.hook_status(name))
        return codec.decode(HookStatus, entry.value) if entry else HookStatus()

    async def outbox(self) -> list[str]:
        return [entry.key for entry in (await self.store.scan(keys.HOOK_OUTBOX)).entries]


def play(story: Callable[[Fleet], Awaitable[None]]) -> None:
    async def main() -> None:
        async with AsyncExitStack() as up:
            fleet = Fleet(await up.enter_async_context(open_store("memory://s", clock=CLOCK)))
            await fleet.start("a", 5.0)
            await fleet.start("b", 50.0)
            await asyncio.sleep(11)
            await story(fleet)
            for task in fleet.tasks.values():
                task.cancel()
            await asyncio.gather(*fleet.tasks.values(), return_exceptions=True)

    virtual.run(main())


def test_each_event_goes_to_each_hook_once_and_soon() -> None:
    async def story(fleet: Fleet) -> None:
        await fleet.add("mail", "node.*")
        await fleet.add("chat", "node.offline")
        await fleet.happen("x", "y")
        await fleet.happen("w", kind="node.joined")
        await asyncio.sleep(2)
        expected = [("chat", "x"), ("chat", "y"), ("mail", "w"), ("mail", "x"), ("mail", "y")]
        assert sorted(each[1:] for each in fleet.sent) == expected
        assert {node for node, *_ in fleet.sent} == {"a"}, "the idlest delivers"
        await asyncio.sleep(120)
        assert len(fleet.sent) == 5
        assert await fleet.outbox() == []
        assert (await fleet.status("mail")).delivered == 3

    play(story)


def test_what_was_before_a_hook_does_not_concern_it() -> None:
    async def story(fleet: Fleet) -> None:
        await fleet.happen("old")
        await fleet.add("mail", "*")
        await fleet.happen("new")
        await asyncio.sleep(30)
        assert [subject for *_, subject in fleet.sent] == ["new"]

    play(story)


def test_nothing_is_lost_and_nothing_doubled_when_collectors_die_and_history_is_cleared() -> None:
    async def story(fleet: Fleet) -> None:
        await fleet.add("mail", "node.*")
        for number in range(12):
            await fleet.happen(f"x{number}")
            if number % 4 == 1:
                for task in fleet.tasks.values():
                    task.cancel()
                await fleet.store.commit(Put("/other", b""))
                await fleet.store.compact(await fleet.store.revision())
            if number % 4 == 3:
                await fleet.start("a")
                await fleet.start("c")
            await asyncio.sleep(4)
        await asyncio.sleep(60)
        assert sorted(subject for *_, subject in fleet.sent) == sorted(f"x{number}" for number in range(12))

    play(story)


def test_what_fails_is_tried_again_and_delivered() -> None:
    async def story(fleet: Fleet) -> None:
        await fleet.add("mail", "node.*")
        fleet.trouble = HookFailure("no answer")
        await fleet.happen("x")
        await asyncio.sleep(3)
        fleet.trouble = None
        await asyncio.sleep(20)
        assert len(fleet.sent) in (2, 3)
        status = await fleet.status("mail")
        assert (status.delivered, status.failed, status.error) == (1, 0, "")

    play(story)


def test_what_fails_always_is_given_up_counted_and_told() -> None:
    async def story(fleet: Fleet) -> None:
        await fleet.add("mail", "*", retries=2)
        fleet.trouble = HookFailure("no answer")
        await fleet.happen("x")
        await asyncio.sleep(60)
        assert len(fleet.sent) == 3
        status = await fleet.status("mail")
        assert (status.delivered, status.failed, status.error) == (0, 1, "no answer")
        assert fleet.outcomes == {"failed": 2, "given up": 1}
        told = (await read(fleet.store, kinds=["hook.failed"])).events
        assert [(each.subject, each.fields["attempts"]) for each in told] == [("mail", 3)]
        assert await fleet.outbox() == []

    play(story)


def test_a_delivery_whose_node_died_is_taken_over() -> None:
    async def story(fleet: Fleet) -> None:
        await fleet.add("mail", "node.*")
        await fleet.happen("x")
        await asyncio.sleep(0.12)  # the idlest has claimed it, and is at it
        assert await fleet.outbox() != []
        fleet.tasks["a"].cancel()
        await asyncio.sleep(1)
        assert fleet.sent == []
        await asyncio.sleep(25)
        assert fleet.sent == [("b", "mail", "x")]

    play(story)


def test_what_waits_for_a_hook_that_is_gone_goes_too() -> None:
    async def story(fleet: Fleet) -> None:
        await fleet.add("mail", "node.*")
        fleet.trouble = HookFailure("no answer")
        await fleet.happen("x")
        await asyncio.sleep(1)
        await fleet.store.commit(Delete(keys.hook("mail")))
        await asyncio.sleep(20)
        assert await fleet.outbox() == []

    play(story)
