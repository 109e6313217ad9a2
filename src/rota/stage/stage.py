"""A stage: runs a declared app in one process, in virtual time, with its messages kept in memory.

    with Stage(app) as stage:
        task = stage.start(room("1"))
        stage.advance("31s")
        assert stage.sink.payloads == [b"hello"]

An hour takes milliseconds, and a test is the same each time. What a user's function raises is raised here, with its own
traceback: by the call during which it happened, or by the next one. It needs no pytest plugin, and no async test.

It is a stage, not a fleet: nothing is placed, moved or retried behind the test's back, and there are no processes. Time
is that of asyncio, and of `stopping.wait`; the clock does not see what waits in another way (a real socket, a thread of
one's own), and jumps over it.
"""

import asyncio
import io
import logging
import traceback
from collections.abc import AsyncIterable, Coroutine, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from inspect import isawaitable
from types import TracebackType
from typing import Any, Self, TypeVar

from rota.jobs.core import cron
from rota.jobs.core.records import JobSpec
from rota.kit.time import virtual
from rota.kit.time.epoch import milliseconds
from rota.model.errors import Invalid
from rota.model.spec.checks import Check, did_you_mean
from rota.resources.core.collect import collect
from rota.resources.core.spec import Resource
from rota.sdk.app import App
from rota.sdk.context import Message, Run, seconds
from rota.sdk.declared import Command, Job, ResourceKind, Stream
from rota.sdk.service import Service
from rota.services.core.context import Client, Reply
from rota.services.node.desk import RequestRunner
from rota.stage.aside import FunctionThread, Stuck
from rota.stage.attempts import Outcome, captured, execute, logger
from rota.stage.staged import Saved, Sink, StagedClient, StagedTask, StageStopping, StillRunning
from rota.streams.core.context import Batch, Record

__all__ = ["Outcome", "Sink", "Stage", "StagedTask", "StillRunning", "Stuck"]

T = TypeVar("T")
Moment = str | datetime
"""A point in time: aware, or taken for UTC; a str like "2026-01-01" or "2026-01-01T03:00"."""

_A_MOMENT = 1e-5
"""Virtual seconds in which everything that is ready gets to run."""


class Stage:
    """One app on a stage; a context manager."""

    def __init__(
        self, app: App, *, at: Moment = "2026-01-01", drain: str | timedelta = "10s", patience: float = 10.0
    ) -> None:
        """`at` is the date on the stage, `drain` how long stopping may take, `patience` the seconds after which Stuck
        is raised."""
        app.check()
        self.app = app
        self._jobs: dict[str, Job[Any, Any] | Command] = {**app.jobs, **app.commands}
        self.sink = Sink()
        self.errors: list[BaseException] = []
        """What handlers and hooks of services raised: their clients only saw a code."""

        self._start = _moment(at)
        self._drain = seconds(drain) or 0.0
        self._patience = patience
        self._saved: Saved = {}
        self._tasks: list[StagedTask] = []
        self._failed: list[BaseException] = []
        self._desks: dict[str, RequestRunner] = {}
        self._offsets: dict[tuple[str, int], int] = {}
        self._epoch = 0

    def __enter__(self) -> Self:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise Invalid(
                "a Stage has a loop of its own, and one runs here already; write the test with def, not async def"
            )
        self._loop = virtual.VirtualLoop()
        try:
            for hook in self.app.worker_start_hooks:
                self._do(_call(hook))
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        found: list[BaseException] = []
        try:
            for task in [task for task in self._tasks if task.is_running]:
                try:
                    self._stop(task)
                except BaseException as failure:
                    found.append(failure)
            for desk in self._desks.values():
                self._do(desk.stop())
        finally:
            self._close()
        found += self._failed
        if error is None and found:
            raise found[0] if len(found) == 1 else BaseExceptionGroup("several tasks failed", found)

    @property
    def now(self) -> datetime:
        """The date and time on the stage, in UTC."""
        return self._start + timedelta(seconds=round(self._loop.time(), 3))

    def advance(self, duration: str | timedelta | float) -> None:
        """Let this much virtual time pass; a number is seconds."""
        self._do(asyncio.sleep(seconds(duration) or 0.0))

    def start(self, resource: Resource, *, slot: int = 0) -> StagedTask:
        """Start a task that holds `resource`; what an earlier task saved is in `task.saved`."""
        kind = self._known("resource", self.app.resources, resource.kind)
        self._epoch += 1
        task = StagedTask(
            kind,
            resource,
            slot=slot,
            epoch=self._epoch,
            loop=self._loop,
            sink=self.sink,
            saved=self._saved,
            patience=self._patience,
            stop=self._stop,
        )
        task.body.add_done_callback(lambda _: self._note(task))
        self._tasks.append(task)
        self._do(_nothing())
        return task

    def query(self, kind: ResourceKind) -> list[Resource]:
        """What the source of `kind` lists now."""
        source = kind.own_source
        if source is None:
            Check("resource", kind.name).fail(f"it has no source; declare one with @{kind.name}.source(…)")
        return self._do(_within(source.spec.timeout, collect(source.function, kind.listed, kind.name)))

    def run(self, job: Job[Any, Any] | Command | str, *, due: Moment | None = None) -> Outcome:
        """Run a job now, with its retries, to its end. A command really runs, in real time."""
        declared = self._known("job", self._jobs, job) if isinstance(job, str) else job
        when = None if due is None else _moment(due)
        began = self._loop.time()
        output = io.StringIO()
        attempt, state, error = 0, "failed", None
        while state != "succeeded" and attempt <= declared.spec.retries:
            attempt += 1
            state, error = self._attempt(declared, attempt, when, output)
        if error is not None:
            error.add_note(f"in {declared!r}, attempt {attempt}")
        return Outcome(
            job=declared.name,
            state=state,
            due=when,
            attempts=attempt,
            output=output.getvalue(),
            error=error,
            took=timedelta(seconds=round(self._loop.time() - began, 3)),
        )

    def due(self, since: Moment, until: Moment) -> list[tuple[datetime, str]]:
        """The jobs that are due from `since` on and before `until`, and when."""
        first, last = _moment(since), _moment(until)
        found = [(when, name) for name, job in self._jobs.items() for when in _due_times(job.spec, first, last)]
        return sorted(found)

    def fire(self, since: Moment, until: Moment) -> list[Outcome]:
        """Run the jobs due in that time, in order, each when it is due; and the jobs that come `after` them."""
        outcomes: list[Outcome] = []
        waiting = {name: set(job.spec.after) for name, job in self._jobs.items()}
        for when, name in self.due(since, until):
            self._advance_to(when)
            turn = [name]
            while turn:
                outcome = self.run(turn.pop(0), due=when)
                outcomes.append(outcome)
                if outcome.state == "succeeded":
                    turn += self._next(outcome.job, waiting)
        return outcomes

    def request(
        self, service: Service, cmd: int, body: object = b"", *, sn: int = 1, client: Client | None = None
    ) -> Reply | None:
        """The reply to a request; None if it got none. What its handler raised is in `errors`."""
        desk = self._desk(service)
        handler = service.handlers.get(cmd)
        group = handler.spec.group if handler else next(iter(service.spec.groups))
        door = StagedClient(client or Client("127.0.0.1", 40000), {"cmd": cmd, "ret": 0, "sn": sn})
        self._do(desk.answer(desk.request(cmd, sn, Message(body).payload, group, door)))
        return door.replies[0] if door.replies else None

    def feed(self, stream: Stream[Any, Any], records: Iterable[object], *, partition: int = 0) -> list[Any]:
        """The rows that `stream` makes of these records: values as in a message, or whole `Record`s."""
        batch = self._batch(stream.name, records, partition)
        return self._do(_rows(stream.function(batch)))

    def _attempt(
        self, job: Job[Any, Any] | Command, attempt: int, due: datetime | None, output: io.StringIO
    ) -> tuple[str, BaseException | None]:
        """How one attempt ended, and why."""
        if isinstance(job, Command):
            return execute(job.spec, output)
        limit = job.spec.timeout
        with captured(output):
            try:
                self._do(_within(limit, self._body_of(job, attempt, due, output)))
            except _Late as late:
                late.add_note(f"timeout={limit}")
                return "timed out", late
            except (Exception, SystemExit) as error:
                traceback.print_exception(error, file=output)
                return "failed", error
        return "succeeded", None

    async def _body_of(self, job: Job[Any, Any], attempt: int, due: datetime | None, output: io.StringIO) -> None:
        aside: FunctionThread[Any] = FunctionThread(lambda: job.function(run), self._patience)
        self._epoch += 1
        run = Run(
            id=f"{job.name}/{due.isoformat() if due else 'manual'}",
            job=job.name,
            attempt=attempt,
            due=due,
            token=self._epoch,
            stopping=StageStopping(None if job.is_async else aside.call),
            log=logger(job.name, output),
        )
        await (job.function(run) if job.is_async else aside.run())

    def _advance_to(self, when: datetime) -> None:
        if when > self.now:
            self.advance(when - self.now)

    def _next(self, done: str, waiting: Mapping[str, set[str]]) -> list[str]:
        """The jobs whose last missing predecessor has just succeeded; they then wait for all of them again."""
        ready = []
        for name, missing in waiting.items():
            if done in missing:
                missing.discard(done)
                if not missing:
                    ready.append(name)
                    missing.update(self._jobs[name].spec.after)
        return ready

    def _desk(self, service: Service) -> RequestRunner:
        if service.name not in self._desks:
            spec = service.spec
            desk = RequestRunner(
                service.name,
                service.handlers,
                service.hooks,
                timeout=spec.timeout,
                answers_failures=spec.auto_answer_on_fail,
                layout=spec.layout,
                report=self._report,
            )
            self._desks[service.name] = desk
            self._do(desk.start())
        return self._desks[service.name]

    def _report(self, where: str, error: BaseException) -> None:
        error.add_note(f"in {where}")
        self.errors.append(error)
        logging.getLogger("rota.testing").error("%s failed", where, exc_info=error)

    def _batch(self, stream: str, items: Iterable[object], partition: int) -> Batch:
        records = []
        for item in items:
            record = item if isinstance(item, Record) else self._record(stream, partition, item)
            self._offsets[stream, record.partition] = record.offset + 1
            records.append(record)
        offsets = {record.partition: self._offsets[stream, record.partition] for record in records}
        return Batch(stream, records, offsets)

    def _record(self, stream: str, partition: int, value: object) -> Record:
        offset = self._offsets.get((stream, partition), 0)
        return Record(partition=partition, offset=offset, value=Message(value).payload, time_ms=milliseconds(self.now))

    def _known(self, kind: str, register: Mapping[str, T], name: str) -> T:
        if name not in register:
            guess = did_you_mean(name, register) or f"; there are {', '.join(register) or 'none'}"
            Check("app", self.app.name).fail(f'it has no {kind} "{name}"{guess}')
        return register[name]

    def _note(self, task: StagedTask) -> None:
        if not task.body.cancelled() and (error := task.body.exception()) is not None:
            error.add_note(f"in task {task.id}, {timedelta(seconds=round(self._loop.time(), 3))} into the test")
            self._failed.append(error)

    def _stop(self, task: StagedTask) -> None:
        if not task.is_running:
            return
        task.stopping.set()
        if task.kind.is_async:
            task.body.cancel()
        self._do(asyncio.wait([task.body], timeout=self._drain))
        if task.is_running:
            task.body.cancel()
            self._do(asyncio.wait([task.body], timeout=self._drain))
            way = "let CancelledError pass" if task.kind.is_async else "look at task.stopping now and then"
            raise StillRunning(f"task {task.id} was asked to stop, and went on for {self._drain:g} s; {way}")

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, after which everything that is ready is run; raises the error of a task that failed
        meanwhile."""
        try:
            result = self._until_done(work)
            self._until_done(asyncio.sleep(_A_MOMENT))
        finally:
            failed, self._failed = self._failed, self._failed[1:]
        if failed:
            raise failed[0]
        return result

    def _until_done(self, work: Coroutine[Any, Any, T]) -> T:
        task = self._loop.create_task(work)
        try:
            return self._loop.run_until_complete(task)
        except virtual.Deadlock:
            task.cancel()
            self._loop.run_until_complete(asyncio.wait([task]))
            raise virtual.Deadlock(
                "it waits for something that never comes: no timer is set, nothing is ready"
            ) from None

    def _close(self) -> None:
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left, timeout=self._drain))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class _Late(TimeoutError):
    """The work took longer than its limit."""


async def _within(limit: timedelta | None, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`; _Late if it takes longer."""
    try:
        async with asyncio.timeout(limit.total_seconds() if limit else None) as clock:
            return await work
    except TimeoutError as error:
        if clock.expired():
            raise _Late(f"it was not done within {limit}") from error
        raise


async def _call(function: Any) -> None:
    result = function()
    if isawaitable(result):
        await result


async def _nothing() -> None:
    pass


async def _rows(made: Any) -> list[Any]:
    """What a stream's function made, as a list."""
    if isawaitable(made):
        made = await made
    if isinstance(made, AsyncIterable):
        return [row async for row in made]
    if hasattr(made, "to_pylist"):  # a pyarrow.RecordBatch
        rows: list[Any] = made.to_pylist()
        return rows
    return [] if made is None else list(made)


def _due_times(spec: JobSpec, since: datetime, until: datetime) -> Iterator[datetime]:
    before = since - timedelta(microseconds=1)
    if spec.cron is not None:
        times = cron.due_times(spec.cron, spec.tz, before)
    elif spec.every is not None:
        times = cron.ticks(spec.every, before)
    else:
        return
    for when in times:
        if when >= until:
            return
        yield when


def _moment(value: Moment) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise Invalid(f'"{value}" is not a date; write one like 2026-01-01 or 2026-01-01T03:00') from None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
