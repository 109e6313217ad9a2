"""`rota up`: a fleet on this machine, in the foreground."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import click

from rota.cli import settings, watched
from rota.cli.reach import targets
from rota.cli.terminal import colours
from rota.cli.terminal.screen import Screen
from rota.fleet.access import tokens as token
from rota.model.config import LogConfig, NodeConfig, RuntimeConfig
from rota.model.errors import Conflict, Denied, RotaError, Unavailable
from rota.runtime.system import data_folder, kernel
from rota.services.node import shared_sockets
from rota.services.node.shared_sockets import SocketLender

FOLDER = Path(".rota/up")
STOP = 1.5
"""Seconds that nodes may take to stop at once before they are killed."""

LOOK = 0.05
SLOW_LOOK = 1.0
PATIENCE = 60.0
"""Seconds a fleet may take to be ready before a line says that it is not."""

RELOAD = 300.0
"""Seconds that a node may take to reload."""

COLOURS = (36, 35, 32, 33, 34, 31)


@click.command()
@click.argument("app", type=click.Path())
@click.option("--nodes", type=click.IntRange(1, 64), default=1, show_default=True, help="How many nodes.")
@click.option(
    "--store",
    metavar="URL",
    envvar="ROTA_STORE",
    show_envvar=True,
    help="The fleet's store.  [default: store in rota.toml, or a file below .rota/up]",
)
@click.option(
    "--port", type=click.IntRange(1, 65534), help="HTTP port of the first node; gRPC is the next.  [default: 7700]"
)
@click.option("--reload", is_flag=True, help="Take in the app's code whenever one of its files changes.")
@settings.options(RuntimeConfig, only=("drain",))
@settings.options(LogConfig, only=("level",))
def command(
    app: str,
    nodes: int,
    store: str | None,
    port: int | None,
    reload: bool,
    drain: str | None,
    log_level: str | None,
) -> None:
    """Run APP on a fleet on this machine, until Ctrl-C.

    Nodes are called n1, n2, …; a node that dies is started again. The nodes share the ports of services. Everything is
    kept below .rota/up in this folder.
    Ctrl-C stops at once; TERM finishes what runs first; HUP reloads the app. With --reload, so does a change of a
    .py file in the app's folder or below; if the new code is broken, that is reported, and the old code keeps running.

    Example: rota up app.py --nodes 3
    """
    given = {"--drain": drain, "--log-level": log_level}
    common = [word for flag, value in given.items() if value for word in (flag, value)]
    used: str = store or settings.look_up(NodeConfig, {})["store"].value or f"sqlite:///{FOLDER}/rota.db"
    common += ["--store", used]
    with _alone():
        _check_addresses(port)
        targets.leave(FOLDER, used)
        common += _token()
        argvs = [_argv(app, number, port, common) for number in range(1, nodes + 1)]
        code = asyncio.run(_run(argvs, watched.folder_of(app) if reload else None))
    if code:
        sys.exit(code)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Lock the folder of this fleet; Conflict if `rota up` runs here already, Denied if it cannot be written."""
    try:
        with contextlib.ExitStack() as held:
            held.enter_context(data_folder.hold(FOLDER))
            began = held.pop_all()
    except Conflict as error:
        holder = str(error).partition(" is in use by ")[2].partition(";")[0] or "another process"
        raise Conflict(
            f"rota up runs in this folder already ({holder}); stop it, or start this one in another folder"
        ) from None
    except Denied as error:
        why = error.__cause__.strerror if isinstance(error.__cause__, OSError) else str(error)
        raise Denied(
            f"rota up keeps its fleet in {FOLDER} of this folder, and that cannot be written ({why}); "
            "start it in a folder where you may write"
        ) from None
    with began:
        yield


def _check_addresses(port: int | None) -> None:
    """Conflict if an address that was asked for is taken, with the option or setting of `rota up` that names it.

    The first node would say the same with options of `rota node`.
    """
    from rota.doors.http.listen import bind  # noqa: PLC0415

    if port is not None:
        wanted = {f"127.0.0.1:{port}": "--port", f"127.0.0.1:{port + 1}": "--port, as gRPC takes the one after it"}
    else:
        found = settings.look_up(NodeConfig, {})
        asked = [found[name] for name in ("http", "grpc") if found[name].origin not in ("default", "not given")]
        wanted = {setting.value: setting.origin.removeprefix("env ") for setting in asked}
    for address, option in wanted.items():
        bind(address, option).close()


async def _run(argvs: Sequence[Sequence[str]], watched_folder: Path | None) -> int:
    return await NodeProcesses(argvs, watched_folder).run()


def _token() -> list[str]:
    """The reference to the fleet's token for its nodes; empty if the settings name one."""
    if settings.look_up(NodeConfig, {})["token"].value is not None:
        return []
    if made := token.make(FOLDER):
        click.echo(f"rota: the token for HTTP and gRPC is in {made}", err=True)
    return ["--token", f"file:{FOLDER / token.FILE}"]


def _argv(app: str, number: int, port: int | None, common: Sequence[str]) -> list[str]:
    doors: list[str] = []
    if number > 1:
        doors = ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    elif port is not None:
        doors = ["--http", f"127.0.0.1:{port}", "--grpc", f"127.0.0.1:{port + 1}"]
    data = FOLDER / f"n{number}"
    return ["node", *common, *doors, "--id", f"n{number}", "--data", str(data), "--", app]


class NodeProcesses:
    """Node processes, from the first start to the last end."""

    def __init__(self, argvs: Sequence[Sequence[str]], watched_folder: Path | None = None) -> None:
        self._watched = watched_folder
        self._screen = Screen(self._reader_is_gone)
        self._lender = SocketLender()
        self._nodes = [
            NodeProcess(argv, self._screen, COLOURS[place % len(COLOURS)], self._lender)
            for place, argv in enumerate(argvs)
        ]
        self._signal: signal.Signals | None = None
        self._asked = asyncio.Event()
        self._code = 0

    async def run(self) -> int:
        """Run until asked to stop; the exit code."""
        loop, began = asyncio.get_running_loop(), time.monotonic()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._pass_on, signal.SIGHUP)
        keeping = [asyncio.create_task(node.keep(self._asked), name=node.name) for node in self._nodes]
        reporting = asyncio.create_task(report_when_ready(self._nodes, self._screen, began), name="ready")
        beside = [reporting]
        if self._watched is not None:
            beside.append(asyncio.create_task(self._reload_when_changed(self._watched), name="reload"))
        try:
            failed = await self._until_over(keeping)
            return failed or self._code
        finally:
            for task in beside:
                task.cancel()
            await self._end(keeping)
            self._lender.close()
            await self._screen.close()

    async def _reload_when_changed(self, folder: Path) -> None:
        """Have the nodes take in the code whenever a file of the app changes, until cancelled."""
        async with aclosing(watched.changes(folder)) as changes:
            async for files in changes:
                await self._screen.show(f"rota: {_named(files, folder)} changed; reloading")
                await self._reload()

    async def _reload(self) -> None:
        """Reload one node after the other; the first that refuses ends it, and its line says why."""
        for node in self._nodes:
            if node.is_stopped:
                continue
            try:
                await self._screen.show(f"rota: {node.name} runs generation {await node.reload()}")
            except Unavailable as error:
                await self._screen.show(f"rota: {node.name} was not reloaded: {error}")
            except RotaError as error:
                await self._screen.show(f"rota: {node.name} was not reloaded, the old code keeps running: {error}")
                return

    async def _until_over(self, keeping: Sequence["asyncio.Task[int]"]) -> int:
        """Wait until the fleet is stopped, all its nodes were stopped, or one never came up: then its code."""
        stopped = asyncio.create_task(self._asked.wait())
        try:
            while not stopped.done():
                running = [task for task in keeping if not task.done()]
                failed = next((task.result() for task in keeping if task.done() and task.result()), 0)
                if failed or not running:
                    self._stop(signal.SIGTERM)
                    return failed
                await asyncio.wait([stopped, *running], return_when=asyncio.FIRST_COMPLETED)
            return 0
        finally:
            stopped.cancel()

    async def _end(self, keeping: Sequence["asyncio.Task[int]"]) -> None:
        """Wait for the nodes to end; a stop at once gives them little time, and a second signal kills them."""
        while not all(task.done() for task in keeping):
            limit = STOP if self._signal == signal.SIGINT else None
            _, late = await asyncio.wait(keeping, timeout=limit)
            if late and limit is not None:
                for node in self._nodes:
                    node.send(signal.SIGKILL)

    def _stop(self, number: signal.Signals) -> None:
        again = self._signal is not None
        self._signal = signal.SIGINT if again else number
        self._asked.set()
        self._screen.stop_waiting()
        self._pass_on(signal.SIGKILL if again and number == signal.SIGINT else self._signal)

    def _reader_is_gone(self) -> None:
        """Stop as a program does whose pipe nobody reads any more, but finish what runs."""
        if self._signal is None:
            self._code = 128 + signal.SIGPIPE
            self._stop(signal.SIGTERM)

    def _pass_on(self, number: signal.Signals) -> None:
        for node in self._nodes:
            node.send(number)


async def report_when_ready(
    nodes: Sequence["NodeProcess"], screen: Screen, began: float, patience: float = PATIENCE
) -> None:
    """Poll the nodes until all are ready, and report that; also report once if they are not ready after `patience`."""
    is_late = False
    while not (leader := _leader(seen := [await node.look() for node in nodes])):
        if not is_late and time.monotonic() - began > patience:
            is_late = True
            await screen.warn(f"rota: not ready after {patience:g} s; the lines above say why")
        await asyncio.sleep(SLOW_LOOK if is_late else LOOK)
    http = next(each["doors"]["http"] for each in seen if each)
    count = "1 node" if len(seen) == 1 else f"{len(seen)} nodes"
    took = time.monotonic() - began
    line = f"ready in {took:.1f} s: {count}, {leader} leads, dashboard at http://{http}/; Ctrl-C stops"
    await screen.show(colours.bold(line) if screen.has_colours else line)


def _leader(seen: Sequence[dict[str, Any] | None]) -> str | None:
    """The leader, if all nodes are ready."""
    there = [each for each in seen if each is not None and each["is_ready"]]
    return next((each["node"] for each in there if each["leads"]), None) if len(there) == len(seen) else None


class NodeProcess:
    """One node: started, started again, and its lines passed on under its name."""

    def __init__(self, argv: Sequence[str], screen: Screen, colour: int, lender: SocketLender) -> None:
        self._argv, self._screen, self._lender = argv, screen, lender
        self.name = argv[argv.index("--id") + 1]
        self._data = Path(argv[argv.index("--data") + 1])
        self._prefix = f"\x1b[{colour}m{self.name} |\x1b[0m " if screen.has_colours else f"{self.name} | "
        self._process: asyncio.subprocess.Process | None = None
        self._was_up = False
        self.is_stopped = False
        """Did it end because it was asked to?"""

    async def keep(self, asked: asyncio.Event) -> int:
        """Run until it is asked to stop; a code other than 0 if it never came up."""
        while not asked.is_set():
            code = await self._run_once(asked)
            if asked.is_set():
                break
            if code == 0:
                self._lender.forget(self.name)
                self.is_stopped = True
                await self._screen.show(f"{self._prefix}was stopped")
                break
            if not self._was_up:
                return code
            await self._screen.show(f"{self._prefix}ended ({_ended(code)}); starting it again")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await asked.wait()
        return 0

    async def look(self) -> dict[str, Any] | None:
        """The node's own status, or None while it does not answer."""
        from rota.runtime import control_socket  # noqa: PLC0415

        try:
            seen: dict[str, Any] = await control_socket.call(self._data, "status", 2)
        except RotaError:
            return None
        self._was_up = self._was_up or bool(seen["is_ready"])
        return seen

    async def reload(self) -> int:
        """Have it take in the app's code; the generation it then runs, or the node's own reason why not."""
        from rota.runtime import control_socket  # noqa: PLC0415

        until = time.monotonic() + PATIENCE
        while True:
            try:
                done = await control_socket.call(self._data, "reload", RELOAD)
            except RotaError as error:
                # It is being started, or reloaded already, and may have imported the files before they changed.
                may_pass = error.exit_code in (Unavailable.exit_code, Conflict.exit_code)
                if not may_pass or time.monotonic() > until:
                    raise
                await asyncio.sleep(SLOW_LOOK)
            else:
                return int(done["generation"])

    def send(self, number: signal.Signals) -> None:
        """A signal; nothing if it is not there."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def _run_once(self, asked: asyncio.Event) -> int:
        """Run the node's process to its end; its exit code."""
        lifeline, ours = os.pipe()
        sockets = self._lender.connect(self.name)
        lines, theirs = os.pipe()  # not asyncio's, whose `wait` waits for all who hold the pipe
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "rota", *self._argv),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=theirs,
                stderr=asyncio.subprocess.STDOUT,
                pass_fds=[lifeline, sockets.fileno()],
                process_group=0,
                env={
                    **os.environ,
                    "ROTA_LIFELINE": str(lifeline),
                    shared_sockets.ENVIRON: str(sockets.fileno()),
                    "PYTHONUNBUFFERED": "1",
                },
            )
            kernel.tie(self._process.pid, lifeline)
        except BaseException:
            os.close(lines)
            os.close(ours)
            raise
        finally:
            os.close(lifeline)
            os.close(theirs)
            sockets.close()
        passing = asyncio.create_task(self._pass_lines(lines))
        try:
            if asked.is_set():  # while it was being started, so it did not get the signal
                self.send(signal.SIGKILL)
            code = await self._process.wait()
            await asyncio.wait([passing], timeout=0.5)  # do not wait for other processes that hold the pipe
            return code
        finally:
            passing.cancel()
            await asyncio.wait([passing])
            os.close(ours)

    async def _pass_lines(self, lines: int) -> None:
        """Show what comes out of a pipe, which is closed in the end."""
        stream = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(lines, "rb")
        )
        try:
            while line := await _line(stream):
                await self._screen.show(f"{self._prefix}{line}")
        finally:
            transport.close()


async def _line(stream: asyncio.StreamReader) -> str:
    """The next line without its end; a line that is too long comes in pieces. Empty at the end of all."""
    try:
        raw = await stream.readline()
    except ValueError:
        raw = await stream.read(65_536)
    return raw.decode(errors="replace").rstrip("\n") or (" " if raw else "")


def _named(files: Sequence[Path], folder: Path) -> str:
    first = str(files[0].relative_to(folder))
    return first if len(files) == 1 else f"{first} and {len(files) - 1} more"


def _ended(code: int) -> str:
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"exit code {code}"
