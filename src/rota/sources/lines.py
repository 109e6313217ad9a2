"""Records as lines of JSON, for people and their programs.

A key, value or header that is UTF-8 stands there as text, any other as {"base64": "…"}. Read back, a value may be any
JSON: text becomes its bytes, {"base64": "…"} what it says, and everything else its own JSON.
"""

from base64 import b64decode, b64encode
from datetime import datetime
from typing import Any

import msgspec

from rota.kit.time.epoch import milliseconds, moment
from rota.model.errors import Invalid
from rota.sources.port import NewRecord, Record


class Base64(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that are no text."""

    base64: str


class RecordLine(msgspec.Struct, frozen=True, kw_only=True):
    """A record as it is shown."""

    partition: int
    offset: int
    time: datetime | None
    key: str | Base64 | None
    value: str | Base64 | None
    headers: list[tuple[str, str | Base64 | None]]


class Given(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record as a user writes it: a `RecordLine` without its former place."""

    value: Any
    key: str | Base64 | None = None
    headers: list[tuple[str, str | Base64 | None]] | dict[str, str | Base64 | None] = []
    time: datetime | None = None
    partition: int | None = None
    offset: int | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Given).decode


def encode(partition: int, record: Record) -> bytes:
    """A record as a line."""
    line = RecordLine(
        partition=partition,
        offset=record.offset,
        time=None if record.time_ms < 0 else moment(record.time_ms),
        key=_shown(record.key),
        value=_shown(record.value),
        headers=[(name, _shown(value)) for name, value in record.headers],
    )
    return _encode(line) + b"\n"


def parse(line: bytes) -> NewRecord:
    """The record that a line means; Invalid says how to write one."""
    try:
        given = _decode(line)
        headers = given.headers.items() if isinstance(given.headers, dict) else given.headers
        return NewRecord(
            value=_value(given.value),
            key=_bytes(given.key),
            headers=tuple((name, _bytes(value)) for name, value in headers),
            time_ms=_milliseconds(given.time),
        )
    except (msgspec.MsgspecError, ValueError) as error:
        shown = line[:60].decode(errors="replace")
        example = '{"value": "text or any JSON", "key": "k", "headers": {"a": "b"}, "time": "2026-01-01T12:00:00Z"}'
        raise Invalid(f"line {shown!r} is no record: {error}; write one like {example}") from None


def _shown(content: bytes | None) -> str | Base64 | None:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return Base64(b64encode(content).decode())


def _bytes(given: str | Base64 | None) -> bytes | None:
    if isinstance(given, Base64):
        return b64decode(given.base64, validate=True)
    return None if given is None else given.encode()


def _value(given: Any) -> bytes | None:
    if given is None or isinstance(given, str):
        return _bytes(given)
    if isinstance(given, dict) and given.keys() == {"base64"}:
        return _bytes(msgspec.convert(given, Base64))
    return _encode(given)


def _milliseconds(time: datetime | None) -> int | None:
    if time is None:
        return None
    if time.tzinfo is None:
        raise ValueError(f"time {time} has no zone, such as Z or +01:00")
    return milliseconds(time)
