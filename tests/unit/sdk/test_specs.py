"""What a kind says of its spec: a schema, or why there is none."""

from dataclasses import dataclass, make_dataclass
from typing import Any

import rota
from rota.sdk import specs
from rota.sdk.specs import SpecType


@dataclass
class Spec:
    lang: str
    depth: int = 3


def test_an_app_tells_the_schema_of_its_specs() -> None:
    app = rota.App("app")

    @app.resource()
    async def room(task: rota.Task[Spec]) -> None: ...

    @app.resource()
    async def anything(task: rota.Task) -> None: ...

    told = {kind.name: kind for kind in app.summary().resources}
    assert told["room"].schema is not None
    assert told["room"].schema["$defs"]["Spec"]["required"] == ["lang"]
    assert told["anything"].schema == {"type": "object"}
    assert told["room"].no_schema == ""


def test_a_schema_that_is_too_large_is_left_out_and_said_to_be() -> None:
    many = make_dataclass("Many", [(f"field_{number}", int) for number in range(1000)])
    schema, why = SpecType(many).schema()
    assert schema is None
    assert str(specs.LARGEST_SCHEMA) in why


def test_a_type_without_a_schema_says_why() -> None:
    class Own:
        """A type that only a hook of the user's could make."""

    odd: Any = make_dataclass("Odd", [("own", Own)])
    schema, why = SpecType(odd).schema()
    assert schema is None
    assert "Own" in why
