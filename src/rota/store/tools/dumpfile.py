"""A dump as a file.

JSON lines: a header, one line per key in key order, and a footer with their number and checksum, so that a truncated
file is noticed. A `Dump` is a file that was read to its end and found intact: nothing is restored from a damaged one.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from rota.kit.files import fsync_folder
from rota.model import keys
from rota.model.errors import Invalid, RotaError
from rota.model.ids import Key, Revision
from rota.store import rules
from rota.store.port import Put

T = TypeVar("T")

VERSION = 1
"""The version of the format that this code writes and understands."""

LONGEST_LINE = 2 * rules.MAX_VALUE_BYTES
"""Bytes: room for the largest value in base64, and its key."""

DEPTH = b"[" * 200, b"]" * 200
"""A wrapper for JSON, to check that it is not nested too deeply to be read inside a line."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: what was dumped."""

    rota: str = "dump"
    v: int = VERSION
    revision: Revision
    incarnation: str | None
    at: datetime


class DumpLine(msgspec.Struct, frozen=True):
    """One key, and its value: as JSON if that gives the same bytes back, else in base64."""

    key: Key
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    base64: bytes | msgspec.UnsetType = msgspec.UNSET


class Footer(msgspec.Struct, frozen=True):
    """The last line: how many entries there are, and the checksum of all lines before."""

    entries: int
    sha256: str


def line_of(key: Key, value: bytes) -> DumpLine:
    """The line of an entry."""
    return DumpLine(key, value=msgspec.Raw(value)) if _is_plain(value) else DumpLine(key, base64=value)


def put_of(line: DumpLine) -> Put:
    """The write that restores a line; Invalid if no store would accept it."""
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
        """Count a line, and return it."""
        self._digest.update(line)
        self._lines += 1
        return line

    @property
    def footer(self) -> Footer:
        """The footer for the lines so far; the first of them was the header."""
        return Footer(self._lines - 1, self._digest.hexdigest())


def encoded(line: Header | DumpLine | Footer) -> bytes:
    """A line as it stands in the file."""
    return msgspec.json.encode(line) + b"\n"


def is_restored(key: Key) -> bool:
    """May the key be restored in another store? The incarnation belongs to one store."""
    return key != keys.INCARNATION and not key.startswith((keys.INCARNATIONS, keys.CHECK))


@contextmanager
def fresh_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A file that gets its name once it is complete and on the disk; only its owner may read it."""
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
        fsync_folder(path.parent)
    except OSError as error:
        raise RotaError(f"cannot write {path}: {error.strerror}") from error


class Dump:
    """A file that was read to its end and found intact."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """Read a file that can be read twice; Invalid says what is wrong with it."""
        self._file = file
        try:
            self.header, self.footer = _verify(_lines(file))
        except Invalid as error:
            raise Invalid(f"{name}: {error}") from error

    def puts(self) -> Iterator[Put]:
        """The writes that restore it."""
        lines = _lines(self._file)
        next(lines)
        for line in lines:
            if not _is_footer(line):
                put = put_of(_decoded(line, DumpLine))
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
    key = put_of(_decoded(line, DumpLine)).key
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
