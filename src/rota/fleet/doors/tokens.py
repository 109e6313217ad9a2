"""Operations on tokens, as plain functions on the store; the doors call these.

A token is shown once, to the caller that made it. The store keeps its digest, and writes in the same commit a permanent
note of that digest: a rotated or revoked token stays so, even when its record is deleted.
"""

import re
import secrets
from datetime import datetime, timedelta

import msgspec

from rota.doors.verbs import verb
from rota.fleet.core.access.gate import OPERATOR, Access, digest
from rota.fleet.core.access.token import DigestRecord, TokenRecord
from rota.fleet.doors.bodies import RotateBody, TokenBody
from rota.fleet.doors.parameters import RoleName, TokenName
from rota.kit.record import replace
from rota.kit.time.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Conflict, Denied, Invalid, NotFound
from rota.model.spec.checks import did_you_mean
from rota.store.port import Absent, At, Entry, Expect, Put, Store
from rota.store.records import understood

PREFIX = "rota_"
"""So that people, and programs that look for leaked secrets, know one when they see it."""

BYTES = 32
LONGEST = timedelta(days=3650)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without its secret or digest."""

    name: str
    access: Access
    made: datetime
    by: str
    expires: datetime | None
    revoked: datetime | None
    is_good: bool
    """Is it valid now?"""


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token that was just made. It cannot be shown again."""

    name: str
    access: Access
    expires: datetime | None
    token: str
    """The secret. It is returned this once, and stored nowhere."""


class TokenPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some tokens, in the order of the name."""

    tokens: tuple[TokenView, ...]
    """The tokens of this page."""

    next: str | None = None
    """The token of the next page; null: there are no more."""


@verb("GET", "/v1/tokens", Access.ADMIN, rpc="Tokens.List", answer=TokenPage, page_by=lambda token: token.name)
async def list_tokens(store: Store, clock: Clock) -> tuple[TokenView, ...]:
    """List the tokens that the fleet knows, by name; those of the nodes' own folders are not among them."""
    found = [understood(TokenRecord, entry) for entry in (await store.scan(keys.TOKENS)).entries]
    return tuple(_view(record, clock.wall()) for record in found if record)


@verb("GET", "/v1/tokens/{name}", Access.ADMIN, rpc="Tokens.Get")
async def get_token(store: Store, clock: Clock, name: TokenName) -> TokenView:
    """Get one token, without its secret or digest; NotFound if there is none."""
    _, record = await _token(store, name)
    return _view(record, clock.wall())


@verb(
    "POST",
    "/v1/tokens",
    Access.ADMIN,
    rpc="Tokens.Create",
    body=TokenBody,
    makes=True,
    found_at="/v1/tokens/{name}",
    is_secret=True,
    codes=("already_exists",),
)
async def create_token(
    store: Store,
    clock: Clock,
    name: str,
    access: RoleName,
    *,
    by: str,
    expires_in: timedelta | None = None,
    most: Access = Access.NODE,
) -> NewToken:
    """Create a token; Conflict if there is a valid one of that name. It may grant no more than its maker's own."""
    _check_name(name)
    held, now = _access(access), clock.wall()
    _check_most(name, held, most)
    _check_life(expires_in)
    before = await store.get(keys.token(name))
    record = understood(TokenRecord, before)
    if before and (record is None or _is_good(record, now)):
        raise Conflict(
            f"token {name} exists; rotate it, revoke it first, or choose another name",
            [before.key],
            code="already_exists",
        )
    secret = _secret()
    expires = now + expires_in if expires_in else None
    made = TokenRecord(name=name, access=held, digest=digest(secret).hex(), made=now, by=by, expires=expires)
    await _write(store, made, before, record)
    return NewToken(name=name, access=held, expires=expires, token=secret)


@verb("POST", "/v1/tokens/{name}/rotate", Access.ADMIN, rpc="Tokens.Rotate", body=RotateBody, is_secret=True)
async def rotate_token(
    store: Store,
    clock: Clock,
    name: TokenName,
    *,
    by: str,
    keep_old: timedelta | None = None,
    expires_in: timedelta | None = None,
    most: Access = Access.NODE,
) -> NewToken:
    """Replace a valid token by a new one; the old one stays valid for `keep_old` more, if that is given.

    It lives as long from now on as the old one did from its making, unless `expires_in` says otherwise.
    """
    _check_life(expires_in)
    entry, record = await _token(store, name)
    _check_most(name, record.access, most)
    now = clock.wall()
    if not _is_good(record, now):
        raise Invalid(f"token {name} is no longer valid; make a new one with create")
    life = expires_in or (record.expires - record.made if record.expires else None)
    secret = _secret()
    changed = replace(
        record,
        digest=digest(secret).hex(),
        made=now,
        by=by,
        expires=now + life if life else None,
        older=record.digest if keep_old else "",
        older_until=now + keep_old if keep_old else None,
    )
    await _write(store, changed, entry, record)
    return NewToken(name=name, access=record.access, expires=changed.expires, token=secret)


@verb("POST", "/v1/tokens/{name}/revoke", Access.ADMIN, rpc="Tokens.Revoke")
async def revoke_token(store: Store, clock: Clock, name: TokenName, *, most: Access = Access.NODE) -> TokenView:
    """Revoke a token: every node refuses it a moment later, for good. Revoking it again changes nothing.

    Denied if it grants more than the caller's own: a caller that may not make such a token may not revoke it either.
    """
    entry, record = await _token(store, name)
    if not most.covers(record.access):
        raise Denied(f"token {name} opens {record.access}, and yours opens {most}; ask a user whose token does")
    if record.revoked is None:
        before, record = record, replace(record, revoked=clock.wall())
        await _write(store, record, entry, before)
    return _view(record, clock.wall())


async def _token(store: Store, name: str) -> tuple[Entry, TokenRecord]:
    entry = await store.get(keys.token(name)) if _NAME.fullmatch(name) else None
    if entry is None:
        names = [each.key.removeprefix(keys.TOKENS) for each in (await store.scan(keys.TOKENS)).entries]
        raise NotFound(
            f'there is no token "{name[:100]}"{did_you_mean(name, names) or "; list them"}', code="token_not_found"
        )
    return entry, codec.decode(TokenRecord, entry.value)


async def _write(store: Store, record: TokenRecord, entry: Entry | None, before: TokenRecord | None) -> None:
    """Write a record, and note the digests that it has and had; an older Rota did not."""
    key = keys.token(record.name)
    seen: Expect = At(key, entry.modified) if entry else Absent(key)
    at = record.revoked or record.made
    digests = {each for each in (record.digest, record.older) if each}
    digests |= {each for each in (before.digest, before.older) if each} if before else set()
    notes = [
        Put(keys.token_digest(each), codec.encode(DigestRecord(name=record.name, at=at)))
        for each in sorted(digests)
        if await store.get(keys.token_digest(each)) is None
    ]
    try:
        await store.commit(Put(key, codec.encode(record)), *notes, expect=[seen])
    except Conflict:
        raise Conflict(f"token {record.name} was changed by another user meanwhile; read it again", [key]) from None


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise Invalid(
            f'token "{name[:100]}": use letters, digits, ".", "_" and "-", at most 63, beginning with a letter or digit'
        )
    if name.lower() == OPERATOR:
        raise Invalid(
            f'token "{name}": the audit trail says "{OPERATOR}" for the token of a node\'s own file; use another'
        )


def _access(text: str) -> Access:
    try:
        return Access(text)
    except ValueError:
        raise Invalid(f'role "{text[:100]}" is not known; there are {", ".join(Access)}') from None


def _check_most(name: str, access: Access, most: Access) -> None:
    """Denied if a caller would grant more than its own access."""
    if not most.covers(access):
        raise Denied(f"token {name} would open {access}, and yours opens {most}; ask a user whose token does")


def _check_life(expires_in: timedelta | None) -> None:
    if expires_in is not None and not timedelta() < expires_in <= LONGEST:
        raise Invalid(f"a token lives for more than 0 s and at most {LONGEST.days} days; leave it out for no end")


def _secret() -> str:
    return f"{PREFIX}{secrets.token_urlsafe(BYTES)}"


def _is_good(record: TokenRecord, now: datetime) -> bool:
    return record.revoked is None and (record.expires is None or now < record.expires)


def _view(record: TokenRecord, now: datetime) -> TokenView:
    return TokenView(
        name=record.name,
        access=record.access,
        made=record.made,
        by=record.by,
        expires=record.expires,
        revoked=record.revoked,
        is_good=_is_good(record, now),
    )
