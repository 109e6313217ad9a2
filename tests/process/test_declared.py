"""Resources of `rota.toml` on real processes: there at the start, and as the file says after a reload."""

import os
import signal
from pathlib import Path

from rota.fleet.doors import event_operations
from rota.model import codec, keys
from rota.resources.core.records import PlacingRecord
from rota.resources.doors import operations as resource_operations
from rota.store import Store, open_store
from tests.kit.cli import rota
from tests.kit.node import NodeUnderTest
from tests.kit.waiting import eventually


def table(id: str, **fields: int) -> str:
    return "\n".join(
        ("[[resources]]", 'kind = "room"', f'id = "{id}"', *(f"{name} = {fields[name]}" for name in fields))
    )


CHANGED = "[node]\nslots = 7\n[supervisor]\npolicy = 'random'\n"
"""A setting that needs a restart, and one that counts at once."""


async def placed(store: Store) -> dict[str, int]:
    """Declared resources that are covered, and their priorities."""
    page = await resource_operations.list_resources(store)
    return {view.id: view.priority for view in page.resources if view.origin == "config" and not view.is_pending}


async def test_declared_resources_are_covered_and_follow_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"{table('1')}\n{table('2', priority=3)}\n")
    with NodeUnderTest(tmp_path / "node", "--role", "both", "--config", file) as node:
        async with open_store(node.store) as store:
            await node.ready()
            await eventually(lambda: _is(store, {"1": 0, "2": 3}), within=30)
            file.write_text(f"{table('2', priority=4)}\n{table('3')}\n{CHANGED}")
            os.kill(node.pid, signal.SIGHUP)
            await eventually(lambda: _is(store, {"2": 4, "3": 0}), within=30)
            assert await eventually(lambda: _events(store, "config.pending"), within=30) == ["node.slots"]
            await eventually(lambda: _are_placed_by(store, "random"), within=30)
            await node.until(lambda now: now["work"]["generation"] == 2 and not now["work"]["reloading"])
            file.write_text("[[resources]]\nkind = 3\n")
            assert node.rota("reload", "--id", node.name).code == 0
            await eventually(lambda: _events(store, "config.failed"), within=30)
            assert await placed(store) == {"2": 4, "3": 0}


async def _is(store: Store, wanted: dict[str, int]) -> bool:
    return await placed(store) == wanted


async def _are_placed_by(store: Store, policy: str) -> bool:
    entry = await store.get(keys.PLACING)
    return entry is not None and codec.decode(PlacingRecord, entry.value).policy == policy


async def _events(store: Store, kind: str) -> list[str]:
    """The subjects of all events of a kind."""
    return [event.subject for event in (await event_operations.read_events(store, kinds=[kind])).events]


def test_a_bad_table_stops_the_start_and_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rota.toml"
    file.write_text(f'[node]\nstore = "memory://"\n\n{table("1", cost=0)}\n')
    for command in (["node"], ["config", "check"]):
        answer = rota(*command, cwd=tmp_path)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err == 'rota: rota.toml:4: [[resources]]: room "1": cost is 0; it must be from 1 to 10000\n'
    file.write_text(f'[node]\nstore = "memory://"\n\n{table("1")}\n')
    assert rota("config", "check", cwd=tmp_path).out == "nothing wrong; 1 resources declared\n"
