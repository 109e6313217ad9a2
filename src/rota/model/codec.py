"""Records as bytes: JSON with a schema version.

`{"v":1, …}`: readable with `etcdctl get` and `SELECT`. A record of an older version is brought up by the upgrades that
its module gives; one of a newer version is refused with the next move; unknown fields are ignored, so that two
neighbouring versions of Rota can share a fleet.

A record is declared with `@stored()` in its own module, and a reader names its type: this module knows no record. The
decoder of a record is made when the first one is read.

A struct bears its version as its tag, and of any other record the version is written first, so that both are read in
one step; only when that fails is it looked at more closely.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec

from rota.kit.decoding import UNREADABLE
from rota.model.errors import Invalid

R = TypeVar("R")
Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes the fields of the next version out of those of one."""


class _Decoders(dict[type, msgspec.json.Decoder[Any]]):
    """A decoder for each record, made when it is first needed."""

    def __missing__(self, kind: type) -> msgspec.json.Decoder[Any]:
        return self.setdefault(kind, msgspec.json.Decoder(kind))


_encoder = msgspec.json.Encoder()
_decoders = _Decoders()
_versions: dict[type, int] = {}
_upgrades: dict[type, Mapping[int, Upgrade]] = {}
_tagged: set[type] = set()
"""Records that write their version themselves; they are written thousands of times a second."""

_openings: dict[type, bytes] = {}
"""How a record begins that can be read in one step."""


def stored(version: int = 1, upgrades: Mapping[int, Upgrade] | None = None) -> Callable[[type[R]], type[R]]:
    """Declares a record that is kept in the store: the version it is written in, and what brings up each older one."""

    def declare(kind: type[R]) -> type[R]:
        _versions[kind], _upgrades[kind] = version, upgrades or {}
        _openings[kind] = b'{"v":%d,' % version
        if issubclass(kind, msgspec.Struct) and kind.__struct_config__.tag_field == "v":
            _tagged.add(kind)
            _openings[kind] = b"{"
        return kind

    return declare


def encode(record: object) -> bytes:
    """The record as bytes."""
    if type(record) in _tagged:
        return _encoder.encode(record)
    return _openings[type(record)] + _encoder.encode(record)[1:]  # every record has fields


def decode(kind: type[R], data: bytes) -> R:
    """The record in `data`; Invalid says what is wrong with it."""
    if data.startswith(_openings[kind]):
        try:
            return cast(R, _decoders[kind].decode(data))
        except UNREADABLE:  # of another version, or broken: the longer way says which
            pass
    return _decode(kind, data)


def _decode(kind: type[R], data: bytes) -> R:
    name = kind.__name__.lower()
    try:
        fields = msgspec.json.decode(data, type=dict[str, Any])
        version = fields.pop("v")
    except (*UNREADABLE, KeyError):
        raise Invalid(f"this is no {name} record: {data[:80]!r}") from None
    if not isinstance(version, int) or version > _versions[kind]:
        raise Invalid(f"a {name} record of version {version}, this Rota knows {_versions[kind]}; upgrade this node")
    for step in range(version, _versions[kind]):
        fields = _upgrades[kind][step](fields)
    if kind in _tagged:
        fields["v"] = _versions[kind]
    try:
        return msgspec.convert(fields, type=kind, str_keys=True)
    except UNREADABLE as error:
        raise Invalid(f"a broken {name} record: {error}") from None
