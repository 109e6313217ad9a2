"""The runtime of a node: everything that runs the app's code, behind one door.

It holds the crew, the tasks, the attempts and the reloads together, and says what posts they ask for in sum. It knows
the fleet only by what it is handed: orders, attempts, and until when exclusive work may go on.
"""

import asyncio
import contextlib
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from rota.decide.crew import Phase
from rota.decide.restart import RestartPolicy
from rota.kit import durations
from rota.kit.clock import Clock
from rota.kit.record import replace
from rota.model.config import JobsConfig, RuntimeConfig
from rota.model.errors import RotaError
from rota.model.ids import Instant, NodeId
from rota.model.job import WantedJob
from rota.model.node import NodeStatus, PoolStatus, together
from rota.model.relay import ResourceTally
from rota.model.resource import KindRecord
from rota.model.stream import StreamRecord
from rota.node import kernel, posts
from rota.node.crew import Crew
from rota.node.generations import Generations
from rota.node.journal import Tell
from rota.node.lending import Lending
from rota.node.loaders import LoadError, Target
from rota.node.logs import RunLogs
from rota.node.pipes import Deadline, Loaded, Order
from rota.node.posts import Post
from rota.node.relay.hold import RelayHold, RelayPlace
from rota.node.reload import Reloads
from rota.node.runs import Runs
from rota.node.saves import Saves
from rota.node.services import Services
from rota.node.stacks import Stacks
from rota.node.tasks import Tasks
from rota.workloads.jobs.wanted import wanted
from rota.workloads.streams.spec import declared
from rota.workloads.summary import ResourceSummary

log = logging.getLogger(__name__)

FAILING, FAILING_REASON = 50, 200
"""Failing tasks that a node's status names, and characters of each reason: every node's status is read often."""

TICK = 0.5
"""Seconds between looks at what waits for its time."""

HAND_OVER = 2.0
"""Seconds that the relay has to hand over before it ends, if workers took all the time there was."""

GOODBYE = 1.0
"""Seconds for proxies to say goodbye to their clients."""


class SourceFailed(RotaError):
    """A source gave no list; the message says why."""


class Runtime:
    """The work of one node."""

    def __init__(
        self,
        target: Target,
        config: RuntimeConfig,
        clock: Clock,
        tell: Tell,
        stacks: Path,
        policy: RestartPolicy | None = None,
        relay: RelayPlace | None = None,
        jobs: JobsConfig | None = None,
    ) -> None:
        policy, jobs = policy or RestartPolicy(), jobs or JobsConfig()
        self.is_draining = False
        self.generations = Generations(target, config.load_timeout, policy, clock, tell, self.reload_soon)
        self.crew = Crew(self.generations, config, policy, clock, tell, Stacks(stacks, clock))
        self.saves = Saves()
        self.crew.witnesses.append(self.saves)
        self.tasks = Tasks(self.crew, clock, policy, config.grace, self._post, self.saves.newest, tell)
        self.logs = RunLogs(jobs.log_bytes, clock)
        self.attempts = Runs(self.crew, config, self.logs, clock, self._post)
        self.lending = Lending()
        self.crew.witnesses.append(self.lending)
        self.services = Services(self.crew, target.node, policy, clock, tell, self._post, config.drain)
        self.relay: RelayHold | None = None
        """What takes emitted messages to their sinks; None if this node has no place for it."""

        if relay is not None:
            workers = self.crew.workers.values
            self.relay = RelayHold(NodeId(target.node), relay, policy, clock, tell, workers)
            self.crew.witnesses.append(self.relay)
            self.crew.emitting = relay.emitting
        self.reloads = Reloads(self.crew, config, tell, self._post, self._canaries)
        self._config, self._clock = config, clock
        self._queries = itertools.count(1)

    @property
    def is_ready(self) -> bool:
        """Is everything manned that the app asks for, and does every service listen?"""
        return self.crew.is_settled() and not self.services.not_listening()

    @property
    def executors(self) -> int:
        """How many attempts may run at a time."""
        return self._config.executors

    async def load(self) -> None:
        """Import the app for the first time; LoadError if it cannot be."""
        number = self.reloads.number()
        await self._load_kept_or_files(number)
        self.generations.settle_on(number, None)
        self._post()

    async def _load_kept_or_files(self, number: int) -> None:
        """Import the app's files, or the code that an earlier life went back to, if they are what it left."""
        kept, app = self.generations.target.kept, self.generations.target.app
        if not kept.find(app, number):
            await self.generations.load(number, self.crew)
        elif not kept.is_outdated:
            log.warning("the code that was gone back to is loaded, not the files on disk; rota reload takes those in")
            try:
                await self.generations.load(number, self.crew)
            except LoadError as error:
                log.warning("the code that was kept cannot be loaded", extra={"why": str(error)})
                kept.drop()
                await self.generations.load(number, self.crew)
        else:
            kept.pass_over()
            try:
                await self.generations.load(number, self.crew)
            except LoadError as error:
                kept.find(app, number)
                log.error("the app cannot be loaded; the code that was gone back to is", extra={"why": str(error)})
                await self.generations.load(number, self.crew)
            else:
                kept.drop()

    async def run(self, progress: Callable[[], None] = lambda: None) -> None:
        """Keep the crew, for ever; `progress` is called at each turn."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self.crew.run(lambda: self._turn(progress)), name="crew")
            loops.create_task(self._tick(), name="ticks")
            loops.create_task(self.attempts.run(), name="attempts")
            if self.relay is not None:
                loops.create_task(self.relay.watch(), name="relay")

    def _turn(self, progress: Callable[[], None]) -> None:
        progress()
        self.services.update()
        if self.relay is not None:
            self.relay.mend()

    def want(self, orders: Iterable[Order]) -> None:
        """Run exactly these tasks from now on."""
        if not self.is_draining:
            self.tasks.want(orders)
            self.saves.forget_all_but({*self.tasks.orders, *self.tasks.returned})
            self._post()

    def reload_soon(self) -> None:
        """Take in the code as it is now, without a caller; after the reload that is under way, if there is one."""
        self.reloads.reload_soon()

    def end_session(self) -> None:
        """The lease is gone or given back: end exclusive work and attempts now. The rest runs on."""
        self.crew.extend(None)
        self.attempts.end_session()
        self.tasks.want([order for order in self.tasks.orders.values() if not order.is_exclusive])
        self._post()
        self.crew.kill_exclusive("the session ended")

    def extend(self, safe_until: Instant, ttl: timedelta) -> None:
        """Exclusive work may go on until `safe_until`; its process is gone halfway from there to the lease's end."""
        dead_by = safe_until + ttl.total_seconds() / 10
        self.crew.extend(Deadline(safe_until, dead_by))
        self.attempts.extend(safe_until, dead_by)

    async def drain(self) -> None:
        """Finish what runs and end every worker; what is not done in time is killed."""
        self.is_draining = True
        ends = self._clock.monotonic() + self._config.drain.total_seconds()
        self.attempts.stop_by(Instant(ends))
        await self.reloads.close()
        self.tasks.want(())
        # Services first answer what they have, which takes their workers; everything else stops meanwhile.
        self.crew.man({name: post for name, post in self.crew.posts.items() if post.has_line})
        await self.services.close(max(0.0, ends - self._clock.monotonic() - GOODBYE))
        self.crew.man({})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, ends - self._clock.monotonic())):
                await self.crew.until(lambda: not self.crew.workers)
                await self.attempts.over()  # what their workers left behind ends, too, before they are told
        await self.services.leave(GOODBYE)
        if self.relay is not None:
            await self.relay.leave(max(HAND_OVER, ends - self._clock.monotonic()))

    async def kill(self) -> None:
        """End every process now, and wait until they are gone."""
        self.is_draining = True
        await self.reloads.close()
        self.services.kill()
        if self.relay is not None:
            self.relay.kill()
        self.crew.kill_all("the node stops")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self.crew.until(lambda: not self.crew.workers)
                enclosure = self.generations.target.enclosure
                # What workers left behind, and loaders that are on their way.
                while strangers := [pid for pid in kernel.children() if pid != enclosure.keeper]:
                    kernel.end(strangers)
                    self.crew.reap()
                    await asyncio.sleep(0.01)

    def status(self) -> NodeStatus:
        """What people and programs are shown."""
        app, failing = self.generations.app, self.tasks.failing()
        return NodeStatus(
            app=app.app.name if app else None,
            generation=self.generations.current,
            previous=self.generations.previous,
            reloading=self.reloads.stage or None,
            pools=self._pools(),
            tasks_ordered=len(self.tasks.orders),
            tasks_running=len(self.tasks.running()),
            kinds=sorted(kind.name for kind in app.app.kinds) if app else [],
            jobs=sorted(job.name for job in self.jobs()),
            failing={task: why[:FAILING_REASON] for task, why in list(failing.items())[:FAILING]},
            failing_left_out=max(0, len(failing) - FAILING),
            daemons=self.generations.target.enclosure.way,
            code=app.code if app else "",
            is_rolled_back=self.generations.target.kept.of(self.generations.current) is not None,
            app_version=app.version if app else "",
            not_listening=self.services.not_listening(),
        )

    def kinds(self) -> list[KindRecord]:
        """The kinds of resources that the app declares, and those that its streams are placed by."""
        app = self.generations.app
        return [_kind(app.app.name, kind) for kind in app.app.kinds] if app else []

    def streams(self) -> list[StreamRecord]:
        """The streams that the app declares."""
        app = self.generations.app
        return [declared(app.app.name, spec) for spec in app.app.streams] if app else []

    def jobs(self) -> list[WantedJob]:
        """The jobs that the app declares."""
        app = self.generations.app
        return [wanted(spec) for spec in (*app.app.jobs, *app.app.commands)] if app else []

    async def ask_source(self, kind: str, timeout: timedelta) -> bytes:
        """What the source of a kind lists, as JSON, asked in an executor; SourceFailed if nothing comes in time."""
        number = next(self._queries)
        answer: asyncio.Future[tuple[str, bytes]] = asyncio.get_running_loop().create_future()

        def ended(error: str, result: bytes) -> None:
            if not answer.done():
                answer.set_result((error, result))

        refused = ""
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                # An executor may become free in time, and the app may get that source by a reload.
                while True:
                    refused = self.attempts.ask(kind, number, ended)
                    if not refused:
                        break
                    await asyncio.sleep(TICK)
                error, result = await answer
        except TimeoutError:
            raise SourceFailed(refused or f"it took longer than {durations.render(timeout)}") from None
        finally:
            self.attempts.interrupt(f"source:{kind}", number, "the list is no longer needed")
        if error:
            raise SourceFailed(error)
        return result

    async def relay_tallies(self, kind: str, resource: str | None = None) -> tuple[ResourceTally, ...]:
        """What this node's relay has counted of a kind's resources, or of one; Unavailable if it does not answer."""
        return await self.relay.tallies(kind, resource) if self.relay is not None else ()

    async def relay_drain(self, timeout: timedelta) -> bool:
        """Wait until the sinks have everything that this node's relay has; False if they have not in time."""
        return await self.relay.drain(timeout) if self.relay is not None else True

    def returned(self) -> dict[str, str]:
        """Tasks that this node gives back, and why."""
        return {task: each.why for task, each in self.tasks.returned.items()}

    def runs(self, task: str) -> bool:
        """Does a process of this node run the task, or is it about to?"""
        ordered = task in self.tasks.orders or self.saves.has_unwritten(task)
        return (
            ordered
            or self.tasks.has_copy(task)
            or any(
                worker.brief.order is not None and worker.brief.order.task == task
                for worker in self.crew.workers.values()
            )
        )

    def processes(self) -> dict[str, Any]:
        """Who is who among the processes."""
        return {
            "loaders": {str(number): loader.pid for number, loader in self.generations.able().items()},
            "proxies": self.services.processes(),
            "relay": self.relay.pid if self.relay is not None else None,
            "workers": [
                {
                    "pid": worker.pid,
                    "pool": worker.brief.pool,
                    "slot": worker.brief.slot,
                    "generation": worker.brief.generation,
                    "phase": worker.phase,
                }
                for worker in self.crew.workers.values()
            ],
        }

    def _pools(self) -> list[PoolStatus]:
        """The pools; tasks with a process of their own are shown as one for each kind, for there may be thousands."""
        found: dict[str, PoolStatus] = {}
        for post in self.crew.posts.values():
            shown = self._pool(post)
            name = f"task:{post.order.kind}" if post.order is not None else shown.name
            name = "apart" if name.startswith(posts.APART) else name
            found[name] = together(name, found[name], shown) if name in found else replace(shown, name=name)
        return list(found.values())

    def _pool(self, post: Post) -> PoolStatus:
        crew, name = self.crew, post.pool.name
        phases = Counter(worker.phase for worker in crew.of_pool(name))
        looping = [falls for key, falls in crew.falls.items() if key[0] == name and falls.is_crash_loop(crew.policy)]
        return PoolStatus(
            name=name,
            role=post.role,
            want=post.pool.count,
            ready=phases[Phase.READY],
            starting=phases[Phase.STARTING],
            draining=phases[Phase.DRAINING],
            crash_loop=looping[0].why if looping else None,
            held_up=next((worker.held_up for worker in crew.of_pool(name) if worker.held_up), None),
        )

    def _wanted(self, loaded: Loaded) -> dict[str, Post]:
        tasks, sizes = self.tasks, self.services.sizes
        return posts.posts(loaded.app, tasks.due(), self.attempts.size, self._config, sizes, tasks.portions())

    def _canaries(self, loaded: Loaded, generation: int) -> dict[str, Post]:
        return posts.canaries(self._wanted(loaded), generation, self._config)

    def _post(self) -> None:
        """Tell the crew what is wanted now."""
        if self.generations.app is not None and not self.is_draining:
            self.crew.man({**self._wanted(self.generations.app), **self.reloads.canaries})
            if self.relay is not None:
                self.relay.serve(self.generations.app.app)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self.tasks.tick()
            self.attempts.tick()


def _kind(app: str, kind: ResourceSummary) -> KindRecord:
    return KindRecord(
        name=kind.name,
        app=app,
        replicas=kind.replicas,
        exclusive=kind.exclusive,
        runs_alone=kind.runs_alone,
        silent_after=kind.silent_after,
        start_within=kind.start_within,
        labels=kind.labels,
        affinity=kind.affinity,
        source_every=kind.source_every,
        source_timeout=kind.source_timeout,
        schema=kind.schema,
        no_schema=kind.no_schema,
    )
