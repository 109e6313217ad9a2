"""A desk: one worker's way through its requests, hooks included.

`answer` sees that each request gets at most one reply, whatever its handler does: an error, an exit, nonsense returned
or, for async handlers, time running out all become an error reply. A handler that is not async runs where it is called,
or where `aside` puts it; the caller must watch its time.

A service without any async function needs no event loop: `drive` runs what the desk does to its end.

Errors of hooks are reported and passed over, except before a request: what a hook was to check was then not checked, so
the handler does not run.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from datetime import timedelta
from inspect import isawaitable
from types import NoneType
from typing import Any, TypeVar

from rota.model.errors import Invalid
from rota.services.core.codes import Ret
from rota.services.core.context import Reply, Request, RequestDoor
from rota.services.core.frames import BOX, Layout, wire
from rota.services.core.handlers import Function, Handler, Hooks

log = logging.getLogger(__name__)

T = TypeVar("T")

Report = Callable[[str, BaseException], None]
"""Called with what went wrong in a user's function: where, and the error."""

Aside = Callable[..., Awaitable[Any]]
"""Runs a function that is not async somewhere else: the function and its arguments."""


_PLAIN = (bytes, str, dict, Reply, NoneType)

_FAILURES = (Exception, SystemExit, KeyboardInterrupt, asyncio.CancelledError)
"""What a user's function may raise that must not cost the worker; a request's own time limit comes as TimeoutError."""


class RequestRunner:
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
        aside: Aside | None = None,
        layout: Layout = BOX,
    ) -> None:
        self._service, self._handlers, self._hooks = service, handlers, hooks
        self._timeout, self._answers_failures = timeout, answers_failures
        self._report = report or _log
        self._aside, self._wire = aside, wire(layout)
        self._had_one = not hooks.before_first_request
        self._bare = self._find_bare()

    async def start(self) -> None:
        """Run what is to run when a worker starts."""
        await self._run("start_worker", self._hooks.start_worker)
        await self._run("open_conn", self._hooks.open_conn)

    async def stop(self) -> None:
        """Run what is to run when a worker stops."""
        await self._run("close_conn", self._hooks.close_conn)
        await self._run("stop_worker", self._hooks.stop_worker)

    def request(self, cmd: int, sn: int, body: bytes, group: int, door: RequestDoor) -> Request:
        """A request whose reply goes to `door`, with the hooks around it."""
        if not (self._hooks.before_response or self._hooks.after_response):
            return Request(self._service, cmd, sn, body, group, door)
        return Request(self._service, cmd, sn, body, group, _Hooked(self, door))

    async def answer(self, request: Request, left: float | None = None) -> None:
        """Run the request's handler and send its reply, if it has one; `left` is the time it has, in seconds."""
        handler = self._handlers.get(request.cmd)
        if handler is None:
            self._fail(request, Ret.UNKNOWN_CMD)
            return
        if not self._had_one:
            self._had_one = True
            self._bare = self._find_bare()
            await self._run("before_first_request", self._hooks.before_first_request, request)
        reply, error, ret = await self._handle(handler, request, left)
        for hooks in (handler.hooks, self._hooks):
            if hooks.after_request:
                await self._run("after_request", hooks.after_request, request, error)
        if ret is None:
            self._end(request, reply)
        else:
            self._fail(request, ret)

    def answer_at_once(self, request: Request) -> bool:
        """Answer a request whose handler is not async and has no hooks; otherwise return False, with nothing done.

        Most requests are of this kind, and the general way takes twice as long.
        """
        function = self._bare.get(request.cmd)
        if function is None:
            return False
        try:
            result = function(request)
            reply = self._reply(result if isinstance(result, _PLAIN) or not isawaitable(result) else drive(_of(result)))
        except _FAILURES as error:
            self._report(f'service "{self._service}": cmd {request.cmd}', error)
            self._fail(request, Ret.HANDLER_ERROR)
        else:
            self._end(request, reply)
        return True

    async def call(self, where: str, function: Function) -> None:
        """Run a user's function outside of any request; its errors are reported."""
        await self._run(where, (function,))

    async def _handle(
        self, handler: Handler, request: Request, left: float | None
    ) -> tuple[Reply | None, BaseException | None, Ret | None]:
        """The reply; or what went wrong, and the code for that."""
        clock = self._clock(handler, left) if handler.spec.is_async else None
        begun: list[Handler] = []
        try:
            if clock is None:
                return await self._result(handler, request, begun), None, None
            async with clock:
                return await self._result(handler, request, begun), None, None
        except _FAILURES as error:
            if _is_cancelled(error):
                raise
            stage = f"cmd {request.cmd}" if begun else "before_request"
            self._report(f'service "{self._service}": {stage}', error)
            late = isinstance(error, TimeoutError) and clock is not None and clock.expired()
            return None, error, Ret.DEADLINE if late else Ret.HANDLER_ERROR

    async def _result(self, handler: Handler, request: Request, begun: list[Handler]) -> Reply | None:
        """The handler's answer; the handler is in `begun` once all hooks before it have run."""
        for hooks in (self._hooks, handler.hooks):
            for hook in hooks.before_request:
                await self._call(hook, request)
        if request.is_interrupted:
            return None
        begun.append(handler)
        if handler.spec.is_async:
            return self._reply(await handler.function(request))
        return self._reply(await self._call(handler.function, request))

    def _reply(self, result: object) -> Reply | None:
        """What a handler returned, as an answer; None if it wants none."""
        if result is None:
            return None
        reply = Reply.of(result)
        if reply.fields:
            self._wire.check(reply.fields)
        return reply

    def _find_bare(self) -> dict[int, Function]:
        """The handlers that `answer_at_once` can run, by cmd."""
        around = self._hooks
        if not self._had_one or around.before_request or around.after_request:
            return {}
        return {
            cmd: handler.function
            for cmd, handler in self._handlers.items()
            if not (handler.spec.is_async or handler.hooks.before_request or handler.hooks.after_request)
        }

    def _clock(self, handler: Handler, left: float | None) -> asyncio.Timeout | None:
        """What ends an async handler at its timeout, if it has one; a handler that is not async cannot be ended from
        within."""
        if left is None:
            limit = handler.spec.timeout or self._timeout
            if limit is None:
                return None
            left = limit.total_seconds()
        return asyncio.timeout(left)

    def _end(self, request: Request, reply: Reply | None) -> None:
        """The handler has ended well; send its reply, if it has one."""
        request.is_over = True
        if reply is None:
            return
        try:
            request.write(reply)
        except Invalid as wrong:
            self._report(f'service "{self._service}": cmd {request.cmd}', wrong)
            self._fail(request, Ret.HANDLER_ERROR)

    def _fail(self, request: Request, ret: Ret) -> None:
        request.is_over = True
        if self._answers_failures:
            request.write(Reply(ret=ret))

    async def _run(self, hook: str, functions: Iterable[Function], *arguments: object) -> None:
        for function in functions:
            try:
                await self._call(function, *arguments)
            except _FAILURES as error:
                if _is_cancelled(error):
                    raise
                self._report(f'service "{self._service}": {hook}', error)

    def around(self, hook: str, request: Request, reply: Reply) -> None:
        """Run the hooks before or after an answer is sent."""
        for function in getattr(self._hooks, hook):
            try:
                function(request, reply)
            except _FAILURES as error:
                self._report(f'service "{self._service}": {hook}', error)

    async def _call(self, function: Function, *arguments: object) -> Any:
        if self._aside is not None and not asyncio.iscoroutinefunction(function):
            result = await self._aside(function, *arguments)
        else:
            result = function(*arguments)
        # The usual return types are checked first: asking whether a value is awaitable takes longer.
        return result if isinstance(result, _PLAIN) or not isawaitable(result) else await result


class _Hooked:
    """A request's door, with the hooks around its answer."""

    def __init__(self, desk: RequestRunner, door: RequestDoor) -> None:
        self._desk, self._door = desk, door
        self.client, self.fields = door.client, door.fields

    def reply(self, request: Request, reply: Reply) -> None:
        """Send, with the hooks around it."""
        self._desk.around("before_response", request, reply)
        self._door.reply(request, reply)
        self._desk.around("after_response", request, reply)


def drive(work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns, run to its end without an event loop; nothing in it may wait."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # what the coroutine returned
    work.close()
    raise Invalid("a function that is not async waited for something; write it with async def")


async def _of(work: Awaitable[T]) -> T:
    """What `work` gives, as a coroutine."""
    return await work


def _is_cancelled(error: BaseException) -> bool:
    """Is this worker's own task being cancelled, as opposed to a user's function that raised CancelledError?"""
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop
        return False
    return task is not None and task.cancelling() > 0


def _log(where: str, error: BaseException) -> None:
    log.error("a user's function failed", extra={"where": where}, exc_info=error)
