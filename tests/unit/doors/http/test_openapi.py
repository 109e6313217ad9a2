"""The OpenAPI description: it is valid, it has everything, and everything in it is described."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from rota.doors import verbs
from rota.doors.http import calls, openapi
from rota.doors.http import routes as resources
from rota.fleet.core.access.gate import Access
from rota.fleet.doors.bodies import HookBody
from rota.fleet.doors.hooks import FIELDS as HOOK_FIELDS
from rota.kit.text.docs import class_doc, field_docs
from rota.model.problems import PROBLEMS
from rota.resources.doors.answers import CHANGEABLE
from rota.streams.doors.bodies import HandOffBody
from tests.kit.guarded import Guarded

DESCRIBED = msgspec.json.decode(msgspec.json.encode(openapi.describe(resources.table())))
SCHEMAS = DESCRIBED["components"]["schemas"]
OPERATIONS = [
    pytest.param(path, method, operation, id=operation["operationId"])
    for path, methods in DESCRIBED["paths"].items()
    for method, operation in methods.items()
]


def within(part: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Every object of a description, and where it is."""
    if isinstance(part, dict):
        yield at, part
        for name, each in part.items():
            yield from within(each, f"{at}/{name}")
    elif isinstance(part, list):
        for number, each in enumerate(part):
            yield from within(each, f"{at}/{number}")


def checker(schema: dict[str, Any]) -> Any:
    return jsonschema_rs.Draft202012Validator({**schema, "components": {"schemas": SCHEMAS}})


def test_it_is_valid() -> None:
    OpenAPIV31SpecValidator(DESCRIBED).validate()


def test_it_has_every_route_of_the_door() -> None:
    there = {(method.upper(), path) for path, methods in DESCRIBED["paths"].items() for method in methods}
    routes = {
        (method, route.path)
        for route in Guarded().app.routes
        for method in getattr(route, "methods", ())
        if method != "HEAD"
    }
    pages = {("GET", path) for path in ("/", "/docs", "/static/{path:path}")}
    assert there == routes - pages


def test_every_property_of_every_record_is_described() -> None:
    missing = [
        f"{name}.{field}"
        for name, schema in SCHEMAS.items()
        for field, each in schema.get("properties", {}).items()
        if not each.get("description", "").strip()
    ]
    assert not missing, f"write a text below: {', '.join(missing)}"
    assert not [name for name, schema in SCHEMAS.items() if not schema.get("description")]
    assert sum(len(schema.get("properties", {})) for schema in SCHEMAS.values()) > 400


def test_properties_are_only_in_records() -> None:
    """What is written out at an operation would escape the test above."""
    assert not [at for at, part in within(DESCRIBED["paths"]) if "properties" in part and "type" in part]


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_operation_is_described(path: str, method: str, operation: dict[str, Any]) -> None:
    assert operation["summary"].endswith(".")
    assert len(operation["summary"]) < 120
    assert operation["description"]
    (tag,) = operation["tags"]
    assert tag in {each["name"] for each in DESCRIBED["tags"]}
    for parameter in operation["parameters"]:
        assert parameter["description"].endswith("."), parameter["name"]
        assert checker(parameter["schema"]).is_valid(parameter["example"]), parameter["name"]
    if body := operation.get("requestBody"):
        content = body["content"]["application/json"]
        assert body["description"]
        assert checker(content["schema"]).is_valid(content["example"]), content["example"]
    for status, answer in operation["responses"].items():
        assert "$ref" in answer or answer["description"], status
        for media in answer.get("content", {}).values():
            if "example" in media:
                checker(media["schema"]).validate(media["example"])


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_operation_names_its_role_and_its_errors(path: str, method: str, operation: dict[str, Any]) -> None:
    name = operation["operationId"]
    role = operation.get("x-role")
    if name in verbs.OPERATIONS:
        assert role == verbs.OPERATIONS[name]
    if role is None:
        assert operation["security"] == []
        assert "no token" in operation["description"]
    else:
        assert operation["security"] == [{"token": [role]}]
        assert f"role `{role}`" in operation["description"]
        assert {"401", "421", "429"} <= operation["responses"].keys()
        assert {"unauthenticated", "wrong_host", "too_many_requests"} <= set(operation["x-error-codes"])
    assert ("denied" in operation["x-error-codes"]) == (role not in (None, Access.VIEW))
    assert {str(PROBLEMS[code].status) for code in operation["x-error-codes"]} <= operation["responses"].keys()


def test_every_status_of_the_table_of_codes_has_an_answer_with_examples() -> None:
    for status in {problem.status for problem in PROBLEMS.values()}:
        answer = DESCRIBED["components"]["responses"][f"Error{status}"]
        media = answer["content"]["application/problem+json"]
        assert media["examples"].keys() == {code for code, each in PROBLEMS.items() if each.status == status}
        for shown in media["examples"].values():
            checker(media["schema"]).validate(shown["value"])
        assert ("Retry-After" in answer.get("headers", {})) == (status in (429, 503))


def test_parameters_of_a_path_are_those_in_it() -> None:
    for path, methods in DESCRIBED["paths"].items():
        for operation in methods.values():
            told = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
            assert told == re.findall(r"\{(\w+)\}", path)
            assert len({(each["name"], each["in"]) for each in operation["parameters"]}) == len(operation["parameters"])


def test_bodies_have_the_fields_that_the_doors_take() -> None:
    assert set(HookBody.__struct_fields__) == set(HOOK_FIELDS)
    assert list(SCHEMAS["Changes"]["properties"]) == list(CHANGEABLE)
    with_default = [name for name, said in SCHEMAS["Changes"]["properties"].items() if "default" in said]
    assert with_default == [], "a client that fills defaults in would put back what nobody named"
    assert calls.LARGEST == 1024 * 1024


def test_texts_are_read_from_below_the_fields() -> None:
    class Inner:
        """Only classes at the top of a module are read."""

    assert field_docs(Inner) == {}
    assert field_docs(HandOffBody)["groups"].startswith("The numbers of the groups")
    assert field_docs(dict) == {}
    assert class_doc(HandOffBody) == "Which groups end and publish now."
    assert field_docs(Access)["VIEW"] == "Look."
