"""Every chore of a leader, in a term that is over: it tries to write, and nothing is written.

A chore that is added to `compose` fails here until it has a row, with what makes it write.
"""

import ast
import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest

from rota.compose import jobs as compose_jobs
from rota.compose import member as compose_member
from rota.compose.waits import report_waits
from rota.fleet.audit.sealing import keep_audit
from rota.fleet.core.audit.record import AuditEntry
from rota.fleet.events.event_log import event_put
from rota.fleet.events.retention import keep_events
from rota.fleet.leading.retention import clear_away
from rota.fleet.leading.term import Term
from rota.fleet.members.roster import keep_roster
from rota.jobs.core.records import Cause, JobRecord, JobSpec, Origin, RunRecord, RunState, run_id
from rota.kit.time import virtual
from rota.model import codec, keys
from rota.model.config import EventsConfig, JobsConfig, RetentionConfig, SupervisorConfig
from rota.model.errors import TermOver
from rota.model.ids import NodeId, Revision, SessionId, TermNumber
from rota.model.node import Leader, Roster
from rota.placement.fleet.placing import Placing
from rota.placement.fleet.supervisor import supervise
from rota.relay.fleet.map import keep_relay_map
from rota.resources.core.records import WantedResource
from rota.resources.fleet.declared import Declarations, keep_declared
from rota.resources.fleet.sources import query_sources
from rota.sim.world import EPOCH
from rota.store import At, Put, Store, open_store
from rota.store.port import Expect, Write
from rota.streams.core.spec import StreamSpec, declared
from rota.streams.fleet.keep import keep_streams
from tests.kit.relay_reports import say
from tests.kit.source_fleet import is_there
from tests.kit.supervised import add, declare, member
from tests.kit.virtual_trials import CLOCK

A = NodeId("a")
DAY = timedelta(days=1)


class Counted:
    """A store that counts the commits it is asked for."""

    def __init__(self, store: Store) -> None:
        self._store, self.asked = store, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        self.asked += 1
        return await self._store.commit(*writes, expect=expect)


def nobody(*_: object, **__: object) -> None:
    """Nobody listens."""


# What makes each chore write


async def a_room(store: Store) -> None:
    await declare(store)
    await member(store, A)
    await add(store, "r1")


async def a_kind(store: Store) -> None:
    await declare(store)


async def a_source(store: Store) -> None:
    await member(store, A)
    await is_there(store, A)


async def a_stream(store: Store) -> None:
    spec = StreamSpec.parse(name="s", source="memory://chores", sink="memory://chores", is_async=False)
    await store.commit(Put(keys.STREAMS + "s", codec.encode(declared("app", spec))))


async def a_relay(store: Store) -> None:
    await say(store, A, 0)


async def a_node(store: Store) -> None:
    await member(store, A)


async def anything(store: Store) -> None:
    await store.commit(Put("/x", b""))


async def events(store: Store) -> None:
    for number in range(3):
        put = event_put("leader.elected", "a", {"term": 1}, node=A, at=EPOCH, number=number)
        await store.commit(put)


async def an_entry(store: Store) -> None:
    entry = AuditEntry(id="1", at=EPOCH, by="me", origin="command box", what="cordon_node")
    await store.commit(Put(keys.AUDIT_OPEN + "1", codec.encode(entry)))


async def old_runs(store: Store) -> None:
    for days in (1, 2):
        due = EPOCH - days * DAY
        run = RunRecord(id=run_id("j", due), job="j", due=due, cause=Cause.SCHEDULE, created=due, state=RunState.FAILED)
        await store.commit(Put(keys.run(run.id), codec.encode(run)))


async def a_run_that_waits(store: Store) -> None:
    due = EPOCH - DAY
    run = RunRecord(id=run_id("j", due), job="j", due=due, cause=Cause.SCHEDULE, created=due)
    await store.commit(Put(keys.live_run(run.id), codec.encode(run)))


async def a_job_that_its_app_lost(store: Store) -> None:
    await member(store, A)
    record = JobRecord(spec=JobSpec(name="j"), origin=Origin.APP, since=EPOCH, at=EPOCH, app="app")
    await store.commit(Put(keys.job("j"), codec.encode(record)))


# The chores


async def job_chores(term: Term) -> None:
    async def forget(_: object) -> None:
        """There is no output."""

    state = Mock(logs=Mock(forget=forget, is_shared=False), journal=Mock(tell=nobody))
    async with asyncio.TaskGroup() as duties:
        compose_jobs.chores(duties, state, term, JobsConfig(per_job=1))


def declarations() -> Declarations:
    return Declarations(lambda: [WantedResource(kind="room", id="declared")])


Chore = Callable[[Term], Awaitable[None]]
CHORES: dict[str, tuple[Callable[[Store], Awaitable[None]], Chore]] = {
    "supervisor": (
        a_room,
        lambda term: supervise(term, SessionId("s"), Roster(nodes={}), Placing(SupervisorConfig()), CLOCK, nobody),
    ),
    "sources": (a_source, lambda term: query_sources(term, CLOCK)),
    "declared": (a_kind, lambda term: keep_declared(term, declarations(), CLOCK, nobody)),
    "streams": (a_stream, lambda term: keep_streams(term, CLOCK, nobody)),
    "waits": (a_run_that_waits, lambda term: report_waits(term, A, Placing(SupervisorConfig()))),
    "relay map": (a_relay, lambda term: keep_relay_map(term, nobody)),
    "roster": (a_node, lambda term: keep_roster(term, nobody)),
    "retention": (anything, lambda term: clear_away(term, RetentionConfig())),
    "events": (events, lambda term: keep_events(term, EventsConfig(entries=1))),
    "audit": (an_entry, lambda term: keep_audit(term, DAY)),
    "old runs": (old_runs, job_chores),
    "undeclared jobs": (a_job_that_its_app_lost, job_chores),
}


def started(module: ModuleType, function: str) -> set[str]:
    """The names of the tasks that a function starts."""
    tree = ast.walk(ast.parse(inspect.getsource(module)))
    (found,) = [
        node for node in tree if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function
    ]
    calls = [node for node in ast.walk(found) if isinstance(node, ast.Call)]
    return {word.value.value for call in calls for word in call.keywords if word.arg == "name"}  # type: ignore[attr-defined]


def test_every_chore_of_a_leader_has_a_row() -> None:
    assert started(compose_member, "_lead") | started(compose_jobs, "chores") == CHORES.keys()


@pytest.mark.parametrize("name", CHORES)
def test_a_chore_writes_nothing_in_a_term_that_is_over(name: str) -> None:
    prepare, chore = CHORES[name]

    async def story() -> None:
        async with open_store("memory://", clock=CLOCK) as store:
            await prepare(store)
            counted = Counted(store)
            term = await over(store, counted)
            before = await store.revision()
            with suppress(TimeoutError):
                async with asyncio.timeout(300):
                    await until_refused(chore(term))
            assert counted.asked, "it had nothing to write: this test shows nothing"
            assert await store.revision() == before

    virtual.run(story())


async def over(store: Store, used: Any) -> Term:
    """A term whose holder does not know yet that another leads."""
    record = codec.encode(Leader(node=A, session=SessionId("s"), since=EPOCH))
    incarnation = await store.commit(Put(keys.INCARNATIONS + "x", b""))
    number = await store.commit(Put(keys.LEADER, record))
    term = Term(TermNumber(number), used, Mock(may_act=True), At(keys.INCARNATIONS + "x", incarnation))
    await store.commit(Put(keys.LEADER, record))
    return term


async def until_refused(chore: Awaitable[None]) -> None:
    try:
        await chore
    except* TermOver:
        pass
