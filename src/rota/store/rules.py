"""What every adapter accepts: the same Invalid everywhere (law 6).

Adapters call these before they touch their driver, so that a program written against SQLite does not meet a
surprise on etcd.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import lru_cache

from rota.model.errors import Invalid
from rota.model.ids import Key
from rota.store.port import Absent, At, Delete, Expect, Put, Write

MAX_WRITES = 100
MAX_EXPECTATIONS = 128
"""What etcd takes in one transaction by default."""

MAX_VALUE_BYTES = 1024 * 1024
MAX_KEY_BYTES = 512
IDLE_MS = 2000
"""Milliseconds after which a database ends a transaction whose client is silent: it is frozen or gone."""

MIN_TTL = timedelta(seconds=1)
MAX_TTL = timedelta(days=1)


_PLAIN_KEY = re.compile(r"(?:/[ -.0-~]+)+")
"""Most keys: printable ASCII, no empty part. One match is much quicker than the questions it answers."""


@lru_cache(maxsize=10_000)  # the same keys are used again and again
def _is_plain(key: str) -> bool:
    return len(key) <= MAX_KEY_BYTES and _PLAIN_KEY.fullmatch(key) is not None


def check_key(key: Key) -> None:
    """Invalid unless `key` is a path such as `/nodes/a`."""
    if isinstance(key, str) and _is_plain(key):
        return
    if not isinstance(key, str) or not key.startswith("/"):
        raise Invalid(f"key {key!r}: keys are strings that start with /, such as /nodes/a")
    if key.endswith("/") or "//" in key:
        raise Invalid(f"key {key!r} has an empty part; write it without the spare /")
    _check_text("key", key)


def check_prefix(prefix: Key) -> None:
    """Invalid unless `prefix` could begin a key."""
    if not isinstance(prefix, str) or not prefix.startswith("/") or "//" in prefix:
        raise Invalid(f"prefix {prefix!r}: prefixes start with / and have no empty part, such as /nodes/")
    _check_text("prefix", prefix)


def check_commit(writes: Sequence[Write], expect: Iterable[Expect]) -> tuple[Expect, ...]:
    """The expectations as a tuple; Invalid if the commit breaks law 1 or 6."""
    if not writes:
        raise Invalid("a commit without writes; give it at least one Put or Delete")
    if len(writes) > MAX_WRITES:
        raise Invalid(f"a commit of {len(writes)} writes; at most {MAX_WRITES} go in one, so split it")
    _check_writes(writes)
    expectations = tuple(expect)
    if len(expectations) > MAX_EXPECTATIONS:
        raise Invalid(f"a commit with {len(expectations)} expectations; at most {MAX_EXPECTATIONS} go in one")
    _check_expectations(expectations)
    return expectations


def check_ttl(ttl: timedelta) -> None:
    """Invalid unless every adapter can keep a lease of `ttl`."""
    if not MIN_TTL <= ttl <= MAX_TTL:
        raise Invalid(f"a lease of {ttl}; its ttl must be from {MIN_TTL} to {MAX_TTL}")


def check_scan(prefix: Key, after: Key | None, limit: int | None) -> None:
    """Invalid for a bad prefix, a bad key to continue after, or a page size of zero."""
    check_prefix(prefix)
    if after is not None:
        check_prefix(after)
    if limit is not None and limit < 1:
        raise Invalid(f"a page of {limit} entries; ask for at least one")


def nothing_there(store: object) -> Invalid:
    """The error for a store that no fleet has used yet."""
    return Invalid(f"store {store}: no fleet has used it yet; check the URL, or start a node on it")


def _check_writes(writes: Sequence[Write]) -> None:
    seen: set[Key] = set()
    size = 0
    for write in writes:
        match write:
            case Put(key, value, lease):
                if not isinstance(value, bytes):
                    raise Invalid(f"key {key!r}: its value is {type(value).__name__}; values are bytes")
                if lease is not None and not isinstance(lease, str):
                    raise Invalid(f"key {key!r}: its lease is {type(lease).__name__}; leases are strings")
                size += len(value)
            case Delete(key):
                pass
            case _:
                raise Invalid(f"{write!r} is neither Put nor Delete")
        check_key(key)
        if key in seen:
            raise Invalid(f"key {key!r} is written twice in one commit; write it once")
        seen.add(key)
    if size > MAX_VALUE_BYTES:
        raise Invalid(f"a commit of {size} bytes; at most {MAX_VALUE_BYTES} go in one, so split it")


def _check_expectations(expectations: Sequence[Expect]) -> None:
    seen: set[Key] = set()
    for expectation in expectations:
        if not isinstance(expectation, At | Absent):
            raise Invalid(f"{expectation!r} is neither At nor Absent")
        check_key(expectation.key)
        if expectation.key in seen:
            raise Invalid(f"key {expectation.key!r} is expected twice in one commit; expect it once")
        seen.add(expectation.key)


def _check_text(what: str, text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise Invalid(f"{what} {text!r} is not valid Unicode") from None
    if size > MAX_KEY_BYTES:
        raise Invalid(f"{what} {text[:40]!r}… has {size} bytes; at most {MAX_KEY_BYTES} are allowed")
    if not text.isprintable():
        raise Invalid(f"{what} {text!r} holds an unprintable character; use printable ones")
