"""Work on a fleet's store, from a command."""

import asyncio
import platform
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from rota.cli.reach.who import me
from rota.cli.terminal.progress import ProgressLine
from rota.fleet.audit.trail import AuditedStore, make
from rota.kit.time.clock import SYSTEM
from rota.model import codec, keys
from rota.store import Put, Store, open_store

T = TypeVar("T")


def on_store(url: str, work: Callable[[Store], Awaitable[T]], doing: str = "") -> T:
    """What `work` returns; a store that no fleet has used is an error, not a new store.

    The audit trail records the user, the machine and the command of each change. `doing`: the progress text shown
    meanwhile, like "suspending clicks".
    """

    async def run() -> T:
        async with open_store(url, create=False) as store:
            if not doing:
                return await work(audited(store))
            async with ProgressLine(doing).turning():
                return await work(audited(store))

    return asyncio.run(run())


def audited(store: Store) -> Store:
    """The store, for a command: the audit trail records the user for each change."""
    return AuditedStore(store, SYSTEM, by=me(), origin=_origin(), what=_what())


def note(more: str) -> Put:
    """An entry of the audit trail for a command that changes the store as a whole, and no key by its name."""
    entry = make(SYSTEM.wall(), by=me(), origin=_origin(), what=f"{_what()} {more}")
    return Put(keys.audit_open(entry.id), codec.encode(entry))


def _what() -> str:
    context = click.get_current_context(silent=True)
    return context.command_path if context else "rota"


def _origin() -> str:
    return f"store, {me()}@{platform.node()}"
