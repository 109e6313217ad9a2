"""The type in `Task[RoomSpec]`: finding it, and making an instance from a resource's fields.

msgspec does the work, so a spec is a dataclass, a msgspec.Struct, a TypedDict, or a plain dict. The resource's id is
put in as the field `id`, if the type has one. Fields the type does not know are refused where a user writes them, and
ignored where they come from the store: an older resource must not stop a newer app.
"""

import re
import typing
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import inspect

from rota.model.spec.checks import Check, did_you_mean
from rota.sdk.context import SyncTask, Task

LARGEST_SCHEMA = 16 * 1024
"""Bytes of a schema that is published with its kind."""

_AT = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(\w+)`")


class SpecType:
    """Converts the fields of a kind's resources into its spec."""

    def __init__(self, type_: Any) -> None:
        self.type = type_
        self.fields = _fields(type_)

    def decode(self, check: Check, fields: Mapping[str, Any], id: str | None, *, strict: bool = False) -> Any:
        """The spec; Invalid names the field that is wrong."""
        given = dict(fields)
        if id is not None and (self.fields is None or "id" in self.fields):
            given["id"] = self._id(check, id)
        if strict and self.fields is not None:
            for name in given:
                if name not in self.fields:
                    guess = did_you_mean(name, self.fields) or f"; there are {', '.join(self.fields)}"
                    check.fail(f'{self.type.__name__} has no field "{name}"{guess}')
        try:
            return msgspec.convert(given, type=self.type)
        except msgspec.ValidationError as error:
            check.fail(_told(str(error)))

    def schema(self) -> tuple[dict[str, Any] | None, str]:
        """The JSON Schema of a spec; None and the reason if there is none, or if it is too long."""
        try:
            schema = msgspec.json.schema(self.type)
        except (TypeError, RuntimeError) as error:
            return None, f"its spec has no JSON Schema: {error}"
        size = len(msgspec.json.encode(schema))
        if size > LARGEST_SCHEMA:
            return None, f"the JSON Schema of its spec has {size} bytes; at most {LARGEST_SCHEMA} are published"
        return schema, ""

    def _id(self, check: Check, id: str) -> str | int:
        if self.fields is not None and isinstance(self.fields["id"], inspect.IntType):
            if not id.lstrip("-").isdecimal():
                check.fail(f'field "id": expected a whole number, got "{id}"')
            return int(id)
        return id


def spec_type(check: Check, annotation: object, *, is_async: bool) -> SpecType:
    """The type of `task.spec`, from the annotation of a function's argument."""
    origin = typing.get_origin(annotation) or annotation
    if origin is None or origin is Any:
        return SpecType(dict[str, Any])
    if origin not in (Task, SyncTask):
        check.fail(f"its argument is a {getattr(origin, '__name__', origin)}; it is given a Task: annotate it so")
    if origin is SyncTask and is_async:
        check.fail("it is async, and takes a SyncTask; write Task, or make it a plain def")
    arguments = typing.get_args(annotation)
    if not arguments or arguments[0] is Any:
        return SpecType(dict[str, Any])
    try:
        return SpecType(arguments[0])
    except (TypeError, ValueError) as error:
        check.fail(
            f"Task[{getattr(arguments[0], '__name__', arguments[0])}]: {error}; "
            "use a dataclass, a msgspec.Struct, a TypedDict or a dict"
        )


def _fields(type_: Any) -> dict[str, inspect.Type] | None:
    """The fields of a spec's type; None if it takes any field."""
    info = inspect.type_info(type_)
    match info:
        case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType():
            return {field.encode_name: field.type for field in info.fields}
        case inspect.DictType():
            return None
    raise TypeError("a spec has fields")


def _told(error: str) -> str:
    """msgspec's error, reworded."""
    parts = _AT.fullmatch(error)
    what, path = (parts["what"], parts["path"]) if parts else (error, None)
    if missing := _MISSING.fullmatch(what):
        path = ".".join(filter(None, [path, missing[1]]))
        return f'field "{path}" is missing; add it'
    what = what[:1].lower() + what[1:].replace("`", "")
    return f'field "{path}": {what}' if path else what
