"""Claiming duties in the store, and doing a chore once per beat of the whole fleet."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from rota.fleet.core.leading import duties
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, Unavailable, Unknown
from rota.model.ids import Instant, Key, NodeId, Revision, SessionId
from rota.model.peers import DutyHeld
from rota.store.port import Absent, At, Entry, Expect, Put, Store
from rota.store.records import understood

log = logging.getLogger(__name__)

RETRY = 1.0
"""Seconds until a store that was away is asked again."""

Chore = Callable[[int], Awaitable[None]]
"""What is to be done in a beat."""


class Duties:
    """One node's part in the fleet's duties, for the length of its session.

    `score` gives its load score; `incarnation` is the key of the store's incarnation that it joined.
    """

    def __init__(
        self,
        store: Store,
        node: NodeId,
        session: SessionId,
        incarnation: At,
        clock: Clock,
        score: Callable[[], float],
    ) -> None:
        self._store, self._node, self._session = store, node, session
        self._incarnation, self._clock, self._score = incarnation, clock, score
        self._seen: dict[str, tuple[Revision, Instant]] = {}

    async def claim(self, duty: str, beat: int) -> bool:
        """Claim this beat of a duty; True on at most one node of the fleet."""
        entry = await self._store.get(keys.duty(duty))
        return await self._claim(duty, beat, entry, understood(DutyHeld, entry, log))

    async def keep(self, duty: str, every: timedelta) -> None:
        """Claim each beat of a duty, unless an idler node does, until cancelled; for duties where being the holder is
        the chore."""

        async def nothing(_: int) -> None:
            """There is no chore beyond holding the duty."""

        await self.every(duty, every, nothing)

    async def every(self, duty: str, every: timedelta, chore: Chore) -> None:
        """Do a chore once per beat in the whole fleet, on the idlest node, until cancelled.

        An error of the store ends the chore of this beat only.
        """
        while True:
            try:
                beat = await self._next(duty, every)
                if beat is not None:
                    await chore(beat)
            except (Conflict, Unavailable, Unknown, Invalid) as error:
                log.debug("duty not done", extra={"duty": duty, "node": self._node, "why": str(error)})
                await asyncio.sleep(RETRY)

    async def _next(self, duty: str, every: timedelta) -> int | None:
        """Wait for the next beat; its number if it is ours."""
        now = await self._store.now()
        beat = duties.beat_of(now, every) + 1
        await asyncio.sleep((duties.until(beat, now, every) + duties.wait(self._score())).total_seconds())
        entry = await self._store.get(keys.duty(duty))
        held = understood(DutyHeld, entry, log)
        wanted = duties.claimed(held, beat, self._unchanged(duty, entry), every)
        return wanted if wanted is not None and await self._claim(duty, wanted, entry, held) else None

    async def _claim(self, duty: str, beat: int, entry: Entry | None, held: DutyHeld | None) -> bool:
        if held is not None and beat <= held.beat:
            return False
        key = keys.duty(duty)
        claim = DutyHeld(beat=beat, node=self._node, session=self._session)
        try:
            await self._store.commit(
                Put(key, codec.encode(claim)), expect=[*self._expected(key, entry), self._incarnation]
            )
        except Conflict:
            return False
        except Unknown:
            return understood(DutyHeld, await self._store.get(key), log) == claim
        return True

    def _expected(self, key: Key, entry: Entry | None) -> list[Expect]:
        """The expectation that no other node has claimed it meanwhile."""
        return [At(key, entry.modified) if entry else Absent(key)]

    def _unchanged(self, duty: str, entry: Entry | None) -> timedelta:
        """How long this node has seen the record as it is."""
        now, revision = self._clock.monotonic(), entry.modified if entry else Revision(0)
        seen = self._seen.get(duty)
        if seen is None or seen[0] != revision:
            seen = self._seen[duty] = revision, now
        return timedelta(seconds=now - seen[1])
