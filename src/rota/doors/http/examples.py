"""Examples for the description of the API, made from its schemas: every value fits its schema.

`example` follows the schema; where a property's name says more than its type, `VALUES` has a value for it. Pure.
"""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

DEEPEST = 6
"""Levels of objects within objects that an example shows."""

VALUES: Mapping[str, object] = {
    "id": "n1", "node": "n1", "kind": "room", "name": "nightly", "job": "nightly", "stream": "orders", "app": "shop",
    "http": "10.0.0.7:7700", "grpc": "10.0.0.7:7701", "host": "box-7", "address": "10.0.0.7:7701", "by": "ada",
    "why": "disk is being replaced", "version": 12, "revision": 1200, "uid": "7f3a2c9d5b1e4f60", "origin": "api",
    "next": None, "error": "", "text": "node n1 joined", "subject": "n1", "severity": "info", "role": "both",
    "url": "https://example.org/…", "timeout": "10s", "cron": "0 3 * * *", "every": None, "tz": "UTC", "slots": 20,
    "schedule": "at 03:00 UTC every day", "token": "rota_0123456789", "hash": "5f2c", "head": "5f2c", "key": "/rota/x",
    "what": "create_resource", "says": "1 of 1 tasks are placed, on n1", "thing": "room/1", "replicas": 1, "cost": 1,
    "source": "kafka://broker/orders", "sink": "sqlite:///out.db", "labels": {"zone": "a"}, "spec": {}, "events": None,
    "code": "job_not_found", "status": None, "type": "urn:rota:error:job_not_found", "csrf": "5f2c",
    "Address": "n1:7701",
    "AssignedNode": "n1|10.0.0.7:7701", "not_understood": {}, "drain": None, "cordon": None, "slots_set": None,
    "labels_set": None, "given_back": None, "last": None, "reset": None, "payload": None, "schema": None,
}  # fmt: skip
"""Property → a value, used where the schema takes it."""


def example(schema: Schema, schemas: Mapping[str, Schema], name: str = "", depth: int = 0) -> Any:
    """A value that fits a schema; `schemas` are those it may name."""
    schema = _resolved(schema, schemas)
    if name in VALUES and fits(VALUES[name], schema, schemas):
        return VALUES[name]
    if "anyOf" in schema:
        shown = [each for each in schema["anyOf"] if each.get("type") != "null"]
        return example(shown[0], schemas, name, depth)
    match schema.get("type"):
        case "object":
            return _object(schema, schemas, depth)
        case "array":
            return _array(schema, schemas, name, depth)
        case kind:
            return _plain(schema, str(kind))


def _plain(schema: Schema, kind: str) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    text = {"date-time": "2026-01-31T12:00:00Z", "duration": "10s"}.get(schema.get("format", ""), "text")
    least = int(schema.get("minimum", 1)) or 1
    return {"string": text, "integer": least, "number": 0.5, "boolean": True}.get(kind)


def fits(value: object, schema: Schema, schemas: Mapping[str, Schema]) -> bool:
    """Is a plain value of the type that a schema asks for?"""
    schema = _resolved(schema, schemas)
    if "anyOf" in schema:
        return any(fits(value, each, schemas) for each in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    kinds: Mapping[str, type | tuple[type, ...]] = {
        "string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict, "null": type(None),
    }  # fmt: skip
    wanted = schema.get("type")
    if wanted is None:
        return True
    if wanted == "object" and "properties" in schema:
        return False  # its fields say more
    return wanted in kinds and isinstance(value, kinds[wanted]) and "format" not in schema


def _resolved(schema: Schema, schemas: Mapping[str, Schema]) -> Schema:
    while "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    return schema


def _object(schema: Schema, schemas: Mapping[str, Schema], depth: int) -> dict[str, Any]:
    if "properties" not in schema or depth >= DEEPEST:
        others = schema.get("additionalProperties")
        return {"n1": example(others, schemas, "", depth + 1)} if isinstance(others, dict) and others else {}
    return {name: example(each, schemas, name, depth + 1) for name, each in schema["properties"].items()}


def _array(schema: Schema, schemas: Mapping[str, Schema], name: str, depth: int) -> list[Any]:
    items = schema.get("items")
    return [example(items, schemas, name, depth + 1)] if items else [None] * int(schema.get("minItems", 0))
