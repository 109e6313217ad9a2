"""The control socket: how commands on the same machine reach a running node.

One request a connection: a line of JSON goes in (`{"do": "reload"}`), a line of JSON comes out (`{"ok": …}` or
`{"error": …, "exit_code": …}`). The socket lies in the data folder, which other users may not enter.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from rota.kit.decoding import UNREADABLE
from rota.kit.files import privately
from rota.model.errors import Invalid, RotaError, Unavailable
from rota.runtime.system.short_path import short

log = logging.getLogger(__name__)

NAME = "control.sock"
LINE = 1024 * 1024

Verb = Callable[[dict[str, Any]], Awaitable[Any]]


@asynccontextmanager
async def serve(folder: Path, verbs: Mapping[str, Verb]) -> AsyncIterator[None]:
    """Answer on the folder's socket while inside."""
    calls: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        calls.add(task)
        try:
            async with asyncio.timeout(10):
                line = await reader.readline()
            writer.write(msgspec.json.encode(await _reply(line, verbs)) + b"\n")
            await writer.drain()
        except (OSError, TimeoutError, ValueError, asyncio.CancelledError) as error:
            # Cancelled is what a reload is when the node stops; asyncio would log this task's end as an error.
            log.debug("control connection ended", extra={"why": str(error)})
        finally:
            calls.discard(task)
            writer.close()

    path = folder / NAME
    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(answer, sock=_bound(path), limit=LINE)
    try:
        yield
    finally:
        server.close()
        for call in list(calls):
            call.cancel()
        path.unlink(missing_ok=True)


def _bound(path: Path) -> socket.socket:
    """A socket at `path` that no other user can connect to at any moment."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short(path) as name, privately():
            sock.bind(str(name))
        path.chmod(0o600)
    except BaseException:
        sock.close()
        raise
    return sock


async def call(folder: Path, do: str, timeout: float, **arguments: Any) -> Any:
    """The answer of the node on `folder`; Unavailable if no node runs there, the node's own error if it refuses."""
    try:
        with short(folder / NAME) as name:
            reader, writer = await asyncio.open_unix_connection(name, limit=LINE)
    except OSError:
        raise Unavailable(f"no node is running on {folder}; start one, or name another with --data") from None
    try:
        async with asyncio.timeout(timeout):
            writer.write(msgspec.json.encode({"do": do, **arguments}) + b"\n")
            line = await reader.readline()
    except TimeoutError:
        raise Unavailable(f"the node on {folder} did not answer within {timeout:g} s; is it frozen?") from None
    except ConnectionError:
        line = b""  # the node ended without reading the request
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    if not line:
        raise Unavailable(f"the node on {folder} ended before it answered")
    reply = msgspec.json.decode(line)
    if "error" in reply:
        raise ControlError(reply["error"], reply.get("exit_code", 1))
    return reply["ok"]


class ControlError(RotaError):
    """The node's own error, with its exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # this family's code is the node's


async def _reply(line: bytes, verbs: Mapping[str, Verb]) -> dict[str, Any]:
    try:
        try:
            request = msgspec.json.decode(line, type=dict[str, Any])
        except UNREADABLE as error:
            raise Invalid(f"the request is no JSON object: {error}") from None
        verb = verbs.get(request.get("do", ""))
        if verb is None:
            raise Invalid(f"no such verb: {request.get('do')!r}; there are {', '.join(sorted(verbs))}")
        return {"ok": await verb(request)}
    except RotaError as error:
        return {"error": str(error), "exit_code": error.exit_code}
    except Exception as error:  # the caller gets the message, the log has the traceback
        log.exception("a control request failed")
        return {"error": f"{type(error).__name__}: {error}", "exit_code": 1}
