"""What commands print as JSON has the fields that the same operation answers with over HTTP."""

import asyncio
import json
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest
from click.testing import CliRunner

from rota.cli.main import cli
from rota.doors import offered
from rota.doors.verbs import VERBS
from rota.fleet.doors import hooks, tokens
from rota.jobs.doors import run_operations
from rota.kit.time.clock import SYSTEM
from rota.resources.doors import operations as resource_operations
from rota.store import open_store
from tests.kit.fleet_records import declare, join
from tests.kit.jobs import add

COMMANDS = {
    "list_jobs": "jobs ls",
    "get_job": "jobs get backup",
    "run_job": "jobs run backup --no-wait",
    "preview_job": "jobs preview backup",
    "disable_job": "jobs disable backup",
    "why_job": "why job backup",
    "list_runs": "runs ls",
    "list_nodes": "nodes ls",
    "cordon_node": "nodes cordon n1",
    "uncordon_node": "nodes uncordon n1",
    "set_slots": "nodes slots n1 3",
    "label_node": "nodes label n1 zone=b",
    "get_resource": "resources get room/1",
    "list_resources": "resources ls",
    "why_resource": "why room/1",
    "plan": "plan",
    "list_hooks": "hooks ls",
    "enable_hook": "hooks enable pager",
    "list_tokens": "token ls",
    "verify_audit": "audit verify",
    "list_relays": "relay stat",
    "enable_job": "jobs enable backup",
    "get_run": "runs get RUN",
    "interrupt_run": "runs interrupt RUN --no-wait",
    "why_run": "why run RUN",
    "create_resource": "resources add room 2 --no-wait",
    "update_resource": "resources update room/1 --replicas 2",
    "drain_node": "nodes drain n1 --no-wait",
    "undrain_node": "nodes undrain n1",
    "create_token": "token create tests --role view",
    "rotate_token": "token rotate web",
}
"""Operation → a command that asks it, on a store that `fill` has filled."""

NOT_ON_A_STORE = {
    "a running node answers": {
        "clear_service", "fleet_status", "follow_printed", "list_services", "node_printed", "node_services",
        "read_printed", "reload_node", "resize_service", "rollback_node", "sync_source", "why_source", "idlest_node",
        "count_messages",
    },
    "a stream that ran answers": {
        "get_stream", "hand_off_groups", "list_published", "list_streams", "reset_offsets", "reset_stream",
        "resume_stream", "scale_stream", "stream_history", "stream_lag", "stream_status", "suspend_stream",
        "terminate_stream", "why_stream",
    },
    "no command prints it, or in words or lines of its own": {
        "add_resource", "await_run", "backfill_job", "create_hook", "delete_hook", "delete_job", "delete_resource",
        "delete_run", "follow_log", "get_hook", "get_node", "get_token", "list_kinds", "overview", "preview_backfill",
        "put_job", "read_audit", "read_events", "read_log", "remove_resource", "restart_run", "revoke_token",
        "try_hook", "watch_events", "watch_pulse", "watch_resources", "why_node",
    },
}  # fmt: skip
"""Operations without a command above, by the reason."""


RUN = "RUN"
"""Stands for the id of a run."""


def _run(url: str) -> str:
    listed = CliRunner().invoke(cli, ["runs", "ls", "--store", url, "-o", "json"])
    run: str = json.loads(listed.stdout)["items"][0]["id"]
    return run


async def fill(url: str) -> None:
    async with open_store(url) as store:
        await declare(store, "room")
        await join(store, "n1", kinds=("room",))
        await add(store, cron="0 * * * *")
        await run_operations.run_job(store, "backup", by="me")
        await tokens.create_token(store, SYSTEM, "web", "view", by="me")
        await resource_operations.create_resource(store, SYSTEM, {"kind": "room", "id": "1"})
        await hooks.create_hook(store, SYSTEM, {"name": "pager", "events": ["node.*"], "url": "https://example.org/x"})


def fields(operation: str, *, of_entries: bool) -> set[str]:
    """The fields of what an operation answers with, or of the entries of that list."""
    record = VERBS[operation].record
    if of_entries:
        record = get_args(get_type_hints(record)[record.__struct_fields__[0]])[0]
    return {field.encode_name for field in msgspec.structs.fields(record)}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("answers")
    url = f"sqlite:///{folder / 'rota.db'}"
    asyncio.run(fill(url))
    return url


@pytest.mark.parametrize("operation", COMMANDS)
def test_a_command_prints_what_the_door_answers(operation: str, url: str) -> None:
    assert offered
    words = COMMANDS[operation].split()
    if RUN in words:
        words = [_run(url) if word == RUN else word for word in words]
    arguments = [*words, "--store", url, "-o", "json"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    told = json.loads(result.stdout)
    entries = told if isinstance(told, list) else told.get("items")
    assert set(entries[0] if entries else told) == fields(operation, of_entries=bool(entries)), result.stdout


def test_every_operation_is_compared_or_named_with_a_reason() -> None:
    named = [operation for operations in NOT_ON_A_STORE.values() for operation in operations]
    assert sorted({*VERBS} - {*COMMANDS}) == sorted(operation for operation in named if operation in VERBS)
    assert not set(named) & COMMANDS.keys()
