"""Verbs: each is described once, so HTTP, its description, gRPC and the command line have the same fields."""

import re
from collections.abc import Iterator
from datetime import datetime
from inspect import signature
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from google.protobuf.descriptor import Descriptor

from rota.cli.reach.remote import way_of
from rota.doors.bodies import ReasonBody
from rota.doors.grpc import door as grpc_door
from rota.doors.grpc import transcode
from rota.doors.grpc import verbs as verb_grpc
from rota.doors.http import openapi
from rota.doors.http import routes as resources
from rota.doors.parameters import Wait
from rota.doors.verbs import OPERATIONS, VERBS, Verb, Where, needs, verb
from rota.fleet.core.access.gate import Access
from rota.jobs.doors.answers import RunView
from rota.jobs.doors.parameters import RunId
from rota.kit.record import replace
from rota.store.port import Store
from scripts import contract


class HeavyRun(RunView, frozen=True, kw_only=True):
    """A run with a field more."""

    kilos: float | None = None


class Weighed(msgspec.Struct, frozen=True):
    """How heavy a run is."""

    run: str
    kilos: float | None
    at: datetime | None
    more: dict[str, Any]


METHODS = {
    method.full_name.removeprefix("rota.v1."): method for service in grpc_door.SERVICES for method in service.methods
}
ALL = [pytest.param(verb, id=name) for name, verb in VERBS.items()]
OVER_GRPC = [pytest.param(verb, id=name) for name, verb in VERBS.items() if verb.rpc]
DESCRIBED = openapi.describe(resources.table())
PAGE = {"limit", "token"}
OTHERWISE = {
    "add_resource": {"id", "assigned_node", "creation_time"},
    "remove_resource": {"id", "assigned_node", "creation_time"},
    "put_job": {"name"},
    "label_node": {"remove"},
    "update_resource": {"reset"},
}
"""What a request over gRPC says in another way than one over HTTP, or what nobody heeds."""


def records(kind: Any) -> Iterator[type]:
    """The records in a type."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for each in get_args(kind):
        yield from records(each)


def drift(record: type, message: Descriptor, seen: set[tuple[type, str]]) -> Iterator[str]:
    """Fields that a record has and its message has not, or the other way round; all the way down."""
    if (record, message.full_name) in seen:
        return
    seen.add((record, message.full_name))
    names = transcode.attributes(record)
    elsewhere = transcode.ELSEWHERE.get(message.full_name, {})
    for name in names:
        if name not in elsewhere and not {name, f"{name}{transcode.JSON}"} & set(message.fields_by_name):
            yield f"{message.full_name} lacks {name} of {record.__name__}"
    hints = get_type_hints(record)
    for field in message.fields:
        if (message.full_name, field.name) in transcode.ODD:
            continue
        if field.name not in names and field.name.removesuffix(transcode.JSON) not in names:
            yield f"{record.__name__} lacks {field.name} of {message.full_name}"
        elif field.name in names and (kind := below(field)) is not None:
            for each in records(hints[names[field.name]]):
                yield from drift(each, kind, seen)


def below(field: Any) -> Descriptor | None:
    """The message that a field of a message holds."""
    kind = field.message_type
    if kind is not None and transcode.is_map(field):
        kind = kind.fields_by_name["value"].message_type
    return None if kind is None or kind.full_name.startswith("google.") else kind


@pytest.mark.parametrize("verb", OVER_GRPC)
def test_an_answer_has_the_same_fields_over_http_and_grpc(verb: Verb) -> None:
    message = METHODS[verb.rpc].output_type
    if verb.name in verb_grpc.WRITE or (verb.deletes and verb.record is type(None)):
        return
    kinds = get_args(verb.record)[:1] if METHODS[verb.rpc].server_streaming else [verb.record]
    (record,) = (each for kind in kinds for each in records(kind))
    missing = [] if verb.deletes else list(drift(record, message, set()))
    assert not missing, "; ".join(missing)


@pytest.mark.parametrize("verb", OVER_GRPC)
def test_a_request_has_the_same_fields_over_http_and_grpc(verb: Verb) -> None:
    message = METHODS[verb.rpc].input_type
    there = set(message.fields_by_name) - OTHERWISE.get(verb.name, set())
    for field in verb.fields:
        if field.where is Where.WHOLE:
            body = set(verb.body.__struct_fields__) if verb.body else set()
            there -= {*body, *(f"{name}{transcode.JSON}" for name in body), "spec_json"}
            continue
        named = {each for name in verb_grpc.names_of(field) for each in (name, f"{name}{transcode.JSON}") if name}
        assert named & set(message.fields_by_name), f"{message.full_name} lacks {field.name} of {verb.name}"
        there -= named
    assert there == (PAGE if verb.page_by else set()), f"{verb.name} lacks {there} of {message.full_name}"


@pytest.mark.parametrize("verb", ALL)
def test_an_answer_has_the_same_fields_over_http_and_in_its_description(verb: Verb) -> None:
    answers = DESCRIBED["paths"][verb.path][verb.method.lower()]["responses"]
    content: dict[str, Any] = next(
        (answer["content"] for code, answer in answers.items() if code < "3" and "content" in answer), {}
    )
    named = content.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
    assert bool(named) != (verb.deletes or bool(verb.goes_on) or verb.name == openapi.BYTES)
    if named:
        described = DESCRIBED["components"]["schemas"][named]["properties"]
        assert list(described) == [field.encode_name for field in msgspec.structs.fields(verb.record)]


def undescribed(record: type, seen: set[type]) -> Iterator[str]:
    """Fields of a record, and of the records in it, that the description lacks or has beside them."""
    if record in seen:
        return
    seen.add(record)
    described = DESCRIBED["components"]["schemas"].get(record.__name__, {})
    fields = {field.encode_name: field for field in msgspec.structs.fields(record)}
    if "properties" in described:
        for name in sorted(fields.keys() ^ described["properties"].keys()):
            yield f"{name} of {record.__name__} is in one of record and description"
    hints = get_type_hints(record)
    for field in fields.values():
        for each in records(hints[field.name]):
            yield from undescribed(each, seen)


@pytest.mark.parametrize("verb", ALL)
def test_the_records_in_an_answer_have_the_same_fields_in_the_description(verb: Verb) -> None:
    missing = [each for record in records(verb.record) for each in undescribed(record, set())]
    assert not missing, "; ".join(missing)


@pytest.mark.parametrize("verb", ALL)
def test_a_request_has_the_same_fields_over_http_and_in_its_description(verb: Verb) -> None:
    described = DESCRIBED["paths"][verb.path][verb.method.lower()]
    asked = {each["name"] for each in described.get("parameters", []) if each["in"] == "query"}
    assert asked == set(verb.query()), verb.name
    in_path = {each["name"] for each in described.get("parameters", []) if each["in"] == "path"}
    assert in_path == set(re.findall(r"{(\w+)}", verb.path)), verb.name
    content = described.get("requestBody", {}).get("content", {})
    named = content.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
    assert bool(named) == (verb.body is not None), verb.name
    if verb.body is not None:
        has = DESCRIBED["components"]["schemas"][named]["properties"]
        fields = {field.encode_name for field in msgspec.structs.fields(verb.body)}
        assert set(has) - in_path == fields - in_path, verb.name


@pytest.mark.parametrize("verb", ALL)
def test_the_command_line_asks_a_server_for_what_its_door_takes(verb: Verb) -> None:
    way = way_of(verb.name)
    if way is None:
        assert verb.shown is not None
        return
    assert set(way.query.values()) <= set(verb.query())
    body = set() if way.body is None or isinstance(way.body, str) else set(way.body.values())
    assert body == (set() if verb.body is None or isinstance(way.body, str) else set(verb.body.__struct_fields__))


@pytest.mark.parametrize("verb", ALL)
def test_the_description_names_no_parameter_that_the_node_fills_in(verb: Verb) -> None:
    said = DESCRIBED["paths"][verb.path][verb.method.lower()]["description"]
    asked = {field.name for field in verb.fields}
    assert not [name for name in signature(verb.function).parameters if f"`{name}`" in said and name not in asked]


def test_the_audit_trail_says_all_only_where_no_groups_are_named() -> None:
    at = {"node": "n1", "service": "chat"}
    assert VERBS["clear_service"].note(at) == "clear_service n1 chat all"
    assert VERBS["clear_service"].note({**at, "groups": []}) == "clear_service n1 chat all"
    assert VERBS["clear_service"].note({**at, "groups": [2]}) == "clear_service n1 chat [2]"
    assert VERBS["resize_service"].note({**at, "count": 3}) == "resize_service n1 chat None 3"


def test_make_proto_has_nothing_to_add() -> None:
    assert [each.path.name for each in contract.additions() if each.text != each.before] == []


def test_make_proto_adds_a_method_with_its_messages_and_a_field(monkeypatch: pytest.MonkeyPatch) -> None:
    async def weigh_run(store: Store, run: RunId, *, by: str, why: str = "", wait: Wait = None) -> Weighed:
        """Say how heavy a run is."""
        return Weighed(run=run, kilos=None, at=None, more={})

    weigh = Verb(
        name="weigh_run", function=weigh_run, method="POST", path="/v1/runs/{job}/{moment}/weigh", rpc="Runs.Weigh",
        body=ReasonBody,
    )  # fmt: skip
    monkeypatch.setitem(VERBS, "weigh_run", weigh)
    monkeypatch.setitem(VERBS, "get_run", replace(VERBS["get_run"], answer=HeavyRun))
    (jobs,) = (each for each in contract.additions() if each.text != each.before)
    added = [line for line in jobs.text.splitlines() if line not in jobs.before.splitlines()]
    assert added == [
        "  rpc Weigh(WeighRunRequest) returns (Weighed);",
        "  optional double kilos = 26;",
        "message WeighRunRequest {",
        "message Weighed {",
        "  optional double kilos = 2;",
        "  google.protobuf.Timestamp at = 3;",
        "  string more_json = 4;",
    ]


def test_a_second_operation_of_a_name_is_refused_where_it_is_declared() -> None:
    before, access = VERBS["get_run"], OPERATIONS["get_run"]

    async def get_run(store: Store, run: RunId) -> RunView:
        raise AssertionError

    with pytest.raises(TypeError, match="there are two operations get_run"):
        verb("GET", "/v1/other", Access.ADMIN)(get_run)
    with pytest.raises(TypeError, match="there are two operations get_run"):
        needs(Access.ADMIN)(get_run)
    assert (VERBS["get_run"], OPERATIONS["get_run"]) == (before, access)
