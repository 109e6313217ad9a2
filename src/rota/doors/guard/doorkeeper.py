"""The doorkeeper: decides which callers are admitted at a node's doors, and keeps the list of tokens up to date.

It begins with the token of the node's own folder and follows those in the store, so that a token that is made, changed
or revoked anywhere counts here a moment later. While the store is away, the list stays as it was: the node can then
answer only what it knows itself, as everything else needs the store too.

The token of the folder may be one that the store has known, and revoked since. The store notes every digest that a
record ever had (`keys.TOKEN_DIGESTS`), so the doorkeeper looks up the folder's digest before it accepts that token.
Digests of records that an older Rota wrote are noted here, as soon as a record is seen.

Refused calls are counted and recorded. Both doors use the doorkeeper; neither decides for itself.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from random import random

from rota.fleet.audit.trail import AuditRecorder, forget
from rota.fleet.core.access.gate import Access, AdmittedCaller, Gate, KnownToken, TurnedAway, by_digest, known_of
from rota.fleet.core.access.logins import Failures, source_of
from rota.fleet.core.access.token import DigestRecord, TokenRecord
from rota.kit.time.backoff import delays
from rota.kit.time.clock import SYSTEM, Clock
from rota.model import codec, keys
from rota.model.errors import Conflict, Unavailable, Unknown
from rota.model.ids import Key
from rota.store.follow import RETRY, follow_all
from rota.store.port import Absent, Put, Store
from rota.store.records import understood

WAIT = 1
"""Seconds that a caller should wait after too many refusals."""


class Doorkeeper:
    """The tokens and certificates that are accepted here now."""

    def __init__(
        self,
        gate: Gate,
        clock: Clock = SYSTEM,
        *,
        note: AuditRecorder = forget,
        failures: Failures | None = None,
        asks_first: bool = False,
    ) -> None:
        """`gate` knows the node's own tokens; with `asks_first`, they are refused until the store was asked."""
        self._clock, self._note, self._failures = clock, note, failures or Failures()
        self._asks_first = asks_first
        self._records: dict[Key, TokenRecord] = {}
        self._recorded: dict[bytes, KnownToken] = {}
        """The store's tokens by digest. Changing one costs the same with thousands of tokens."""

        self._once: dict[bytes, str] = {}
        """The node's own digests that a record of the store has or had → the name of that record."""

        self._asked: set[bytes] = set()
        """The node's own digests that the store was asked about."""

        self._noted: set[bytes] = set()
        """Digests of records that are noted in the store."""

        self._to_note: dict[bytes, str] = {}
        """Digests that may not be noted in the store yet → the name of their record; the record may be gone by now."""

        self._to_ask = asyncio.Event()
        self.has_asked = asyncio.Event()
        """Set once the store was asked about the node's own tokens."""

        self._revoked: set[Key] = set()
        self._own = gate
        self._change()

    def renew(self, gate: Gate) -> None:
        """Replace the node's own tokens; the earlier ones are refused unless the store knows them."""
        self._own = gate
        self._to_ask.set()
        self._change()

    def judge(self, authorization: str | None, needed: Access) -> AdmittedCaller | TurnedAway:
        """The caller, if it may do this; otherwise why not. Nothing is recorded."""
        return self._gate.judge(authorization, needed, self._clock.wall())

    def judge_digest(self, digest: bytes, needed: Access) -> AdmittedCaller | TurnedAway:
        """The same, for a caller that has presented a token with this digest before."""
        return self._gate.judge_digest(digest, needed, self._clock.wall())

    def for_nodes(self) -> list[str]:
        """The digests, in hex, of all tokens that nodes may use with each other now."""
        return [digest.hex() for digest in self._gate.opening(Access.NODE, self._clock.wall())]

    def is_revoked(self, serial: str) -> bool:
        """Was the certificate with this serial revoked?"""
        return keys.revoked(serial) in self._revoked

    @property
    def revoked(self) -> frozenset[str]:
        """The serials of the revoked certificates."""
        return frozenset(key.removeprefix(keys.REVOKED) for key in self._revoked)

    def turn_away(self, refused: TurnedAway, *, door: str, address: str, what: str) -> TurnedAway:
        """Record a refusal; returns the answer to the caller, which may be to wait.

        `address` may name the proxy that the caller came through: `203.0.113.7 via 10.0.0.5`.
        """
        if refused.is_unsure:
            return refused
        source = source_of(address.partition(" ")[0])
        if refused.is_stranger and self._failures.is_too_often(source, self._clock.monotonic()):
            self._note(by=refused.name, origin=f"{door} {source}", what="several", refused="too many refusals")
            sentence = f"too many refused calls from your address; wait {WAIT} s, and come with a token that is good"
            return TurnedAway(sentence, refused.is_stranger, refused.name, is_too_often=True)
        self._note(by=refused.name, origin=f"{door} {address}", what=what, refused=refused.why)
        return refused

    async def follow(self, store: Store, heard: Callable[[], None] = lambda: None) -> None:
        """Follow the tokens in the store, until cancelled; `heard` is called after each change."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._follow_records(store, heard), name="token records")
            parts.create_task(self._ask(store, heard), name="own tokens")

    async def _follow_records(self, store: Store, heard: Callable[[], None]) -> None:
        async with aclosing(follow_all(store, keys.TOKENS)) as coming:
            async for news in coming:
                if news.is_whole:
                    self._records.clear()
                    self._recorded.clear()
                for change in news.changes:
                    self._take(change.key, understood(TokenRecord, change.entry))
                self._to_ask.set()
                self._change()
                heard()

    def _take(self, key: Key, record: TokenRecord | None) -> None:
        """Replace what is known of a token by a new record."""
        if (before := self._records.pop(key, None)) is not None:
            for each in known_of(before):
                if (held := self._recorded.get(each.digest)) is not None and held.name == each.name:
                    del self._recorded[each.digest]
        if record is not None:
            self._records[key] = record
            learned = by_digest([record])
            self._recorded |= learned
            self._to_note |= {digest: each.name for digest, each in learned.items() if digest not in self._noted}

    async def _ask(self, store: Store, heard: Callable[[], None]) -> None:
        """Look up whether records ever named our own tokens, and write missing notes of digests."""
        waits = delays(*RETRY, random)
        while True:
            await self._to_ask.wait()
            self._to_ask.clear()
            try:
                for each in self._own.known:
                    await self._ask_about(store, each.digest)
                self._change()
                self.has_asked.set()
                heard()
                await self._note_digests(store)
                waits = delays(*RETRY, random)
            except (Unavailable, Unknown):
                self._to_ask.set()
                await asyncio.sleep(next(waits).total_seconds())

    async def _ask_about(self, store: Store, digest: bytes) -> None:
        if digest not in self._once and (entry := await store.get(keys.token_digest(digest.hex()))):
            noted = understood(DigestRecord, entry)
            self._once[digest] = noted.name if noted else "of the fleet"  # a newer Rota's note counts all the same
        self._asked.add(digest)

    async def _note_digests(self, store: Store) -> None:
        self._noted &= self._recorded.keys()
        for digest, name in list(self._to_note.items()):
            key = keys.token_digest(digest.hex())
            if await store.get(key) is None:
                note = Put(key, codec.encode(DigestRecord(name=name, at=self._clock.wall())))
                with suppress(Conflict):  # another node was first
                    await store.commit(note, expect=[Absent(key)])
            self._noted.add(digest)
            self._to_note.pop(digest, None)

    def _change(self) -> None:
        """Rebuild the gate from what is known now."""
        own = {each.digest for each in self._own.known}
        self._once |= {digest: self._recorded[digest].name for digest in own & self._recorded.keys()}
        unsure = own - self._asked if self._asks_first else set[bytes]()
        self._gate = self._own.with_records(self._recorded, self._once, unsure)

    async def follow_revoked(self, store: Store, heard: Callable[[], None] = lambda: None) -> None:
        """Follow the revoked certificates, until cancelled; `heard` is called after each change."""
        async with aclosing(follow_all(store, keys.REVOKED)) as coming:
            async for news in coming:
                if news.is_whole:
                    self._revoked.clear()
                for change in news.changes:
                    (self._revoked.add if change.entry else self._revoked.discard)(change.key)
                heard()
