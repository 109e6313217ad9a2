"""A runtime in a process of its own, steered line by line; as the agent, it reaps every child that it has.

`python -m tests.kit.runs APP FOLDER EXECUTORS [GRACE]` loads the app and reads requests from its input, one JSON list a
line. It writes answers, and outcomes as they come, in the same way.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from rota.compose.runtime import Runtime
from rota.jobs.core.records import Outcome, RunOrder
from rota.jobs.logs.folder import FolderLogs
from rota.kit.time.clock import SYSTEM
from rota.model.config import JobsConfig, RuntimeConfig, Size
from rota.runtime.loader.processes import LoadTarget
from rota.runtime.system import kernel

LOG_BYTES = 200_000


class RunsProcess:
    """The test's end of one."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path) -> None:
        self._process = process
        self.logs = FolderLogs(folder / "logs")
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        self._outcomes: dict[str, asyncio.Future[Outcome]] = {}
        self.told: list[str] = []
        """Whose outcome was told, in that order."""

        self._reading = asyncio.create_task(self._read())

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def ask(self, *request: Any) -> Any:
        """What a request is answered with."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        return await asyncio.wait_for(self._answers.get(), 60)

    async def start(self, run: str, job: str, **more: Any) -> str:
        """Start an attempt; the reason if it was refused."""
        order = {"run": run, "attempt": 1, "epoch": 1, "job": job, **more}
        (why,) = await self.ask("start", order)
        return str(why)

    async def start_many(self, runs: list[str], job: str) -> list[str]:
        """Start first attempts of several runs at a time."""
        answers: list[str] = await self.ask(
            "start", *({"run": run, "attempt": 1, "epoch": 1, "job": job} for run in runs)
        )
        return answers

    async def outcome(self, run: str, within: float = 60.0) -> Outcome:
        """How a run's attempt ended, when it has."""
        return await asyncio.wait_for(asyncio.shield(self._outcome(run)), within)

    def is_over(self, run: str) -> bool:
        """Was its outcome told?"""
        return self._outcome(run).done()

    async def log(self, run: str) -> bytes:
        """What is kept of a run's output, once all of it is."""
        await self.ask("write down")
        return await self.log_as_it_is(run)

    async def log_as_it_is(self, run: str) -> bytes:
        """What is kept of a run's output now."""
        found = b""
        while piece := await self.logs.read(run, 1, len(found)):
            found += piece
        return found

    async def end(self) -> None:
        """End it."""
        if self._process.returncode is None:
            self._process.stdin.close()  # type: ignore[union-attr]
            await asyncio.wait_for(self._process.wait(), 60)
        await asyncio.wait([self._reading], timeout=30)  # what it said last is still to be read
        self._reading.cancel()

    def _outcome(self, run: str) -> "asyncio.Future[Outcome]":
        return self._outcomes.setdefault(run, asyncio.get_running_loop().create_future())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            what, *rest = json.loads(line)
            if what == "outcome":
                self.told.append(rest[0])
                self._outcome(rest[0]).set_result(msgspec.convert(rest[1], Outcome))
            else:
                self._answers.put_nowait(rest[0])


@asynccontextmanager
async def runs_process(
    folder: Path, app: str, executors: int = 2, grace: str = "1", **environ: str
) -> AsyncIterator[RunsProcess]:
    """A runtime with this app."""
    (folder / "app.py").write_text(app)
    argv = ["-m", "tests.kit.runs", str(folder / "app.py"), str(folder), str(executors), grace]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **environ},
        limit=2**24,
    )
    runs = RunsProcess(process, folder)
    try:
        await runs.ask("ready")
        yield runs
    finally:
        await runs.end()


class _Host:
    """The process's own end."""

    def __init__(self, app: str, folder: Path, executors: int, grace: float) -> None:
        config = RuntimeConfig(
            executors=executors, grace=timedelta(seconds=grace), drain=timedelta(seconds=grace + 1), canary=timedelta()
        )
        self._folder = folder
        self._runtime = Runtime(
            LoadTarget(app, "runs"),
            config,
            SYSTEM,
            lambda *_, **__: None,
            folder / "stacks",
            jobs=JobsConfig(log_bytes=Size(LOG_BYTES)),
        )

    async def run(self) -> None:
        runtime = self._runtime
        working = [
            asyncio.create_task(runtime.run()),
            asyncio.create_task(runtime.logs.keep(FolderLogs(self._folder / "logs"))),
        ]
        await runtime.load()
        self._extend(3600)
        await runtime.crew.until(lambda: runtime.is_ready)
        requests = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(requests), sys.stdin.buffer
        )
        async for line in requests:
            verb, *rest = json.loads(line)
            _say("answer", await self._do(verb, rest))
        await runtime.drain()
        await runtime.kill()
        await runtime.logs.write_down()
        for task in working:
            task.cancel()

    async def _do(self, verb: str, rest: list[Any]) -> Any:
        runtime, runs = self._runtime, self._runtime.attempts
        answer: Any = None
        match verb:
            case "start":
                answer = runs.start_many([msgspec.convert(each, RunOrder) for each in rest], self._ended)
            case "interrupt":
                answer = runs.interrupt(*rest)
            case "write down":
                await runtime.logs.write_down()
            case "reload":
                answer = (await runtime.reloads.reload()).generation
            case "processes":
                answer = runtime.processes()["workers"]
            case "figures":
                answer = {"free": runs.free, "running": [order.run for order in runs.running()], "size": runs.size}
            case "lease":
                self._extend(*rest)
            case "end session":
                runtime.end_session()
        return answer

    def _extend(self, seconds: float, more: float = 0.4) -> None:
        """The lease is good for so long, and `more` later guards end what the agent has not ended."""
        now = SYSTEM.monotonic()
        self._runtime.attempts.extend(now + seconds, now + seconds + more)

    def _ended(self, order: RunOrder, outcome: Outcome) -> None:
        _say("outcome", order.run, msgspec.to_builtins(outcome))


def _say(*words: Any) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Be one."""
    kernel.adopt_orphans()
    app, folder, executors, grace = sys.argv[1:]
    asyncio.run(_Host(app, Path(folder), int(executors), float(grace)).run())


if __name__ == "__main__":
    main()
