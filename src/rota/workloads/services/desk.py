"""A desk: one worker's way through its requests, hooks included.

`answer` sees that each request gets at most one reply, whatever its handler does: an error, an exit, nonsense returned
or, for async handlers, time running out all become an error reply. A handler that is not async runs where it is called,
and whoever calls must watch its time.

Errors of hooks are reported and passed over, except before a request: what a hook was to check was then not checked, so
the handler does not run.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from inspect import isawaitable
from typing import Any

from rota.workloads.context import Client, Reply, Request
from rota.workloads.services.codes import Ret
from rota.workloads.services.handlers import Function, Handler, Hooks

log = logging.getLogger(__name__)

Report = Callable[[str, BaseException], None]
"""Told of what went wrong in a user's function: where, and the error."""


class Desk:
    """Answers requests one after the other, or several at a time if it is called so."""

    def __init__(
        self,
        service: str,
        handlers: Mapping[int, Handler],
        hooks: Hooks,
        *,
        timeout: timedelta | None = None,
        answers_failures: bool = True,
        report: Report | None = None,
    ) -> None:
        self._service, self._handlers, self._hooks = service, handlers, hooks
        self._timeout, self._answers_failures = timeout, answers_failures
        self._report = report or _log
        self._had_one = False

    async def start(self) -> None:
        """Run what is to run when a worker starts."""
        await self._run("start_worker", self._hooks.start_worker)
        await self._run("open_conn", self._hooks.open_conn)

    async def stop(self) -> None:
        """Run what is to run when a worker stops."""
        await self._run("close_conn", self._hooks.close_conn)
        await self._run("stop_worker", self._hooks.stop_worker)

    def request(
        self, *, cmd: int, sn: int, body: bytes, group: int, client: Client | None, send: Callable[[Reply], None]
    ) -> Request:
        """A request whose reply goes to `send`, with the hooks around it."""

        def respond(reply: Reply) -> None:
            self._run_now("before_response", self._hooks.before_response, request, reply)
            send(reply)
            self._run_now("after_response", self._hooks.after_response, request, reply)

        request = Request(service=self._service, cmd=cmd, sn=sn, body=body, group=group, client=client, send=respond)
        return request

    async def answer(self, request: Request) -> None:
        """Run the request's handler and send its reply, if it has one."""
        handler = self._handlers.get(request.cmd)
        if handler is None:
            self._fail(request, Ret.UNKNOWN_CMD)
            return
        if not self._had_one:
            self._had_one = True
            await self._run("before_first_request", self._hooks.before_first_request, request)
        result, error, ret = await self._handle(handler, request)
        for hooks in (handler.hooks, self._hooks):
            await self._run("after_request", hooks.after_request, request, error)
        if ret is not None:
            self._fail(request, ret)
        elif result is not None:
            request.write(result)

    async def _handle(
        self, handler: Handler, request: Request
    ) -> tuple[Reply | None, BaseException | None, Ret | None]:
        """The reply; or what went wrong, and the code for that."""
        where = "before_request"
        limit = handler.spec.timeout or self._timeout
        try:
            async with asyncio.timeout(limit.total_seconds() if limit else None) as clock:
                for hook in (*self._hooks.before_request, *handler.hooks.before_request):
                    await _call(hook, request)
                if request.is_interrupted:
                    return None, None, None
                where = f"cmd {request.cmd}"
                result = await _call(handler.function, request)
                return (None if result is None else Reply.of(result)), None, None
        except (Exception, SystemExit) as error:  # an exit of a handler must not cost the worker
            self._report(f'service "{self._service}": {where}', error)
            late = isinstance(error, TimeoutError) and clock.expired()
            return None, error, Ret.DEADLINE if late else Ret.HANDLER_ERROR

    def _fail(self, request: Request, ret: Ret) -> None:
        if self._answers_failures:
            request.write(Reply(ret=ret))

    async def _run(self, hook: str, functions: Iterable[Function], *arguments: object) -> None:
        for function in functions:
            try:
                await _call(function, *arguments)
            except Exception as error:
                self._report(f'service "{self._service}": {hook}', error)

    def _run_now(self, hook: str, functions: Iterable[Function], *arguments: object) -> None:
        for function in functions:
            try:
                function(*arguments)
            except Exception as error:
                self._report(f'service "{self._service}": {hook}', error)


async def _call(function: Function, *arguments: object) -> Any:
    result = function(*arguments)
    return await result if isawaitable(result) else result


def _log(where: str, error: BaseException) -> None:
    log.error("a user's function failed", extra={"where": where}, exc_info=error)
