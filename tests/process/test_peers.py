"""Equal peers as real processes: a node that stands still is noticed, told of once, and comes back."""

import json
import os
import pwd
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.model.peers import NodeHealth, Strikes
from rota.store import open_store
from tests.kit.cli import rota
from tests.kit.fleet import Fleet
from tests.kit.waiting import eventually
from tests.kit.webhooks import webhook

OFF, ON = "node.offline", "node.online"


@asynccontextmanager
async def fleet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fleet]:
    """Three nodes with one token that check each other each second, and whose leases outlive the test's pauses."""
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text("rota_test_0123456789abcdefghij\n")
    monkeypatch.setenv("ROTA_PEERS_CHECK_EVERY", "1s")
    url = f"sqlite:///{folder}/rota.db"
    async with open_store(url) as store:
        with Fleet(folder, url, store, "abc", "--lease-ttl", "1m", "--token", f"file:{token}") as found:
            await found.ready()
            yield found


async def health(found: Fleet, name: str) -> NodeHealth | None:
    entry = await found.store.get(keys.node_health(NodeId(found.nodes[name].name)))
    return codec.decode(NodeHealth, entry.value) if entry else None


async def observers(found: Fleet, name: str) -> set[str]:
    """Who holds strikes against a node."""
    entries = (await found.store.scan(f"{keys.STRIKES}{found.nodes[name].name}/")).entries
    return {codec.decode(Strikes, entry.value).observer for entry in entries}


async def test_a_frozen_node_is_offline_and_back_when_it_thaws_and_each_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with webhook() as hook:
        async with fleet(tmp_path, monkeypatch) as found:
            names = {short: node.name for short, node in found.nodes.items()}
            store = ("--store", f"sqlite:///{tmp_path}/rota.db")
            added = rota("hooks", "add", "pager", "--on", OFF, "--on", ON, "--url", hook.url, *store, cwd=tmp_path)
            assert added.code == 0, added.err

            async def is_online(name: str) -> bool | None:
                known = await health(found, name)
                return known.is_online if known else None

            await eventually(lambda: is_online("b"), within=30)
            found.nodes["b"].freeze_between_writes(store[1])

            async def is_offline() -> bool:
                return await is_online("b") is False

            await eventually(is_offline, within=30)
            assert await observers(found, "b") == {names["a"], names["c"]}
            expected = {names["a"]: "online", names["b"]: "offline", names["c"]: "online"}

            def listed_nodes() -> list[dict[str, Any]] | None:
                said = rota("nodes", "-o", "json", *store, cwd=tmp_path)
                listed: list[dict[str, Any]] = json.loads(said.out)
                return listed if {node["id"]: node["standing"] for node in listed} == expected else None

            listed = await eventually(listed_nodes)
            assert all(0 <= node["load"]["score"] <= 100 for node in listed)
            idlest = json.loads(rota("nodes", "idlest", "-o", "json", *store, cwd=tmp_path).out)
            assert idlest["node"] in (names["a"], names["c"])

            def told_of_b() -> list[tuple[str, str]]:  # a node that was slow may be told of, too
                return [each for each in hook.of(OFF, ON) if each[1] == names["b"]]

            await eventually(told_of_b)

            found.nodes["b"].thaw()
            await eventually(lambda: is_online("b"), within=30)

            async def is_wiped() -> bool:
                return not await observers(found, "b")

            await eventually(is_wiped, within=30)
            await eventually(lambda: len(told_of_b()) >= 2)
            tried = rota("hooks", "test", "pager", *store, cwd=tmp_path)
            assert tried.code == 0, tried.err
            assert "hook.test" in [each.kind for each in hook.told]
            assert told_of_b() == [(OFF, names["b"]), (ON, names["b"])], "nothing was told twice"
            assert len({each.id for each in hook.told}) == len(hook.told)


async def test_a_command_is_run_and_what_fails_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_COMMANDS_USER", pwd.getpwuid(os.geteuid()).pw_name)  # it writes where only we may
    async with fleet(tmp_path, monkeypatch):
        store = ("--store", f"sqlite:///{tmp_path}/rota.db")
        # A file for each kind of event: a node may join that late that the hook is told of it, too.
        argv = ("sh", "-c", f'cat > {tmp_path}/seen-$HOOK_EVENT; test "$HOOK_EVENT" = hook.test')
        assert rota("hooks", "add", "write", "--on", "node.*", *store, "--", *argv, cwd=tmp_path).code == 0
        assert rota("hooks", "test", "write", *store, cwd=tmp_path).code == 0
        assert json.loads((tmp_path / "seen-hook.test").read_text())["event"]["kind"] == "hook.test"
        broken = ("sh", "-c", "echo no mail server >&2; exit 3")
        assert rota("hooks", "add", "fail", "--on", "node.*", *store, "--", *broken, cwd=tmp_path).code == 0
        failed = rota("hooks", "test", "fail", *store, cwd=tmp_path)
        assert failed.code == 7
        assert "the command exited with 3: no mail server" in failed.err
        told = rota("events", "--kind", "hook.failed", *store, cwd=tmp_path)
        assert "hook fail failed, and its event is dropped" in told.out
