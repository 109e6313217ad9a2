"""TLS as a user sets it up: an authority, certificates, nodes that speak it, renewal and revocation."""

import http.client
import json
import ssl
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from rota.doors.grpc.pb import api_pb2 as pb
from rota.link.channel import open_channel
from rota.link.settings import TlsFiles
from tests.kit.certificates import serial
from tests.kit.cli import rota
from tests.kit.node import NodeUnderTest
from tests.kit.waiting import eventually


def tls(folder: Path, *words: object) -> str:
    """What `rota tls` says."""
    answer = rota("tls", *words, cwd=folder)
    assert answer.code == 0, answer.err
    return answer.out


def files(folder: Path) -> TlsFiles:
    return TlsFiles(cert=folder / "cert.pem", key=folder / "key.pem", ca=folder / "ca.pem")


def over_https(address: str, authority: Path, token: str) -> int:
    """The status of an answer."""
    context = ssl.create_default_context(cafile=str(authority))
    request = urllib.request.Request(f"https://{address}/v1/nodes", headers={"authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=15, context=context) as answer:
        return int(answer.status)


def over_http(address: str) -> int:
    """The status of an answer, without TLS."""
    with urllib.request.urlopen(f"http://{address}/healthz", timeout=5) as answer:
        return int(answer.status)


async def over_grpc(address: str, shown: TlsFiles, token: str) -> grpc.StatusCode:
    """How a call ends."""
    async with open_channel(address, shown) as channel:
        ask: Any = channel.unary_unary("/rota.v1.Nodes/List", response_deserializer=pb.NodeList.FromString)
        try:
            await ask(b"", timeout=60, metadata=(("authorization", f"Bearer {token}"),))
        except grpc.aio.AioRpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def test_an_authority_issues_lists_and_renews(tmp_path: Path) -> None:
    assert "next: rota tls issue NODE" in tls(tmp_path, "init")
    again = rota("tls", "init", cwd=tmp_path)
    assert (again.code, "there is an authority" in again.err) == (5, True)
    said = tls(tmp_path, "issue", "n1", "--host", "n1.example.com", "--host", "10.0.0.5")
    assert "--id n1 --tls tls/n1" in said
    for secret in ("ca/key.pem", "n1/key.pem"):
        assert (tmp_path / "tls" / secret).stat().st_mode & 0o777 == 0o600
    first = serial(tmp_path / "tls/n1")
    tls(tmp_path, "renew", "n1")
    assert serial(tmp_path / "tls/n1") != first
    (one, other) = json.loads(tls(tmp_path, "ls", "-o", "json"))
    assert one["hosts"] == other["hosts"] == ["n1.example.com", "10.0.0.5"]
    for words, said in (
        (("issue", "n1"), "say so with --host"),
        (("issue", "../x", "--host", "a"), "node id"),
        (("issue", "ca", "--host", "a"), "authority's own folder"),
        (("issue", "n1", "--host", "a b"), "is no name or address"),
        (("renew", "n2"), 'no certificate was issued to "n2"; there are: n1'),
        (("issue", "n1", "--host", "a", "--folder", "nowhere"), "make one with rota tls init"),
    ):
        refused = rota("tls", *words, cwd=tmp_path)
        assert refused.code in (2, 3)
        assert said in refused.err


def test_a_node_does_not_start_with_the_certificate_of_another(tmp_path: Path) -> None:
    tls(tmp_path, "init")
    tls(tmp_path, "issue", "n1", "--host", "127.0.0.1")
    usual = ("node", "--store", f"sqlite:///{tmp_path}/rota.db", "--data", tmp_path / "data")
    other = rota(*usual, "--id", "n2", "--tls", tmp_path / "tls/n1", cwd=tmp_path)
    assert other.code == 2
    assert "this certificate is of node n1, and this is node n2" in other.err
    nowhere = rota(*usual[:-1], tmp_path / "other", "--id", "n1", "--tls", tmp_path / "nowhere", cwd=tmp_path)
    assert (nowhere.code, "there is no cert.pem" in nowhere.err) == (2, True)


async def test_nodes_speak_tls_and_refuse_revoked_certificates(tmp_path: Path) -> None:
    store, shared = f"sqlite:///{tmp_path}/rota.db", tmp_path / "token"
    shared.touch(mode=0o600)
    shared.write_text("rota_shared-by-both-nodes\n")
    tls(tmp_path, "init")
    nodes = {name: NodeUnderTest(tmp_path / name, name=name).name for name in "ab"}
    for name in nodes.values():
        tls(tmp_path, "issue", name, "--host", "127.0.0.1")
    tls(tmp_path, "issue", "ci", "--client")
    ca = tmp_path / "tls/ca/cert.pem"

    def node(letter: str, role: str) -> NodeUnderTest:
        flags = ("--token", f"file:{shared}", "--role", role, "--tls", tmp_path / "tls" / nodes[letter])
        return NodeUnderTest(tmp_path / letter, *flags, name=letter, store=store)

    with node("a", "both") as one, node("b", "work") as other:
        doors = [(await each.ready())["doors"] for each in (one, other)]
        token = shared.read_text().strip()
        for each in doors:
            assert over_https(each["http"], ca, token) == 200
            assert await over_grpc(each["grpc"], files(tmp_path / "tls/ci"), token) is grpc.StatusCode.OK
        with pytest.raises((ConnectionError, http.client.HTTPException, urllib.error.URLError)):
            over_http(doors[0]["http"])
        async with grpc.aio.insecure_channel(doors[0]["grpc"]) as channel:
            with pytest.raises(grpc.aio.AioRpcError):
                await channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=5)

        async def both_are_online() -> bool:
            listed = json.loads(rota("nodes", "--store", store, "-o", "json", cwd=tmp_path).out)
            return [each["standing"] for each in listed] == ["online", "online"]

        await eventually(both_are_online, within=30)
        revoked = rota("tls", "revoke", "ci", "--store", store, cwd=tmp_path)
        assert revoked.code == 0, revoked.err
        for each in doors:

            async def is_refused(address: str) -> bool:
                ended = await over_grpc(address, files(tmp_path / "tls/ci"), token)
                return ended is grpc.StatusCode.UNAUTHENTICATED

            await eventually(partial(is_refused, each["grpc"]), within=30)
        tls(tmp_path, "renew", "ci")
        assert await over_grpc(doors[0]["grpc"], files(tmp_path / "tls/ci"), token) is grpc.StatusCode.OK
