"""The doorkeeper: knows who may come in at a node's doors, and keeps the list up to date.

It begins with the token of the node's own folder and follows those in the store, so that a token that is made, changed
or revoked anywhere counts here a moment later. While the store is away, the list stays as it was: what a caller could
still ask is what the node knows of itself, for everything else needs the store too.

Who is turned away is counted and noted. Both doors ask this; none of them decides for itself.
"""

from collections.abc import Callable
from contextlib import aclosing

from rota.decide.access import Access, Admitted, Gate, TurnedAway
from rota.decide.attempts import Failures, source_of
from rota.kit.clock import SYSTEM, Clock
from rota.model import keys
from rota.model.ids import Key
from rota.model.token import TokenRecord
from rota.store.audit import Note, forget
from rota.store.follow import follow_all
from rota.store.port import Store
from rota.store.records import understood

WAIT = 1
"""Seconds that somebody should wait who was turned away too often."""


class Doorkeeper:
    """Who may come in here, at this moment."""

    def __init__(
        self, gate: Gate, clock: Clock = SYSTEM, *, note: Note = forget, failures: Failures | None = None
    ) -> None:
        self._own = self._gate = gate
        self._clock, self._note, self._failures = clock, note, failures or Failures()
        self._records: dict[Key, TokenRecord] = {}
        self._revoked: set[Key] = set()

    def judge(self, authorization: str | None, needed: Access) -> Admitted | TurnedAway:
        """Who a caller is, if it may do this; otherwise why not. Nothing is noted."""
        return self._gate.judge(authorization, needed, self._clock.wall())

    def is_revoked(self, serial: str) -> bool:
        """Was the certificate with this serial taken back?"""
        return keys.revoked(serial) in self._revoked

    @property
    def revoked(self) -> frozenset[str]:
        """The serials of the certificates that were taken back."""
        return frozenset(key.removeprefix(keys.REVOKED) for key in self._revoked)

    def turn_away(self, refused: TurnedAway, *, door: str, address: str, what: str) -> TurnedAway:
        """Take note of a refusal; what the caller is told, which may be to wait.

        `address` may name the proxy that the caller came through: `203.0.113.7 via 10.0.0.5`.
        """
        source = source_of(address.partition(" ")[0])
        if refused.is_stranger and self._failures.is_too_often(source, self._clock.monotonic()):
            self._note(by=refused.name, origin=f"{door} {source}", what="several", refused="too many refusals")
            sentence = f"too many refused calls from your address; wait {WAIT} s, and come with a token that is good"
            return TurnedAway(sentence, refused.is_stranger, refused.name, is_too_often=True)
        self._note(by=refused.name, origin=f"{door} {address}", what=what, refused=refused.why)
        return refused

    async def follow(self, store: Store, heard: Callable[[], None] = lambda: None) -> None:
        """Learn which tokens the store knows, for ever; `heard` is called after each change."""
        async with aclosing(follow_all(store, keys.TOKENS)) as coming:
            async for news in coming:
                if news.is_whole:
                    self._records.clear()
                for change in news.changes:
                    self._records.pop(change.key, None)
                    if (record := understood(TokenRecord, change.entry)) is not None:
                        self._records[change.key] = record
                self._gate = self._own.with_records(self._records.values())
                heard()

    async def follow_revoked(self, store: Store, heard: Callable[[], None] = lambda: None) -> None:
        """Learn which certificates were taken back, for ever; `heard` is called after each change."""
        async with aclosing(follow_all(store, keys.REVOKED)) as coming:
            async for news in coming:
                if news.is_whole:
                    self._revoked.clear()
                for change in news.changes:
                    (self._revoked.add if change.entry else self._revoked.discard)(change.key)
                heard()
