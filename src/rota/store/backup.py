"""A store as a file: dump it, load it, and keep the copy apart from the original.

A dump is JSON lines: a header, one line per key in key order, all as they were at one revision, and a footer with
their number and checksum, so that a file that was cut off is noticed. Keys under a lease are left out: they belong to
sessions that cannot be restored.

`load` takes a `Dump`, which is a file that was read and found whole, so nothing is written on the word of a damaged
one. It begins by declaring the store's incarnation to be loading. Each of its commits expects that declaration, nodes
refuse to join while it stands, and an interrupted load leaves it behind: whoever loads next takes over and starts
afresh. Its last commit begins a new incarnation (`model.keys` says how that keeps old leaders out).
"""

import hashlib
import os
import secrets
import tempfile
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from rota.kit.clock import Clock
from rota.model import codec, keys
from rota.model.errors import Compacted, Conflict, Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import Key, Revision
from rota.model.node import Incarnation
from rota.store import rules
from rota.store.port import Absent, At, Delete, Entry, Expect, Put, Store, Write

T = TypeVar("T")

VERSION = 1
"""The version of the format that this code writes and understands."""

PAGE = 200
"""Entries read at once."""

LONGEST_LINE = 2 * rules.MAX_VALUE_BYTES
"""Bytes: room for the largest value in base64, and its key."""

DEPTH = b"[" * 200, b"]" * 200
"""What JSON is wrapped in to see that it is not nested too deeply to be read inside a line."""


# Incarnations


async def incarnation(store: Store, clock: Clock) -> At:
    """The key of the store's incarnation, which is begun if there is none; Invalid if the store is half loaded."""
    entry = await store.get(keys.INCARNATION)
    if entry is None:
        return await _begin(store, _new(clock), Absent(keys.INCARNATION))
    return At(keys.incarnation(whole(entry).id), entry.modified)


def whole(entry: Entry) -> Incarnation:
    """The incarnation in an entry; Invalid if it is still being loaded."""
    found = codec.decode(Incarnation, entry.value)
    if found.is_loading:
        raise Invalid(
            f"the store is half loaded: a load that began at {found.since:%Y-%m-%d %H:%M:%S} UTC has not ended; "
            "wait for it, or repeat it with rota store load"
        )
    return found


def _new(clock: Clock) -> Incarnation:
    return Incarnation(id=secrets.token_hex(8), since=clock.wall())


async def _begin(store: Store, new: Incarnation, expect: Expect) -> At:
    """Let an incarnation begin: the record and the key of its name, in one commit."""
    key, value = keys.incarnation(new.id), codec.encode(new)
    return At(key, await store.commit(Put(keys.INCARNATION, value), Put(key, value), expect=[expect]))


# Lines of a dump


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: what was dumped."""

    rota: str = "dump"
    v: int = VERSION
    revision: Revision
    incarnation: str | None
    at: datetime


class Line(msgspec.Struct, frozen=True):
    """One key, and its value: as JSON if that gives the same bytes back, else in base64."""

    key: Key
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    base64: bytes | msgspec.UnsetType = msgspec.UNSET


class Footer(msgspec.Struct, frozen=True):
    """The last line: how many entries there are, and the checksum of all lines before."""

    entries: int
    sha256: str


def line_of(key: Key, value: bytes) -> Line:
    """The line of an entry."""
    return Line(key, value=msgspec.Raw(value)) if _is_plain(value) else Line(key, base64=value)


def put_of(line: Line) -> Put:
    """The write that restores a line; Invalid if no store would take it."""
    if isinstance(line.value, msgspec.Raw):
        put = Put(line.key, bytes(line.value))
    elif isinstance(line.base64, bytes):
        put = Put(line.key, line.base64)
    else:
        raise Invalid(f"key {line.key!r} has no value")
    rules.check_commit([put], ())
    return put


def _is_plain(value: bytes) -> bool:
    """Does the value, read as JSON and written again, give the same bytes?"""
    try:
        msgspec.json.decode(DEPTH[0] + value + DEPTH[1])
        return msgspec.json.encode(msgspec.json.decode(value)) == value
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


class Seal:
    """Counts entries and sums up lines, for the footer."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._lines = 0

    def add(self, line: bytes) -> bytes:
        """Take account of a line, and hand it back."""
        self._digest.update(line)
        self._lines += 1
        return line

    @property
    def footer(self) -> Footer:
        """The footer that fits; of the lines so far the first was the header."""
        return Footer(self._lines - 1, self._digest.hexdigest())


def _encoded(line: Header | Line | Footer) -> bytes:
    return msgspec.json.encode(line) + b"\n"


# Dump


async def dump(store: Store, file: BinaryIO) -> Footer:
    """Write what the store has, as of now, into a file; Invalid if the store is half loaded."""
    revision = await store.revision()
    found = await _incarnation_at(store, revision)
    header = Header(revision=revision, incarnation=found.id if found else None, at=await store.now())
    seal = Seal()
    file.write(seal.add(_encoded(header)))
    try:
        async with aclosing(entries(store, at=revision)) as all_of_them:
            async for entry in all_of_them:
                if entry.lease is None and is_restored(entry.key):
                    file.write(seal.add(_encoded(line_of(entry.key, entry.value))))
    except Compacted as error:
        raise Unavailable(f"revision {revision} was compacted away while it was dumped; dump again") from error
    file.write(_encoded(seal.footer))
    return seal.footer


def is_restored(key: Key) -> bool:
    """May the key pass from one store to another? The incarnation belongs to one alone."""
    return key != keys.INCARNATION and not key.startswith((keys.INCARNATIONS, keys.CHECK))


async def entries(store: Store, *, at: Revision | None = None) -> AsyncGenerator[Entry, None]:
    """Every entry of the store in key order; page by page, so only `at` a revision do they fit together."""
    after: Key | None = None
    while True:
        page = await store.scan("/", after=after, limit=PAGE, at=at)
        for entry in page.entries:
            yield entry
        if not page.more:
            return
        after = page.entries[-1].key


async def _incarnation_at(store: Store, revision: Revision) -> Incarnation | None:
    listing = await store.scan(keys.INCARNATION, limit=1, at=revision)
    return next((whole(entry) for entry in listing.entries if entry.key == keys.INCARNATION), None)


@contextmanager
def fresh_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A file that has its name once it is complete and on the disk; nobody else may read it."""
    if path.exists() and not path.is_file():
        raise Invalid(f"{path} is not a plain file; choose another name")
    if path.exists() and not force:
        raise Invalid(f"{path} exists; choose another name, or --force to replace it")
    try:
        descriptor, beside = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
        try:
            with open(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(descriptor)
            Path(beside).replace(path)
        finally:
            Path(beside).unlink(missing_ok=True)
        _sync_folder(path.parent)
    except OSError as error:
        raise RotaError(f"cannot write {path}: {error.strerror}") from error


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Reading a dump


class Dump:
    """A file that was read to its end and found whole."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """Read a file that can be read twice; Invalid says what is wrong with it."""
        self._file = file
        try:
            self.header, self.footer = _verify(_lines(file))
        except Invalid as error:
            raise Invalid(f"{name}: {error}") from error

    def puts(self) -> Iterator[Put]:
        """What restores it."""
        lines = _lines(self._file)
        next(lines)
        for line in lines:
            if not _is_footer(line):
                put = put_of(_decoded(line, Line))
                if is_restored(put.key):
                    yield put


def _verify(lines: Iterator[bytes]) -> tuple[Header, Footer]:
    seal = Seal()
    header = _header(seal.add(next(lines, b"")))
    last: Key = ""
    for number, line in enumerate(lines, 2):
        if _is_footer(line):
            return header, _footer(line, seal, lines)
        try:
            last = _next_key(line, last)
        except Invalid as error:
            raise Invalid(f"line {number}: {error}; the file is damaged, take another copy") from error
        seal.add(line)
    raise _cut_off()


def _cut_off() -> Invalid:
    return Invalid("it ends without a whole footer; it was cut off, take another copy")


def _header(line: bytes) -> Header:
    try:
        header = _decoded(line, Header)
    except Invalid:
        raise Invalid("this is no dump; make one with rota store dump") from None
    if header.rota != "dump":
        raise Invalid("this is no dump; make one with rota store dump")
    if header.v > VERSION:
        raise Invalid(f"a dump of version {header.v}, this Rota knows {VERSION}; upgrade Rota on this machine")
    return header


def _footer(line: bytes, seal: Seal, rest: Iterator[bytes]) -> Footer:
    try:
        footer = _decoded(line, Footer)
    except Invalid:
        raise _cut_off() from None
    if footer != seal.footer:
        raise Invalid("its checksum does not fit; the file is damaged, take another copy")
    if next(rest, None) is not None:
        raise Invalid("it goes on behind its footer; are these two files?")
    return footer


def _next_key(line: bytes, last: Key) -> Key:
    key = put_of(_decoded(line, Line)).key
    if key <= last:
        raise Invalid(f"key {key!r} comes after {last!r}, which is not the order of keys")
    return key


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines from the beginning; of an endless one, pieces."""
    file.seek(0)
    return iter(partial(file.readline, LONGEST_LINE), b"")


def _is_footer(line: bytes) -> bool:
    return line.startswith(b'{"entries":')


def _decoded(line: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"it cannot be read ({error})") from None


# Load


@dataclass(frozen=True)
class Loaded:
    """What a load did."""

    entries: int
    removed: int
    """Keys that were there before."""

    incarnation: str


async def load(store: Store, source: Dump, clock: Clock, *, force: bool = False) -> Loaded:
    """Make the store what was dumped, in a new incarnation.

    Conflict if nodes are on it; Invalid if it has keys, unless they may go (`force`) or are those of half a load.
    """
    await _refuse_nodes(store)
    before = await store.get(keys.INCARNATION)
    is_half_loaded = before is not None and codec.decode(Incarnation, before.value).is_loading
    if not force and not is_half_loaded:
        await _refuse_keys(store)
    new = _new(clock)
    mark = await _declare(store, new, before)
    try:
        if not is_half_loaded:
            await _refuse_late_nodes(store, new, mark)
        removed = await _clear(store, mark) if force or is_half_loaded else 0
        restored = await _restore(store, source, mark)
        await _begin(store, new, mark)
    except (Unavailable, Unknown) as error:
        raise type(error)(f"{error}; the store may be half loaded now, so load it again") from error
    except Conflict as error:
        if not error.keys:
            raise
        raise Conflict(
            f"{error}; somebody else writes into this store: stop that, and load again", error.keys
        ) from error
    return Loaded(restored, removed, new.id)


async def _refuse_nodes(store: Store) -> None:
    listing = await store.scan(keys.NODES)
    if names := ", ".join(entry.key.removeprefix(keys.NODES) for entry in listing.entries):
        raise Conflict(f"nodes are on this store: {names}; stop them, or wait for the leases of those that died")


async def _refuse_keys(store: Store) -> None:
    async with aclosing(entries(store)) as all_of_them:
        async for entry in all_of_them:
            if entry.lease is None:
                raise Invalid(f"the store has keys, such as {entry.key}; take an empty one, or --force to replace them")


async def _declare(store: Store, new: Incarnation, before: Entry | None) -> At:
    """Say that a load has begun: the incarnation before is over, and nobody can join it any more."""
    declare = Put(keys.INCARNATION, codec.encode(replace(new, is_loading=True)))
    if before is None:
        revision = await store.commit(declare, expect=[Absent(keys.INCARNATION)])
    else:
        over = Delete(keys.incarnation(codec.decode(Incarnation, before.value).id))
        revision = await store.commit(declare, over, expect=[At(keys.INCARNATION, before.modified)])
    return At(keys.INCARNATION, revision)


async def _refuse_late_nodes(store: Store, new: Incarnation, mark: At) -> None:
    """Nodes that joined while we looked: nothing was changed yet, so let them go on in the new incarnation."""
    try:
        await _refuse_nodes(store)
    except Conflict:
        await _begin(store, new, mark)
        raise


async def _clear(store: Store, mark: At) -> int:
    """Delete all but what a lease holds; how many keys that were."""
    async with aclosing(entries(store)) as all_of_them:
        doomed = [
            Delete(entry.key) async for entry in all_of_them if entry.lease is None and entry.key != keys.INCARNATION
        ]
    for batch in batches(doomed):
        await store.commit(*batch, expect=[mark])
    return len(doomed)


async def _restore(store: Store, source: Dump, mark: At) -> int:
    """Write what was dumped; how many keys that were."""
    count = 0
    for batch in batches(source.puts()):
        await store.commit(*batch, expect=[mark, *(Absent(write.key) for write in batch)])
        count += len(batch)
    return count


def batches(writes: Iterable[Write]) -> Iterator[list[Write]]:
    """The writes in order, in as many as go into one commit."""
    batch: list[Write] = []
    size = 0
    for write in writes:
        more = len(write.value) if isinstance(write, Put) else 0
        if batch and (len(batch) == rules.MAX_WRITES or size + more > rules.MAX_VALUE_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(write)
        size += more
    if batch:
        yield batch


# Compaction


async def history_start(store: Store) -> Revision:
    """The oldest revision that can still be asked for; 0 if nothing was compacted yet."""
    try:
        await store.scan("/", limit=1, at=Revision(0))
    except Compacted as compacted:
        return compacted.oldest
    return Revision(0)


async def compact(store: Store, before: Revision) -> tuple[Revision, Revision]:
    """Forget history older than `before`; where it started until now, and where it starts from now on."""
    start = await history_start(store)
    await store.compact(before)
    return start, await history_start(store)
