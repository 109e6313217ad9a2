"""Carrying a delivery out of the fleet: calling a URL, or running a command on this node.

Both get the same JSON object: the id of the delivery, the hook, the attempt, and the event. A URL is called with
POST and has taken the event when it answers 2xx; redirects are not followed. A command reads the object from its stdin
and has taken the event when it exits with 0. It runs as `[commands]` says: on a node that is root as another user, with
hardly any of the node's variables, in the folder `/`, and with no way to gain rights.

Another part of the agent may reap the child first, so a command's exit code comes from the shell around it, not from
the kernel. The URL's path and query never appear in an error or in the log: they may contain a secret.
"""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from asyncio import StreamReader, StreamReaderProtocol
from contextlib import AsyncExitStack, suppress
from typing import IO, cast
from urllib.parse import urlsplit

import msgspec

from rota import __version__
from rota.fleet.core.hooks.record import Delivery, Hook, HookFailure
from rota.runtime.system import kernel
from rota.runtime.system.confine import Commands

SHELL = ("/bin/sh", "-c", '"$@" >&2; echo $?', "hook")
"""Runs its arguments, with their output on stderr, and says on stdout how that ended."""

UNCONFINED = Commands()

TAIL = 500
"""Characters of a failed command's output that are kept, for admins."""

REAPED = 5.0
"""Seconds to wait for the end of a command that has reported its exit code."""


async def send(hook: Hook, delivery: Delivery, commands: Commands = UNCONFINED) -> HookFailure | None:
    """Deliver once; why that failed, or None. `commands` says how commands run."""
    content = msgspec.json.encode(
        {"id": delivery.id, "hook": hook.name, "attempt": delivery.attempts, "event": delivery.event}
    )
    try:
        async with asyncio.timeout(hook.timeout.total_seconds()):
            return await (_call(hook, delivery, content) if hook.url else _run(hook, delivery, content, commands))
    except TimeoutError:
        return HookFailure(f"it took longer than {hook.timeout.total_seconds():g} s")


async def _call(hook: Hook, delivery: Delivery, content: bytes) -> HookFailure | None:
    import httpx2  # noqa: PLC0415  # a tenth of a second that only fleets with hooks need

    logging.getLogger(httpx2.__name__).setLevel(logging.WARNING)  # below that it writes down whole URLs
    headers = {
        "content-type": "application/json",
        "user-agent": f"rota/{__version__}",
        "idempotency-key": delivery.id,
    }
    try:
        async with (
            httpx2.AsyncClient(timeout=hook.timeout.total_seconds()) as client,
            client.stream("POST", hook.url, content=content, headers=headers) as answer,
        ):
            status, is_taken = answer.status_code, answer.is_success  # of the body nothing is read, however long it is
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        return HookFailure(f"{urlsplit(hook.url).netloc} was not reached: {type(error).__name__}")
    return None if is_taken else HookFailure(f"{urlsplit(hook.url).netloc} answered {status}")


async def _run(hook: Hook, delivery: Delivery, content: bytes, commands: Commands) -> HookFailure | None:
    if commands.refusal:
        return HookFailure(commands.refusal)
    about = {
        "HOOK_ID": delivery.id,
        "HOOK_NAME": hook.name,
        "HOOK_EVENT": delivery.event.kind,
        "HOOK_SUBJECT": delivery.event.subject,
    }
    async with AsyncExitStack() as up:
        try:
            told = kernel.scratch_file("hook")
            up.callback(os.close, told)
            os.write(told, content)
            os.lseek(told, 0, os.SEEK_SET)
            process = _start(hook.command, told, about, commands)
        except (OSError, ValueError) as error:
            return HookFailure(f"the command could not be started: {getattr(error, 'strerror', None) or error}")
        up.push_async_callback(_reap, process)
        try:
            ended = await _read(up, cast(IO[bytes], process.stdout))
            output = await _read(up, cast(IO[bytes], process.stderr))
            return await _outcome(ended, output)
        except BaseException:  # it still runs: its number is its own, and its group is all that it started
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise


def _start(command: list[str], told: int, about: dict[str, str], commands: Commands) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*_confined(commands), *SHELL, *command],
        stdin=told,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**commands.environment(os.environ), **about},
        cwd="/" if commands.are_others else None,
        start_new_session=True,
    )


def _confined(commands: Commands) -> list[str]:
    """The prefix of a confined command: a program that confines itself and then executes the command."""
    if commands == UNCONFINED:
        return []
    return [
        sys.executable,
        "-P",
        "-m",
        "rota.runtime.system.confined",
        msgspec.json.encode(commands.confinement).decode(),
    ]


async def _read(up: AsyncExitStack, pipe: IO[bytes]) -> StreamReader:
    reader = StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: StreamReaderProtocol(reader), pipe)
    up.callback(transport.close)
    return reader


async def _outcome(ended: StreamReader, output: StreamReader) -> HookFailure | None:
    """Why a command failed; None if it did not. Its output is read meanwhile, or a full pipe would block it."""
    tail = bytearray()

    async def listen() -> None:
        while part := await output.read(65536):
            tail.extend(part)
            del tail[:-TAIL]

    listening = asyncio.create_task(listen())
    try:
        code = (await ended.read(16)).decode(errors="replace").strip()
        if code == "0":
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):  # its last words are on their way, unless a child holds the pipe open
                await listening
    finally:
        listening.cancel()
        await asyncio.wait([listening])
    return HookFailure(f"the command exited with {code or 'a signal'}", tail.decode(errors="replace").strip())


async def _reap(process: "subprocess.Popen[bytes]") -> None:
    """Reap a command that has ended, unless another part of the agent does."""
    with suppress(subprocess.TimeoutExpired):
        await asyncio.to_thread(process.wait, REAPED)
