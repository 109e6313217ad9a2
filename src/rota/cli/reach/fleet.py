"""A fleet, as commands call it: each command is written once, and reaches the fleet through its store or its doors.

`ask` and `on_fleet` open what a target names. Inside, `fleet.do(operations.get_job, "report")` is the operation itself
on the store, or the HTTP request for it (`remote`); the answer is the same. The store asks for no token, so the audit
trail marks changes made through it, with the user and the machine: use the store when no node answers.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from rota.cli.reach.on_store import audited
from rota.cli.reach.targets import FleetTarget
from rota.cli.terminal import tables
from rota.cli.terminal.progress import ProgressLine
from rota.doors.paging import LONGEST
from rota.jobs.logs.open import open_logs
from rota.jobs.logs.port import Logs
from rota.store import Store, open_store

P = ParamSpec("P")
T = TypeVar("T")


class FleetClient(Protocol):
    """What can be asked of a fleet."""

    async def do(
        self, operation: Callable[Concatenate[Store, P], Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """What an operation answers."""

    def each(
        self, operation: Callable[Concatenate[Store, P], AsyncGenerator[T, None]], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncGenerator[T, None]:
        """What a streaming operation yields."""

    async def now(self) -> datetime:
        """The store's clock."""

    @property
    def logs(self) -> Logs:
        """Where the output of runs is, for operations that need it."""


class StoreFleet:
    """A fleet by its store."""

    def __init__(self, store: Store, logs: Logs | None = None) -> None:
        self._store, self._logs = store, logs

    async def do(
        self, operation: Callable[Concatenate[Store, P], Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """What an operation answers."""
        return await operation(self._store, *args, **kwargs)

    def each(
        self, operation: Callable[Concatenate[Store, P], AsyncGenerator[T, None]], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncGenerator[T, None]:
        """What a streaming operation yields."""
        return operation(self._store, *args, **kwargs)

    async def now(self) -> datetime:
        """The store's clock."""
        return await self._store.now()

    @property
    def logs(self) -> Logs:
        """Where the output of runs is."""
        assert self._logs is not None, "it was opened without"
        return self._logs


@asynccontextmanager
async def opened(target: FleetTarget, logs: str | None = None) -> AsyncIterator[FleetClient]:
    """The fleet, to be asked inside. `logs`: where output is kept, if the store does not imply it."""
    if target.server is not None:
        from rota.cli.reach.remote import DoorFleet  # noqa: PLC0415  # a tenth of a second that others need not wait

        async with DoorFleet(target.server) as door:
            yield door
        return
    assert target.store is not None, "a target names a store or a server"
    async with open_store(target.store, create=False) as store:
        kept = open_logs(logs, target.store, store, Path(".rota/logs"))
        try:
            yield StoreFleet(audited(store), kept)
        finally:
            await kept.close()


async def every(fleet: FleetClient, thing: str, operation: Callable[..., Awaitable[Any]], **asked: object) -> list[Any]:
    """All entries of a list, page by page; those that a newer Rota wrote are reported on stderr."""
    found: list[Any] = []
    token: str | None = None
    while True:
        page = await fleet.do(operation, **asked, limit=LONGEST, token=token)
        found += getattr(page, page.__struct_fields__[0])
        for name, why in page.not_understood.items():
            tables.say(f"rota: {thing} {name}: {why}", err=True)
        token = page.next
        if token is None:
            return found


def on_fleet(
    target: FleetTarget, work: Callable[[FleetClient], Awaitable[T]], doing: str = "", *, logs: str | None = None
) -> T:
    """What `work` returns. `doing`: what is shown meanwhile, like "suspending clicks"."""

    async def run() -> T:
        async with opened(target, logs) as fleet, ProgressLine(doing).turning() if doing else nullcontext():
            return await work(fleet)

    return asyncio.run(run())


def ask(
    target: FleetTarget,
    operation: Callable[Concatenate[Store, P], Awaitable[T]],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """What one operation answers."""
    return on_fleet(target, lambda fleet: fleet.do(operation, *args, **kwargs))


def ask_and_show(
    target: FleetTarget,
    doing: str,
    operation: Callable[Concatenate[Store, P], Awaitable[T]],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """What one operation answers that may take a while; `doing` is shown meanwhile, like "suspending clicks"."""
    return on_fleet(target, lambda fleet: fleet.do(operation, *args, **kwargs), doing)
