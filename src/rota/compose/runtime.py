"""The runtime of a node: everything that runs the app's code, behind one door.

It combines the crew, the tasks, the attempts and the reloads, and computes the posts that they need together. Of the
fleet it gets only orders, attempts, and until when exclusive work may go on.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from rota.compose import wanted
from rota.fleet.members.journal import Tell
from rota.jobs.core.records import JobSpec
from rota.jobs.node.attempt_logs import RunLogs
from rota.jobs.node.endings import Endings
from rota.jobs.node.open_attempts import OpenAttempts
from rota.jobs.node.run_workers import RunWorkers
from rota.jobs.node.runs import AcceptedRuns
from rota.jobs.node.seating import Seating
from rota.jobs.node.source_queries import SourceQueries
from rota.kit.record import replace
from rota.kit.time.clock import Clock
from rota.link.records import AttemptId, LogPiece
from rota.model.config import JobsConfig, RuntimeConfig
from rota.model.ids import Instant, NodeId
from rota.model.node import NodeStatus, PoolStatus, together
from rota.relay.core.records import ResourceTally
from rota.relay.node.hold import NodeRelay, RelayPlace
from rota.resources.core.records import KindRecord
from rota.resources.node.posts import APART
from rota.resources.node.saves import Saves
from rota.resources.node.tasks import Tasks, was_apart
from rota.runtime.core.restart import RestartPolicy
from rota.runtime.crew.crew import Crew
from rota.runtime.crew.plan import WorkerPhase
from rota.runtime.crew.posts import Post, canaries
from rota.runtime.crew.runner import CrewRunner
from rota.runtime.crew.watch import CrewWatch, Witness
from rota.runtime.loader.generations import Generations
from rota.runtime.loader.processes import LoadTarget
from rota.runtime.loader.reload import Reloads
from rota.runtime.pipes.brief import Deadline, Order
from rota.runtime.pipes.loader import Loaded
from rota.runtime.system import kernel
from rota.runtime.worker.guard import AgentLifeline
from rota.runtime.worker.stacks import Stacks
from rota.services.node.agent import ServiceManager
from rota.streams.core.records import StreamRecord
from rota.streams.core.spec import declared
from rota.streams.node.lending import Lending

FAILING, FAILING_REASON = 50, 200
"""How many failing tasks a node's status names, and characters of each reason: every node's status is read often."""

TICK = 0.5
"""Seconds between two checks of what waits for its time."""

HAND_OVER = 2.0
"""Seconds that the relay always has to hand over before it ends, even if workers took all the time."""

GOODBYE = 1.0
"""Seconds for proxies to close their clients' connections."""


class Runtime:
    """The work of one node."""

    def __init__(
        self,
        target: LoadTarget,
        config: RuntimeConfig,
        clock: Clock,
        tell: Tell,
        stacks: Path,
        policy: RestartPolicy | None = None,
        relay: RelayPlace | None = None,
        jobs: JobsConfig | None = None,
        letters: str = "",
        printed: str = "",
    ) -> None:
        """`letters` is the folder for records that streams could not read, `printed` that for lines workers print."""
        policy, jobs = policy or RestartPolicy(), jobs or JobsConfig()
        self.is_draining = False
        self.generations = Generations(target, config.load_timeout, policy, clock, tell, self.reload_soon)
        self.crew = crew = Crew(self.generations, config, policy, clock)
        self.saves = Saves()
        self.tasks = Tasks(crew, clock, policy, config.grace, self._post, self.saves.newest, tell)
        self.logs = RunLogs(jobs.log_bytes, clock)
        self.lending = Lending()
        self.services = ServiceManager(crew, target.node, policy, clock, tell, self._post, config.drain)
        self.relay: NodeRelay | None = None
        """What takes emitted messages to their sinks; None if this node has no place for it."""

        if relay is not None:
            self.relay = NodeRelay(NodeId(target.node), relay, policy, clock, tell, crew.workers.values)
        seating = Seating(crew, config.executors, clock, self._post)
        open_attempts, leash = OpenAttempts(config.executors, seating, self.logs), AgentLifeline()
        endings = Endings(crew, config, open_attempts, seating, self.logs, clock)
        run_workers = RunWorkers(crew, open_attempts, seating, endings, leash, self.logs)
        self._sources = SourceQueries(crew, open_attempts, seating, endings)
        witnesses: list[Witness] = [self.saves, self.tasks, run_workers, self._sources, self.lending, self.services]
        if self.relay is not None:
            witnesses.append(self.relay)
        self._watch = CrewWatch(
            crew,
            clock,
            tell,
            Stacks(stacks, clock),
            witnesses,
            excuses=[run_workers.was_at_work, was_apart],
        )
        self._runner = CrewRunner(
            crew,
            self._watch,
            config,
            clock,
            tell,
            switch=self.services,
            outfit=run_workers.outfit,
            recalled=self.tasks.recalled,
            emitting=relay.emitting if relay is not None else None,
            letters=letters,
            printed=printed,
        )
        self.attempts = AcceptedRuns(self._runner, config, open_attempts, seating, endings, leash, clock)
        self.reloads = Reloads(crew, self._watch, config, tell, self._post, self._canaries)
        self._config, self._clock = config, clock

    @property
    def is_ready(self) -> bool:
        """Has every post its worker, and does every service listen?"""
        return self.crew.is_settled() and not self.services.not_listening()

    @property
    def executors(self) -> int:
        """How many attempts may run at a time."""
        return self._config.executors

    async def load(self) -> None:
        """Import the app for the first time; LoadError if it cannot be."""
        number = self.reloads.number()
        await self.generations.load_kept_or_files(number, self._watch)
        self.generations.settle_on(number, None)
        self._post()

    async def run(self, progress: Callable[[], None] = lambda: None) -> None:
        """Run the crew, until cancelled; `progress` is called at each turn."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._runner.run(lambda: self._turn(progress)), name="crew")
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
        """Set the tasks to run from now on: exactly these."""
        if not self.is_draining:
            self.tasks.want(orders)
            self.saves.forget_all_but({*self.tasks.orders, *self.tasks.returned})
            self._post()

    def reload_soon(self) -> None:
        """Take in the code as it is now, without a caller; after the reload that is under way, if there is one."""
        self.reloads.reload_soon()

    def end_session(self) -> None:
        """The lease has ended or was given back: end exclusive work and attempts now. Other work continues."""
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
        """Finish running work and end every worker; work that is not finished in time is killed."""
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
                await self.attempts.over()  # what their workers left behind is killed too, before their end is reported
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
                    self._watch.reap()
                    await asyncio.sleep(0.01)

    def status(self) -> NodeStatus:
        """The status shown to users and programs."""
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
        return [kind.record(app.app.name) for kind in app.app.kinds] if app else []

    def streams(self) -> list[StreamRecord]:
        """The streams that the app declares."""
        app = self.generations.app
        return [declared(app.app.name, spec) for spec in app.app.streams] if app else []

    def jobs(self) -> list[JobSpec]:
        """The jobs that the app declares."""
        app = self.generations.app
        return [*app.app.jobs, *app.app.commands] if app else []

    async def ask_source(self, kind: str, timeout: timedelta) -> bytes:
        """What the source of a kind lists, as JSON, asked in an executor; SourceFailed if nothing comes in time."""
        return await self._sources.ask(kind, timeout)

    async def relay_tallies(self, kind: str, resource: str | None = None) -> tuple[ResourceTally, ...]:
        """What this node's relay has counted of a kind's resources, or of one; Unavailable if it does not answer."""
        return await self.relay.tallies(kind, resource) if self.relay is not None else ()

    def unwritten(self, attempt: AttemptId, offset: int) -> LogPiece | None:
        """A piece of a log that is not written down yet; None if whatever there is of it is."""
        has_begun = self.logs.has(attempt)
        if not has_begun and self.attempts.has(attempt):
            return LogPiece(b"", is_last=False)  # nothing written so far: a kept log of this name is another run's
        return self.logs.unwritten(attempt, offset) if has_begun else None

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
        """The node's processes and what each one does."""
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
        """The pools; tasks with a process of their own count as one pool per kind, as there may be thousands."""
        found: dict[str, PoolStatus] = {}
        for post in self.crew.posts.values():
            shown = self._pool(post)
            name = f"task:{post.order.kind}" if post.order is not None else shown.name
            name = "apart" if name.startswith(APART) else name
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
            ready=phases[WorkerPhase.READY],
            starting=phases[WorkerPhase.STARTING],
            draining=phases[WorkerPhase.DRAINING],
            crash_loop=looping[0].why if looping else None,
            held_up=next((worker.held_up for worker in crew.of_pool(name) if worker.held_up), None),
        )

    def _wanted(self, loaded: Loaded) -> dict[str, Post]:
        tasks, sizes = self.tasks, self.services.sizes
        return wanted.posts(loaded.app, tasks.due(), self.attempts.size, self._config, sizes, tasks.portions())

    def _canaries(self, loaded: Loaded, generation: int) -> dict[str, Post]:
        return canaries(self._wanted(loaded), generation, self._config)

    def _post(self) -> None:
        """Send the crew the posts needed now."""
        if self.generations.app is not None and not self.is_draining:
            self.crew.man({**self._wanted(self.generations.app), **self.reloads.canaries})
            if self.relay is not None:
                self.relay.serve(self.generations.app.app)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self.tasks.tick()
            self.attempts.tick()
