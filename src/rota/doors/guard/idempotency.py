"""Idempotency keys: a request that is sent twice is carried out once.

The caller names the request by a key of its own; callers do not see each other's keys. What the request made is noted
under that key, in the same commit, and under a lease of an hour that is not renewed: so notes expire by themselves, and
a store holds at most an hour of them. A dump does not contain them. After that hour a repeated request for a resource
fails because the name is taken, so nothing is doubled; one for a run makes another run.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from hashlib import sha256
from urllib.parse import quote

import msgspec

from rota.model.errors import Conflict, Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import Key
from rota.store.port import Put, Store

PREFIX: Key = "/idempotency/"
KEPT = timedelta(hours=1)
MOST = 100_000
"""Keys that one caller may use at one node within an hour."""

_KEY = re.compile(r"[!-.0-~]{1,200}")
"""Printable ASCII without a slash or a space."""


class IdempotencyNote(msgspec.Struct, frozen=True, kw_only=True):
    """What a request made."""

    v: int = 1
    request: str
    """A digest of the request."""

    kind: str
    id: str
    uid: str


class KeyBudget:
    """How many keys callers have used at a node lately, so that notes cannot fill the store."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._used: dict[str, tuple[float, int]] = {}

    def take(self, by: str, now: float) -> None:
        """Count a key; Unavailable if the caller has used too many within an hour."""
        since, used = self._used.get(by, (now, 0))
        if now - since >= KEPT.total_seconds():
            since, used = now, 0
        if used >= self._most:
            left = KEPT.total_seconds() - (now - since)
            raise Unavailable(
                f"{by or 'you'} used {self._most} idempotency keys at this node within an hour; wait {left:.0f} s"
            )
        self._used[by] = since, used + 1


def place(key: str, by: str = "") -> Key:
    """The store key of a request's note, separate for each caller; Invalid if the idempotency key is malformed."""
    if not _KEY.fullmatch(key):
        raise Invalid(
            f'idempotency key "{key[:40]}": use 1 to 200 printable ASCII characters, without spaces and "/"; '
            "a UUID is a good one"
        )
    return f"{PREFIX}{quote(by, safe='') or '-'}/{key}"


def digest(request: object) -> str:
    """A request in a few characters; equal for equal ones."""
    return sha256(msgspec.json.encode(request, order="deterministic")).hexdigest()


async def find(store: Store, key: str, request: str, by: str = "") -> IdempotencyNote | None:
    """The note of this very request, or None; Conflict if the key was used for another one."""
    entry = await store.get(place(key, by))
    if entry is None:
        return await _of_an_older_rota(store, key, request)
    try:
        note = msgspec.json.decode(entry.value, type=IdempotencyNote)
    except msgspec.DecodeError as error:
        raise Invalid(f"idempotency key {key}: its note is not understood ({error}); use another key") from None
    if note.request != request:
        raise Conflict(
            f"idempotency key {key} was used for another request; use a new key for a new request", code="key_reused"
        )
    return note


async def _of_an_older_rota(store: Store, key: str, request: str) -> IdempotencyNote | None:
    """The note as older versions wrote it, without the caller, if it is of this very request."""
    entry = await store.get(PREFIX + key)
    with suppress(msgspec.DecodeError):
        note = msgspec.json.decode(entry.value, type=IdempotencyNote) if entry else None
        return note if note and note.request == request else None
    return None


@asynccontextmanager
async def noted(store: Store, key: str, note: IdempotencyNote, by: str = "") -> AsyncIterator[Put]:
    """The write that notes a request, for the request's commit; the lease is revoked if that commit did not happen."""
    lease = await store.grant(KEPT)
    try:
        yield Put(place(key, by), msgspec.json.encode(note), lease.id)
    except Unknown:
        raise  # it may have happened, and then the note is needed
    except RotaError:
        with suppress(RotaError):  # a lease that is not revoked expires by itself
            await store.revoke(lease.id)
        raise
