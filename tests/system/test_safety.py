"""Strangers at the doors of real nodes: who is kept out, who is let in, and which nodes refuse to start."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from rota.doors.grpc.pb import api_pb2 as pb
from rota.link import open_link
from rota.model.errors import Denied
from tests.kit.cli import ROTA, Answer, rota
from tests.kit.doors import Door
from tests.kit.node import APP, NodeUnderTest
from tests.kit.process import Process
from tests.kit.waiting import eventually

SHARED = "rota_a-token-that-several-nodes-share"


async def nodes_over_grpc(door: Door) -> grpc.StatusCode:
    """How a node answers who asks it for the nodes."""
    async with grpc.aio.insecure_channel(door.grpc) as channel:
        ask: Any = channel.unary_unary("/rota.v1.Nodes/List", response_deserializer=pb.NodeList.FromString)
        metadata = (("authorization", f"Bearer {door.token}"),) if door.token else ()
        call = ask(b"", timeout=60, metadata=metadata)
        code: grpc.StatusCode = await call.code()
        return code


def refused(folder: Path, *flags: object, environ: dict[str, str] | None = None) -> Answer:
    """What a node says that does not start."""
    store = f"sqlite:///{folder}/rota.db"
    return rota("node", "--store", store, "--data", folder / "data", *flags, cwd=folder, environ=environ)


def secret(folder: Path, mode: int = 0o600) -> Path:
    file = folder / "secret"
    file.write_text(SHARED + "\n")
    file.chmod(mode)
    return file


async def test_a_node_keeps_strangers_out_of_both_doors(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path / "n") as node:
        await node.ready()
        door = await Door.of(node)
        assert (node.data / "token").stat().st_mode & 0o777 == 0o600
        for path in ("/healthz", "/livez"):
            assert door.showing("").http("GET", path)[0] == 200
        for path in ("/v1/nodes", "/v1/node", "/metrics", "/openapi.json"):
            status, said = door.showing("").http("GET", path)
            assert (status, str(node.data) in said) == (401, False), said
            assert door.showing("rota_wrong").http("GET", path)[0] == 401
            assert door.http("GET", path)[0] == 200
        name = {"kind": "room", "id": "1"}
        assert door.showing("").http("POST", "/v1/resources", name)[0] == 401
        assert door.http("POST", "/v1/resources", name)[0] == 201
        assert door.http("GET", "/v1/node", headers={"host": "evil.example"})[0] == 421
        assert await nodes_over_grpc(door.showing("")) == grpc.StatusCode.UNAUTHENTICATED
        assert await nodes_over_grpc(door.showing("rota_wrong")) == grpc.StatusCode.UNAUTHENTICATED
        assert await nodes_over_grpc(door) == grpc.StatusCode.OK


async def test_a_token_is_made_once_and_only_its_place_is_told(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path / "n") as node:
        await node.ready()
        first = node.token
        node.stop()
        node.start()
        await node.ready()
        assert node.token == first
        said = node.errors.read_text() + node.output.read_text()
        assert said.count("token made") == 1
        assert f"file={node.data}/token" in said
        assert first not in said
        assert first not in json.dumps(await node.status())


async def test_a_token_may_be_in_a_file_or_a_variable(tmp_path: Path) -> None:
    by_file = ("--token", f"file:{secret(tmp_path)}")
    by_variable = ("--token", "env:FLEET_SECRET")
    with (
        NodeUnderTest(tmp_path / "a", *by_file) as one,
        NodeUnderTest(tmp_path / "b", *by_variable, environ={"FLEET_SECRET": SHARED}, name="b") as other,
    ):
        for node in (one, other):
            doors = (await node.ready())["doors"]
            assert not (node.data / "token").exists()
            assert Door(doors["http"], doors["grpc"], SHARED).http("GET", "/v1/node")[0] == 200
            async with open_link(f"grpc://{doors['grpc']}", token=SHARED) as link:
                assert (await link.check()).node == node.name
        assert other.family()
        assert [each.pid for each in other.family() if "FLEET_SECRET" in _environ(each)] == []


def _environ(process: psutil.Process) -> dict[str, str]:
    try:
        found: dict[str, str] = process.environ()
        return found
    except psutil.NoSuchProcess:
        return {}


async def test_nodes_with_different_tokens_do_not_speak_to_each_other(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path / "a") as one, NodeUnderTest(tmp_path / "b", name="b") as other:
        await one.ready()
        address = f"grpc://{(await other.ready())['doors']['grpc']}"
        for token, words in ((one.token, "not known here"), (None, "needs a token")):
            async with open_link(address, token=token) as link:
                with pytest.raises(Denied, match=words):
                    await link.check()
        async with open_link(address, token=other.token) as link:
            assert (await link.check()).node == other.name


def test_a_token_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = secret(tmp_path, 0o644)
    answer = refused(tmp_path, "--token", f"file:{file}")
    assert answer.code == 4
    assert f"run: chmod 600 {file}" in answer.err


def test_a_token_itself_is_no_setting(tmp_path: Path) -> None:
    by_flag = refused(tmp_path, "--token", SHARED)
    by_variable = refused(tmp_path, environ={"ROTA_TOKEN": SHARED})
    for answer in (by_flag, by_variable):
        assert answer.code == 2
        assert "write file:PATH or env:NAME" in answer.err
        assert SHARED not in answer.err


@pytest.mark.parametrize("door", ["--http", "--grpc"])
def test_a_door_for_other_machines_is_refused(tmp_path: Path, door: str) -> None:
    answer = refused(tmp_path, door, "0.0.0.0:0")
    assert answer.code == 2
    assert "run: rota tls init; then: rota tls issue NODE" in answer.err
    assert "--insecure" in answer.err
    assert not (tmp_path / "rota.db").exists()


async def test_an_insecure_node_is_loud_and_asks_for_the_token_all_the_same(tmp_path: Path) -> None:
    everywhere = ("--http", "0.0.0.0:0", "--grpc", "0.0.0.0:0", "--insecure")
    with NodeUnderTest(tmp_path / "n", *everywhere) as node:
        await node.ready()
        door = await Door.of(node)
        assert "WARNING node insecure" in node.errors.read_text()
        assert door.showing("").http("GET", "/v1/node")[0] == 401
        assert door.http("GET", "/v1/node")[0] == 200
        assert await nodes_over_grpc(door.showing("")) == grpc.StatusCode.UNAUTHENTICATED
        seen = rota("status", "--store", node.store, "-o", "json", cwd=tmp_path)
        assert [each["insecure"] for each in json.loads(seen.out)["nodes"]] == [True]
        assert f"node {node.name}: insecure" in rota("status", "--store", node.store, cwd=tmp_path).out

        async def is_told() -> bool:
            return "node.insecure" in rota("events", "--store", node.store, cwd=tmp_path).out

        await eventually(is_told)


async def test_the_nodes_of_rota_up_share_a_token(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    argv = ["sh", "-c", f'cd "{tmp_path}" && exec "$0" "$@"', ROTA, "up", "app.py", "--nodes", 2]
    with Process(argv, tmp_path / "up.out") as up:
        await eventually(lambda: [line for line in up.lines() if line.startswith("ready")], within=30)
        token = (tmp_path / ".rota/up/token").read_text().strip()
        assert "is in .rota/up/token" in up.errors.read_text()
        assert token not in up.errors.read_text() + up.output.read_text()
        seen = rota("status", "--store", "sqlite:///.rota/up/rota.db", "-o", "json", cwd=tmp_path)
        nodes = json.loads(seen.out)["nodes"]
        assert [node["id"] for node in nodes] == ["n1", "n2"]
        for node in nodes:
            door = Door(node["http"], node["grpc"], token)
            assert door.http("GET", "/v1/nodes")[0] == 200
            assert door.showing("").http("GET", "/v1/nodes")[0] == 401


async def test_a_token_is_made_used_and_revoked_on_every_node(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/rota.db"
    with (
        NodeUnderTest(tmp_path / "a", "--role", "both", store=store) as one,
        NodeUnderTest(tmp_path / "b", store=store, name="b") as other,
    ):
        await one.ready()
        await other.ready()
        made = rota("token", "create", "ci", "--role", "operate", "--store", store, cwd=tmp_path)
        token = made.out.strip()
        doors = [(await Door.of(node)).showing(token) for node in (one, other)]
        for door in doors:
            await eventually(partial(_answers, door, 200), within=30)
        assert doors[0].http("POST", "/v1/resources", {"kind": "room", "id": "1"})[0] == 201
        assert doors[0].http("POST", "/v1/tokens", {"name": "x", "role": "view"})[0] == 403
        assert rota("token", "revoke", "ci", "--store", store, cwd=tmp_path).code == 0
        for door in doors:
            await eventually(partial(_answers, door, 401), within=30)
            await eventually(partial(_is_refused, door), within=30)
        shown = rota("token", "--store", store, cwd=tmp_path).out
        assert token not in shown
        assert "revoked" in shown

        async def is_sealed() -> bool:
            trail = rota("audit", "--store", store, "-o", "json", cwd=tmp_path)
            entries = json.loads(trail.out)
            whats = [each["entry"]["what"] for each in entries if each["number"]]
            refused = [each["entry"]["by"] for each in entries if each["entry"]["refused"] and each["number"]]
            done = {"rota token create", "create_resource", "rota token revoke"} <= set(whats)
            return done and "ci" in refused

        await eventually(is_sealed, within=30)
        verified = rota("audit", "verify", "--store", store, cwd=tmp_path)
        assert verified.code == 0
        assert "links are whole" in verified.out
        assert token not in rota("audit", "--changes", "--store", store, cwd=tmp_path).out


def _answers(door: Door, status: int) -> bool:
    return door.http("GET", "/v1/nodes")[0] == status


async def _is_refused(door: Door) -> bool:
    return await nodes_over_grpc(door) == grpc.StatusCode.UNAUTHENTICATED
