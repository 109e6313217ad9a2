"""Checks that a resource fits its kind, made before it is stored. Pure."""

from collections.abc import Mapping
from typing import Any

from rota.kit.text import schema
from rota.model.spec.checks import Check, did_you_mean
from rota.resources.core.records import KindRecord


def check_replicas(kind: KindRecord, id: str, replicas: int | None) -> None:
    """Invalid if a resource asks for more tasks than its kind allows."""
    if kind.exclusive and replicas is not None and replicas > 1:
        Check(kind.name, id).fail(f"replicas is {replicas}, and its kind is exclusive: such a resource has one task")


def check_spec(kind: KindRecord, id: str, spec: Mapping[str, Any]) -> None:
    """Invalid names the field of a spec that its kind does not take, and what it must be."""
    if kind.schema is None:
        return
    check, known, given = Check(kind.name, id), schema.fields(kind.schema), dict(spec)
    if known is not None:
        for name in given:
            if name not in known:
                there = f"; there are {', '.join(known)}" if known else "; it has none"
                check.fail(f'spec has no field "{name}"{did_you_mean(name, known) or there}')
        if "id" in known:  # it is filled in where the task runs
            is_number = known["id"].get("type") == "integer" and id.removeprefix("-").isdecimal()
            given["id"] = int(id) if is_number else id
    if why := schema.problem(kind.schema, given):
        check.fail(f"spec: {why}")
