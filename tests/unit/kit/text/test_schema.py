"""What is wrong with a value, by the schema that msgspec writes of a type; and that msgspec itself agrees."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from rota.kit.text import schema


class Circle(msgspec.Struct, tag=True):
    radius: float


class Square(msgspec.Struct, tag=True, forbid_unknown_fields=True):
    side: int


@dataclass
class Room:
    lang: Literal["de", "en"]
    depth: Annotated[int, Meta(ge=1, lt=5)]
    note: str | None = None
    shape: Circle | Square | None = None
    pair: tuple[int, str] = (1, "a")
    counts: dict[str, int] = field(default_factory=dict)
    rate: float = 1.0
    short: Annotated[str, Meta(max_length=3, pattern="^a")] = "a"
    deep: "Room | None" = None
    mark: int | str = 0
    uid: UUID | None = None
    until: Annotated[datetime, Meta(tz=True)] = datetime(2026, 1, 1, tzinfo=UTC)
    flag: bool = False
    tags: list[str] = field(default_factory=list)


SCHEMA = msgspec.json.schema(Room)
GOOD: dict[str, Any] = {"lang": "en", "depth": 3}


@pytest.mark.parametrize(
    "fields",
    [
        {"note": None},
        {"note": "x", "shape": {"type": "Circle", "radius": 2}},
        {"pair": [1, "b"], "counts": {"a": 1}, "rate": 3, "short": "abc"},
        {"deep": {**GOOD, "deep": GOOD}, "mark": "x"},
        {"uid": "6f1c1f1e-6e0e-4f0e-8f0e-0e0e0e0e0e0e", "until": "2026-01-31T12:00:00Z"},
        {"unknown": 1},
    ],
)
def test_what_fits_is_no_problem(fields: dict[str, Any]) -> None:
    assert schema.problem(SCHEMA, {**GOOD, **fields}) == ""
    msgspec.convert({**GOOD, **fields}, Room)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"lang": "fr"}, 'field "lang" is "fr"; it must be "de" or "en"'),
        ({"depth": "3"}, 'field "depth" is "3"; it must be a whole number, 1 or more, less than 5'),
        ({"depth": 3.0}, 'field "depth" is 3.0; it must be a whole number, 1 or more, less than 5'),
        ({"depth": True}, 'field "depth" is true; it must be a whole number, 1 or more, less than 5'),
        ({"depth": 5}, 'field "depth" is 5; it must be less than 5'),
        ({"note": 1}, 'field "note" is 1; it must be a text or null'),
        ({"shape": {"type": "Circle"}}, 'field "shape.radius" is missing; it must be a number'),
        ({"shape": {"type": "Square", "side": 1, "x": 1}}, 'field "shape.x" is not known; there are type, side'),
        (
            {"shape": {"type": "x"}},
            'field "shape" is {"type":"x"}; it must be an object (Circle) or an object (Square) or null',
        ),
        ({"pair": [1]}, 'field "pair" is [1]; it must be a list of 2 or more'),
        ({"pair": [1, 2]}, 'field "pair[1]" is 2; it must be a text'),
        ({"counts": {"a": "b"}}, 'field "counts.a" is "b"; it must be a whole number'),
        ({"short": "b"}, 'field "short" is "b"; it must be a text that matches ^a'),
        ({"short": "abcd"}, 'field "short" is "abcd"; it must be 3 characters or less'),
        ({"deep": {"lang": "en"}}, 'field "deep.depth" is missing; it must be a whole number, 1 or more, less than 5'),
        ({"mark": []}, 'field "mark" is []; it must be a whole number or a text'),
        ({"uid": "x"}, 'field "uid" is "x"; it must be a UUID or null'),
        ({"until": "soon"}, 'field "until" is "soon"; it must be a time, like 2026-01-31T12:00:00Z'),
        ({"flag": 1}, 'field "flag" is 1; it must be true or false'),
        ({"tags": ["a", 1]}, 'field "tags[1]" is 1; it must be a text'),
    ],
)
def test_what_does_not_fit_is_named_with_what_it_must_be(fields: dict[str, Any], said: str) -> None:
    assert schema.problem(SCHEMA, {**GOOD, **fields}) == said
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**GOOD, **fields}, Room)


def test_what_is_missing_and_what_is_no_object_are_told() -> None:
    assert schema.problem(SCHEMA, {"lang": "en"}).startswith('field "depth" is missing')
    assert schema.problem(SCHEMA, 3) == "it must be an object (Room)"


def test_a_dict_takes_anything_and_has_no_fields_of_its_own() -> None:
    anything = msgspec.json.schema(dict[str, Any])
    assert schema.problem(anything, {"a": [1, {"b": None}]}) == ""
    assert schema.fields(anything) is None
    assert list(schema.fields(SCHEMA) or ())[:2] == ["lang", "depth"]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 8) | st.floats(-3, 8) | st.sampled_from(["a", "abcd", "en", "Circle"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "radius", "lang", "depth", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*Room.__dataclass_fields__]), values, max_size=4))
def test_the_verdict_is_that_of_msgspec(fields: dict[str, Any]) -> None:
    value = {**GOOD, **fields}
    try:
        msgspec.convert(value, Room)
        fits = True
    except msgspec.ValidationError:
        fits = False
    assert (schema.problem(SCHEMA, value) == "") == fits
