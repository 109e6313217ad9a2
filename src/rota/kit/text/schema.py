"""JSON Schema, as much of it as msgspec writes about a type: what is wrong with a value, in a sentence.

`problem` finds the first field that does not fit, and says what it must be. Unknown keywords are ignored: the decoder
of the type decides in the end. Pure.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

Schema: TypeAlias = Mapping[str, Any]

_FORMATS: dict[str, tuple[type, str]] = {
    "date-time": (datetime, "a time, like 2026-01-31T12:00:00Z"),
    "date": (date, "a day, like 2026-01-31"),
    "time": (time, "a time of day, like 12:00:00Z"),
    "duration": (timedelta, "a duration, like PT30S"),
    "uuid": (UUID, "a UUID"),
}
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "string": ((str,), "a text"),
    "array": ((list, tuple), "a list"),
    "object": ((dict,), "an object"),
    "null": ((type(None),), "null"),
}
_BOUNDS: tuple[tuple[str, Any, str], ...] = (
    ("minimum", lambda value, bound: value >= bound, "{} or more"),
    ("exclusiveMinimum", lambda value, bound: value > bound, "more than {}"),
    ("maximum", lambda value, bound: value <= bound, "{} or less"),
    ("exclusiveMaximum", lambda value, bound: value < bound, "less than {}"),
    ("multipleOf", lambda value, bound: value % bound == 0, "a multiple of {}"),
    ("minLength", lambda value, bound: len(value) >= bound, "{} characters or more"),
    ("maxLength", lambda value, bound: len(value) <= bound, "{} characters or less"),
    ("pattern", lambda value, bound: re.search(bound, value) is not None, "a text that matches {}"),
    ("minItems", lambda value, bound: len(value) >= bound, "a list of {} or more"),
    ("maxItems", lambda value, bound: len(value) <= bound, "a list of {} or less"),
    ("minProperties", lambda value, bound: len(value) >= bound, "an object of {} fields or more"),
    ("maxProperties", lambda value, bound: len(value) <= bound, "an object of {} fields or less"),
)


def problem(schema: Schema, value: object) -> str:
    """What is wrong with a value, beginning with the field; nothing if it fits."""
    return next(_Checked(schema).problems(schema, value, ""), "")


def fields(schema: Schema) -> Mapping[str, Schema] | None:
    """The fields that an object may have; None if it takes any."""
    known = _Checked(schema)
    found = known.resolve(schema).get("properties")
    return None if found is None else {name: known.resolve(each) for name, each in found.items()}


class _Checked:
    """A schema with its definitions."""

    def __init__(self, schema: Schema) -> None:
        self._definitions: Schema = schema.get("$defs", {})

    def resolve(self, schema: Schema) -> Schema:
        """The definition that a schema refers to."""
        while "$ref" in schema:
            schema = self._definitions[schema["$ref"].rpartition("/")[2]]
        return schema

    def problems(self, schema: Schema, value: object, at: str) -> Iterator[str]:
        """The problems of a value, one after the other."""
        schema = self.resolve(schema)
        if "anyOf" in schema:
            yield from self._choices(schema, value, at)
        elif ("enum" in schema and value not in schema["enum"]) or not _is_of_type(schema, value):
            yield _told(at, value, self._expected(schema))
        else:
            yield from (_told(at, value, said) for said in _out_of_bounds(schema, value))
            if isinstance(value, dict):
                yield from self._in_object(schema, value, at)
            elif isinstance(value, list | tuple):
                yield from self._in_list(schema, value, at)

    def _choices(self, schema: Schema, value: object, at: str) -> Iterator[str]:
        choices = list(self._flat(schema))
        if all(next(self.problems(each, value, at), None) for each in choices):
            meant = [each for each in choices if _is_of_type(each, value) and _has_tags(each, value)]
            if len(meant) == 1:  # then the problem is within it
                yield from self.problems(meant[0], value, at)
            else:
                yield _told(at, value, self._expected(schema))

    def _flat(self, schema: Schema) -> Iterator[Schema]:
        for each in map(self.resolve, schema["anyOf"]):
            yield from self._flat(each) if "anyOf" in each else (each,)

    def _in_object(self, schema: Schema, value: dict[str, object], at: str) -> Iterator[str]:
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name in schema.get("required", ()):
            if name not in value:
                yield f'field "{_join(at, name)}" is missing; it must be {self._expected(properties.get(name, {}))}'
        for name, each in value.items():
            if name in properties:
                yield from self.problems(properties[name], each, _join(at, name))
            elif others is False:
                yield f'field "{_join(at, name)}" is not known; there are {", ".join(properties) or "none"}'
            elif isinstance(others, dict):
                yield from self.problems(others, each, _join(at, name))

    def _in_list(self, schema: Schema, value: list[object] | tuple[object, ...], at: str) -> Iterator[str]:
        first = schema.get("prefixItems", [])
        rest = schema.get("items", {}) or {}
        for number, each in enumerate(value):
            yield from self.problems(first[number] if number < len(first) else rest, each, f"{at}[{number}]")

    def _expected(self, schema: Schema) -> str:
        """What a value must be, in words."""
        schema = self.resolve(schema)
        if "anyOf" in schema:
            choices = dict.fromkeys(map(self._expected, self._flat(schema)))
            return " or ".join(sorted(choices, key="null".__eq__))  # whatever order msgspec wrote it in
        if "enum" in schema:
            return " or ".join(_shown(each) for each in schema["enum"])
        if schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]][1]
        said = _TYPES[schema["type"]][1] if schema.get("type") in _TYPES else "given"
        if "title" in schema:
            said += f" ({schema['title']})"
        bounds = [word.format(schema[keyword]) for keyword, _, word in _BOUNDS if keyword in schema]
        return ", ".join([said, *bounds])


def _is_of_type(schema: Schema, value: object) -> bool:
    types = _TYPES.get(schema.get("type", ""))
    if types is None:
        return True
    is_one = isinstance(value, types[0]) and (not isinstance(value, bool) or bool in types[0])
    return is_one and _has_format(schema.get("format", ""), value)


def _has_format(name: str, value: object) -> bool:
    if name not in _FORMATS:
        return True
    try:
        msgspec.convert(value, type=_FORMATS[name][0])
    except msgspec.ValidationError:
        return False
    return True


def _has_tags(schema: Schema, value: object) -> bool:
    """Does an object have the tag that selects one member of a union?"""
    tags = {name: each["enum"] for name, each in schema.get("properties", {}).items() if len(each.get("enum", ())) == 1}
    return not isinstance(value, dict) or all(value.get(name) in allowed for name, allowed in tags.items())


def _out_of_bounds(schema: Schema, value: object) -> Iterator[str]:
    for keyword, holds, said in _BOUNDS:
        if keyword in schema and not holds(value, schema[keyword]):
            yield said.format(schema[keyword])


def _told(at: str, value: object, expected: str) -> str:
    return f'field "{at}" is {_shown(value)}; it must be {expected}' if at else f"it must be {expected}"


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _shown(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:77]}…"
