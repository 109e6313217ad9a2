"""Changes over HTTP with an idempotency key: carried out once, and a repeat gets the same answer.

The note of the key is part of the first commit of the operation: so a change without its note did not happen, and one
that may have happened is found by its note. The answer is added to the note afterwards. A repeat gets that answer. If
the answer was lost, because the node ended between the two, a repeat gets the information that the change was made, and
does not make it again.

Making a resource and starting a run have notes of their own (`doors.guard.idempotency`) that say what was made, so a
repeat is answered with the thing as it is. An operation that a node carries out without a commit accepts no key.
"""

import json
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rota.doors.guard import idempotency
from rota.doors.http.calls import content
from rota.doors.verbs import VERBS
from rota.kit import collector
from rota.model.errors import Conflict, Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import Key, LeaseId, Revision
from rota.store.around import StoreAround
from rota.store.port import Absent, Expect, Put, Store, Write
from rota.store.rules import MAX_EXPECTATIONS, MAX_WRITES

HEADER = "idempotency-key"
REPLAYED = "idempotency-replayed"
LARGEST = 100_000
"""Bytes of an answer that are kept; after a larger one, a repeat only learns that the change was made."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a request with a key."""

    v: int = 1
    request: str
    """A digest of the request."""

    status: int = 0
    """The status of the answer; 0: there is none yet, or it was lost."""

    headers: dict[str, str] = {}
    body: str | None = None
    """None: it was too large, or must not be kept."""


class Repeated(Exception):  # an outcome of a commit, as Conflict is
    """The note of this very key is there already: the same request came a moment earlier.

    It is no Conflict. Operations read again and commit again after a Conflict, and that would never end here.
    """


class KeyedStore(StoreAround):
    """A store whose first commit also writes the note of a key, and does not happen if there is one."""

    def __init__(self, store: Store, place: Key, request: str) -> None:
        super().__init__(store)
        self._place, self._request = place, request
        self.lease: LeaseId | None = None
        self.is_noted = False
        """May the note have been written?"""

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        if self.is_noted:
            return await self._store.commit(*writes, expect=expect)
        expected = tuple(expect)
        note = Put(self._place, msgspec.json.encode(Done(request=self._request)), await self._lease())
        try:
            self.is_noted = True
            if len(writes) < MAX_WRITES and len(expected) < MAX_EXPECTATIONS:
                return await self._store.commit(*writes, note, expect=(*expected, Absent(self._place)))
            await self._store.commit(note, expect=[Absent(self._place)])
        except Unknown:
            raise
        except RotaError as error:
            self.is_noted = False  # certainly not
            if isinstance(error, Conflict) and self._place in error.keys:
                raise Repeated from error
            raise
        return await self._store.commit(*writes, expect=expected)

    async def keep(self, done: Done) -> None:
        """Add the answer to the note; a note that is not there yet is made."""
        with suppress(RotaError):  # then the answer is lost, and the note says that the change was made
            put = Put(self._place, msgspec.json.encode(done), await self._lease())
            await self._store.commit(put, expect=() if self.is_noted else [Absent(self._place)])

    async def give_back(self) -> None:
        """Revoke the lease of a note that was not written."""
        if self.lease is not None and not self.is_noted:
            with suppress(RotaError):  # it ends by itself
                await self._store.revoke(self.lease)

    async def _lease(self) -> LeaseId:
        if self.lease is None:
            self.lease = (await self._store.grant(idempotency.KEPT)).id
        return self.lease


async def once(
    request: Request, operation: str, by: str, store: Store, answer: Callable[[Store], Awaitable[Response]]
) -> Response:
    """The answer of `answer`, called with the store for this key; or the answer that an earlier request with the key
    got."""
    key = request.headers[HEADER]
    if VERBS[operation].is_noted:
        raise Invalid(
            f"{request.url.path} takes no {HEADER}: a node does this by itself and notes nothing; leave the header out"
        )
    place, asked = idempotency.place(key, by), await _digest(request)
    if before := await _answered(store, place, key, asked, operation):
        return before
    keyed = KeyedStore(store, place, asked)
    try:
        made = await answer(keyed)
    except (RotaError, Repeated) as error:
        await keyed.give_back()
        if before := await _overtaken(keyed, place, key, asked, operation):
            return before
        if isinstance(error, Repeated):
            raise Unavailable(
                f"idempotency key {key}: the note of its first request has just ended; ask again"
            ) from None
        raise
    if before := await _overtaken(keyed, place, key, asked, operation):
        return before
    if made.status_code < 300:
        await keyed.keep(_done(made, asked, operation))
    return made


async def _overtaken(keyed: KeyedStore, place: Key, key: str, asked: str, operation: str) -> Response | None:
    """The answer of the same request made a moment earlier, if this one changed nothing: it may have met that
    change."""
    return None if keyed.is_noted else await _answered(keyed, place, key, asked, operation)


async def _answered(store: Store, place: Key, key: str, asked: str, operation: str) -> Response | None:
    """The answer that the same request got before; None if there was none."""
    entry = await store.get(place)
    if entry is None:
        return None
    try:
        done = msgspec.json.decode(entry.value, type=Done)
    except msgspec.DecodeError as error:
        raise Invalid(f"idempotency key {key}: its note is not understood ({error}); use another key") from None
    if done.request != asked:
        raise Conflict(f"idempotency key {key} was used for another request; use a new key for a new request")
    if done.status and VERBS[operation].is_secret:
        raise Conflict(f"idempotency key {key}: this was done, and its token is shown only once; rotate it for another")
    if not done.status or done.body is None:
        raise Conflict(
            f"idempotency key {key}: this change was made, or is being made, and its answer is not kept; look at what "
            "it was about, and use a new key to ask for another"
        )
    return Response(done.body, done.status, {**done.headers, REPLAYED: "true"})


def _done(answer: Response, asked: str, operation: str) -> Done:
    kept = {name: answer.headers[name] for name in ("content-type", "location", "etag") if name in answer.headers}
    body = bytes(answer.body)
    is_kept = not VERBS[operation].is_secret and len(body) <= LARGEST
    return Done(request=asked, status=answer.status_code, headers=kept, body=body.decode() if is_kept else None)


async def _digest(request: Request) -> str:
    """A digest of the request. Two texts of the same JSON have the same digest."""
    sent = await content(request)
    try:
        with collector.paused():
            body: object = json.loads(sent) if sent else None
    except (ValueError, RecursionError):
        body = sent.hex()  # it is refused later, in the usual words
    headers = [request.headers.get("if-match")]
    return idempotency.digest([request.method, request.url.path, str(request.url.query), headers, body])
