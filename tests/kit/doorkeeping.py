"""A doorkeeper that follows the tokens in a store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from rota.doors.guard.doorkeeper import Doorkeeper
from rota.fleet.core.access.gate import Access, AdmittedCaller, Gate, known
from rota.store import Store
from tests.kit.hand_clock import HandClock

OWN, ADMIN = "rota_own_0123456789", "rota_admin_0123456789"


GATE = Gate((known(OWN, Access.NODE), known(ADMIN, Access.ADMIN, "ada")), "see: cat data/token")


class Time(HandClock):
    """A clock whose time of day is set by hand, too."""

    def __init__(self) -> None:
        super().__init__()
        self.now = super().wall()

    def wall(self) -> datetime:
        return self.now


@asynccontextmanager
async def watched(store: Store, clock: Time) -> AsyncIterator[Doorkeeper]:
    """A doorkeeper that follows the store, and has heard all there was."""
    keeper, heard = Doorkeeper(GATE, clock), asyncio.Event()
    following = asyncio.create_task(keeper.follow(store, heard.set))
    try:
        await asyncio.wait_for(heard.wait(), 60)
        yield keeper
    finally:
        following.cancel()
        await asyncio.wait([following])


async def admitted(keeper: Doorkeeper, token: str, expected: bool) -> bool:
    """Whether a doorkeeper comes to think so of a token."""
    async with asyncio.timeout(60):
        while isinstance(keeper.judge(f"Bearer {token}", Access.VIEW), AdmittedCaller) is not expected:  # noqa: ASYNC110
            await asyncio.sleep(0)
    return expected
