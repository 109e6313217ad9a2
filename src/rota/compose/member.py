"""A node's part in its fleet: it opens the store, is a member in one session after the other, and may lead."""

import asyncio
import logging
from collections.abc import Iterable

from rota import __version__
from rota.compose.doors import tls_files
from rota.compose.jobs import chores, take_part
from rota.compose.parts import NodeParts
from rota.compose.peers import live_together
from rota.compose.runtime import Runtime
from rota.compose.waits import report_waits
from rota.fleet.audit.sealing import keep_audit
from rota.fleet.core.access.gate import mark
from rota.fleet.core.members.identity import FleetClaim
from rota.fleet.events.event_log import EventLog
from rota.fleet.events.retention import keep_events
from rota.fleet.leading.leader import LeaderCandidate
from rota.fleet.leading.retention import clear_away
from rota.fleet.leading.term import Term
from rota.fleet.members.identity import keep_app_known, wait_to_belong
from rota.fleet.members.roster import keep_roster, last_roster
from rota.fleet.members.session import Identity, NodeSession, in_session
from rota.fleet.members.status import publish_kinds, publish_status, publish_streams
from rota.jobs.fleet.retention import keep_logs
from rota.jobs.logs.open import open_logs
from rota.placement.fleet.supervisor import supervise
from rota.relay.fleet.map import keep_relay_map
from rota.relay.node.status import join_relays
from rota.resources.fleet.declared import keep_declared
from rota.resources.fleet.sources import query_sources
from rota.resources.node.assignments import follow_assignments
from rota.resources.node.queries import answer_queries
from rota.runtime.pipes.brief import Order
from rota.runtime.system import kernel
from rota.store import Store, open_store
from rota.store.leases.keeper import LeaseKeeper
from rota.store.leases.renewal import renewal_thread
from rota.streams.fleet.keep import keep_streams

log = logging.getLogger(__name__)


class FleetMember:
    """One node in the fleet."""

    def __init__(self, parts: NodeParts) -> None:
        self._parts, self._state, self._settings, self._clock = parts, parts.state, parts.settings, parts.clock

    async def run(self) -> None:
        """Take part in the fleet, in one session after the other."""
        parts, state = self._parts, self._state
        url = self._settings.node.store
        async with (
            open_store(url, clock=self._clock, waits=True) as store,
            renewal_thread(url, self._clock) as renewals,
        ):
            await wait_to_belong(store, state.id, self._claim(), self._clock)
            state.store = store
            # Not earlier: if the node cannot start, only the reason for that is logged.
            if parts.new_token:
                log.info("token made", extra={"node": state.id, "file": str(parts.new_token)})
            if (user := parts.commands.confinement.user) and self._settings.commands.user is None:
                log.info("commands that come over the API do not run as root", extra={"node": state.id, "user": user})
            events = EventLog(store, state.id, self._clock)
            state.journal.write_to(events)
            async with asyncio.TaskGroup() as tasks:
                writing = [
                    tasks.create_task(events.run(), name="events"),
                    tasks.create_task(parts.doorkeeper.follow(store), name="tokens"),
                    tasks.create_task(
                        parts.doorkeeper.follow_revoked(store, self._revoke), name="revoked certificates"
                    ),
                    tasks.create_task(state.sessions.follow(store), name="sessions"),
                    tasks.create_task(state.notes.write(store), name="audit notes"),
                ]
                own = parts.folder.path / "logs"
                state.logs = open_logs(self._settings.jobs.logs, self._settings.node.store, store, own)
                old_logs = keep_logs(store, state.logs, self._settings.jobs, state.journal.tell)
                writing.append(tasks.create_task(old_logs, name="old output"))
                if state.runtime is not None:
                    writing.append(tasks.create_task(state.runtime.logs.keep(state.logs), name="logs"))
                try:
                    await parts.doorkeeper.has_asked.wait()  # other nodes call as soon as they know of this one
                    await in_session(
                        store,
                        self._identity(),
                        self._clock,
                        lambda session: self._in_session(store, session),
                        aside=renewals,
                    )
                finally:
                    state.store = state.logs = None
                    if state.runtime is not None:
                        state.runtime.lending.store = None
                    await state.watches.close()
                    for part in writing:
                        part.cancel()

    def _claim(self) -> FleetClaim:
        return FleetClaim(self._settings.node.fleet, self._app_name())

    def _app_name(self) -> str | None:
        return self._state.runtime.status().app if self._state.runtime else None

    def _identity(self) -> Identity:
        config, state = self._settings.node, self._state
        return Identity(
            node=state.id,
            home=self._parts.folder.home,
            role=config.role,
            lease_ttl=config.lease_ttl,
            http=state.doors.get("http", ""),
            grpc=state.doors.get("grpc", ""),
            labels=config.labels,
            slots=config.slots,
            executors=state.runtime.executors if state.runtime else 0,
            version=__version__,
            insecure=config.insecure,
            claim=self._claim(),
            network=kernel.network_name(),
            token_mark=mark(self._parts.token()),
            is_advertised_by_hand=config.advertise is not None,
            has_own_token=config.token is None,
        )

    async def _in_session(self, store: Store, session: NodeSession) -> None:
        parts, state, node = self._parts, self._state, session.node
        state.session = session
        try:
            async with asyncio.TaskGroup() as tasks:
                if runtime := state.runtime:
                    work = _Work(runtime, session.keeper)
                    tasks.create_task(follow_assignments(store, node.id, work), name="assignments")
                    answers = answer_queries(
                        store, node.id, session.incarnation, runtime, self._clock, state.journal.tell
                    )
                    tasks.create_task(answers, name="queries")
                    naming = keep_app_known(store, node.id, self._app_name, self._clock)
                    tasks.create_task(naming, name="fleet")
                    tasks.create_task(publish_kinds(store, session, runtime.kinds), name="kinds")
                    tasks.create_task(publish_streams(store, session, runtime.streams), name="streams")
                    runtime.lending.store, runtime.lending.lease = store, session.keeper.lease
                    tasks.create_task(runtime.saves.write(store, node.id), name="saves")
                    tasks.create_task(publish_status(store, session, runtime.status), name="status")
                    if runtime.relay is not None:
                        tasks.create_task(join_relays(store, session, runtime.relay, self._clock), name="relays")
                live_together(
                    tasks,
                    state,
                    store,
                    session,
                    self._settings.peers,
                    parts.commands,
                    parts.token,
                    tls_files(parts.certificates),
                    parts.doorkeeper.is_revoked,
                )
                take_part(tasks, state, store, session, parts.file_jobs, self._settings.peers)
                if node.role.may_lead:
                    candidate = LeaderCandidate(
                        store, session.keeper, session.incarnation, node.id, node.session, self._clock, self._lead
                    )
                    tasks.create_task(candidate.run(), name="candidate")
                else:
                    await asyncio.Event().wait()
        finally:
            state.session = state.peers = state.duties = state.jobs = None
            if state.runtime is not None:
                state.runtime.lending.lease = None
                state.runtime.end_session()

    async def _lead(self, term: Term) -> None:
        state, settings = self._state, self._settings
        state.term = term
        state.journal.tell("leader.elected", state.id, term=term.number)
        try:
            roster = await last_roster(term)  # before this node's own takes its place
            async with asyncio.TaskGroup() as duties:
                watch = supervise(
                    term,
                    state.session_id,
                    roster,
                    self._parts.placing,
                    self._clock,
                    state.journal.tell,
                )
                duties.create_task(watch, name="supervisor")
                duties.create_task(query_sources(term, self._clock), name="sources")
                declared = keep_declared(term, state.declared, self._clock, state.journal.tell)
                duties.create_task(declared, name="declared")
                duties.create_task(keep_streams(term, self._clock, state.journal.tell), name="streams")
                duties.create_task(report_waits(term, state.id, self._parts.placing), name="waits")
                duties.create_task(keep_relay_map(term, state.journal.tell), name="relay map")
                duties.create_task(keep_roster(term, state.journal.tell), name="roster")
                duties.create_task(clear_away(term, self._settings.retention), name="retention")
                duties.create_task(keep_events(term, self._settings.events), name="events")
                duties.create_task(keep_audit(term, self._settings.retention.audit), name="audit")
                chores(duties, state, term, settings.jobs)
        finally:
            state.term = None

    def _revoke(self) -> None:
        """Report revoked certificates to the relay; the doors ask the doorkeeper."""
        if self._state.runtime is not None and (relay := self._state.runtime.relay) is not None:
            relay.revoke(self._parts.doorkeeper.revoked)


class _Work:
    """The runtime within one session: it runs the session's assignments, and exclusive work only under the lease."""

    def __init__(self, runtime: Runtime, keeper: LeaseKeeper) -> None:
        self._runtime, self._keeper = runtime, keeper
        self.runs, self.running, self.returned = runtime.runs, runtime.tasks.running, runtime.returned

    def want(self, orders: Iterable[Order]) -> None:
        keeper = self._keeper
        self._runtime.want(orders)
        keeper.notify(lambda: self._runtime.extend(keeper.safe_until, keeper.ttl))
