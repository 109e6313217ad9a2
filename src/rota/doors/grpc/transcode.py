"""Records as messages of protobuf, and messages as fields: by name, as the descriptor of the message has them.

A field of a message is that of the same name of a record. `x_json` is `x` as JSON text; times, durations, maps, lists
and messages within messages follow from their types; what is None is left out. `ODD` names the few fields of messages
that records have elsewhere. How a record becomes a message is worked out once for each pair, and kept.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import Any, get_type_hints

import msgspec
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from rota.kit import collector
from rota.kit.time import durations
from rota.model.errors import Invalid

JSON = "_json"

Part = Callable[[Any], Any]

ODD: dict[tuple[str, str], Part] = {}
"""Message and field → the attribute of the record, if it has another name."""

ELSEWHERE: dict[str, dict[str, str]] = {}
"""Message → fields of its record that it lacks under their names, and the fields that replace them."""

_TIMESTAMP, _DURATION = Timestamp.DESCRIPTOR.full_name, Duration.DESCRIPTOR.full_name


# Answers


def encode(record: object, kind: Any) -> Message:
    """A record as a message."""
    known: Any = type(record)
    make, parts = _plan(known, kind)
    fields: dict[str, Any] = {}
    for name, get, convert in parts:
        if (value := get(record)) is not None:
            fields[name] = value if convert is None else convert(value)
    return make(**fields)


@cache
def _plan(record: type, kind: Descriptor) -> tuple[type[Message], tuple[tuple[str, Part, Part | None], ...]]:
    return message_factory.GetMessageClass(kind), tuple(_parts(record, kind))


def _parts(record: type, kind: Descriptor) -> Iterator[tuple[str, Part, Part | None]]:
    """Each field of a message, what gets it from a record, and what makes the value that the message takes."""
    names, hints = attributes(record), get_type_hints(record)
    for field in kind.fields:
        name = names.get(field.name) or names.get(field.name.removesuffix(JSON))
        if odd := ODD.get((kind.full_name, field.name)):
            yield field.name, odd, _converter(field)
        elif name is None:
            raise TypeError(
                f"{kind.full_name}.{field.name} is no field of {record.__name__}; see doors.grpc.transcode.ODD"
            )
        elif field.name not in names:
            yield field.name, attrgetter(name), _json
        elif field.type == FieldDescriptor.TYPE_STRING and hints[name] is datetime:
            yield field.name, attrgetter(name), datetime.isoformat
        else:
            yield field.name, attrgetter(name), _converter(field)


def attributes(record: type) -> dict[str, str]:
    """Name in JSON → attribute, of each field of a record."""
    if issubclass(record, msgspec.Struct):
        return {field.encode_name: field.name for field in msgspec.structs.fields(record)}
    return {name: name for name in getattr(record, "__dataclass_fields__", {})}


def _converter(field: FieldDescriptor) -> Part | None:
    """What makes a value that a message takes; None: it takes the value as it is."""
    if is_map(field):
        entry: Any = field.message_type
        value = _one(entry.fields_by_name["value"])
        return None if value is None else lambda entries: {name: value(each) for name, each in entries.items()}
    one = _one(field)
    if is_list(field):
        return None if one is None else lambda items: [one(each) for each in items]
    return one


def _one(field: FieldDescriptor) -> Part | None:
    if field.type != FieldDescriptor.TYPE_MESSAGE:
        return None
    kind: Any = field.message_type
    if kind.full_name == _TIMESTAMP:
        return timestamp
    if kind.full_name == _DURATION:
        return span
    return lambda record: encode(record, kind)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def timestamp(at: datetime) -> Timestamp:
    """A time."""
    stamp = Timestamp()
    stamp.FromDatetime(at.astimezone(UTC))
    return stamp


def span(duration: timedelta | str) -> Duration:
    """A duration, also one written as text such as `10s`."""
    length = Duration()
    length.FromTimedelta(durations.parse(duration) if isinstance(duration, str) else duration)
    return length


# Requests


def given(request: Message, name: str) -> Any:
    """A field that may be left out; None if it was."""
    return getattr(request, name) if request.HasField(name) else None


def from_duration(request: Message, name: str) -> timedelta | None:
    """A field that is a duration, if it was given."""
    length: Duration | None = given(request, name)
    try:
        return None if length is None else length.ToTimedelta()
    except (ValueError, OverflowError):
        raise Invalid(f"{name} is not a possible duration; use at most a minute") from None


def from_time(request: Message, name: str) -> datetime | None:
    """A field that is a time, if it was given."""
    stamp: Timestamp | None = given(request, name)
    try:
        return None if stamp is None else stamp.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Invalid(f"{name} is no time that there can be; it must lie in the years 1 to 9999") from None


def from_json(name: str, text: str) -> object:
    """What a field holds that is JSON."""
    try:
        with collector.paused():
            return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{name} is not JSON: {error}") from None
    except RecursionError:
        raise Invalid(f"{name} is nested too deeply; send a plainer one") from None


@cache
def reader(kind: Descriptor, names: tuple[str, ...]) -> Callable[[Message], Any]:
    """Reads the field that has one of these names: its value, or `LEFT_OUT` if it was not given."""
    for name in names:
        if (field := kind.fields_by_name.get(name)) is not None:
            return _reader(field)
        if (field := kind.fields_by_name.get(f"{name}{JSON}")) is not None:
            return _reader(field)
    raise TypeError(f"{kind.full_name} has no field {' or '.join(names)}")


LEFT_OUT = object()


def _reader(field: FieldDescriptor) -> Callable[[Message], Any]:
    name = field.name
    if is_map(field):
        return lambda request: dict(getattr(request, name))
    if is_list(field):
        return lambda request: list(getattr(request, name)) or LEFT_OUT
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        kind: Any = field.message_type
        readers: dict[str, Callable[[Message, str], Any]] = {_TIMESTAMP: from_time, _DURATION: from_duration}
        read = readers.get(kind.full_name, _nested)
        return lambda request: LEFT_OUT if (found := read(request, name)) is None else found
    return _plain(field)


def _plain(field: FieldDescriptor) -> Callable[[Message], Any]:
    name = field.name
    if name.endswith(JSON):
        return lambda request: from_json(name, text) if (text := getattr(request, name)) else LEFT_OUT
    if field.has_presence:
        return lambda request: getattr(request, name) if request.HasField(name) else LEFT_OUT
    if field.type == FieldDescriptor.TYPE_STRING:
        return lambda request: getattr(request, name) or LEFT_OUT
    return lambda request: getattr(request, name)


def _nested(request: Message, name: str) -> Any:
    return fields_of(getattr(request, name)) if request.HasField(name) else None


def fields_of(request: Message, *without: str) -> dict[str, Any]:
    """Everything that was given in a message, by name; what is empty was not."""
    found: dict[str, Any] = {}
    for field, _ in request.ListFields():
        if field.name in without:
            continue
        name = field.name.removesuffix(JSON)
        if field.name.endswith(JSON):  # one that may be left out, and is empty, is no JSON
            found[name] = from_json(field.name, getattr(request, field.name))
        else:
            found[name] = _reader(field)(request)
    return found


def is_map(field: FieldDescriptor) -> bool:
    """Is it a map?"""
    kind: Any = field.message_type
    return kind is not None and bool(kind.GetOptions().map_entry)


def is_list(field: FieldDescriptor) -> bool:
    """Is it a list? (What says so has another name in each version of protobuf.)"""
    return isinstance(field.default_value, list)
