"""Codes at the doors: the same one over HTTP and over gRPC, and in what form."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as Packed
from google.rpc import error_details_pb2, status_pb2

from rota.doors.grpc.pb import api_pb2 as pb
from rota.doors.http import problems
from rota.link.details import TRAILER, details
from rota.model.errors import NotFound
from rota.model.problems import DOMAIN
from rota.store import Store, open_store
from tests.kit.fleet_records import declare
from tests.kit.grpc_caller import Caller as GrpcCaller
from tests.kit.grpc_caller import opened as opened_grpc
from tests.kit.http_caller import opened
from tests.kit.http_door import ask as ask_plainly
from tests.kit.http_door import made

PATHS = ("/healthz", "/v1/node", "/v1/nodes", "/v1/jobs/{name}/run", "/v1/resources/{kind}/{id}")


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        await declare(store, "room")
        yield store


async def code_over_grpc(ask: GrpcCaller, method: str, request: Any, token: str | None = None) -> str:
    """The reason that a client library reads from the details of a refusal."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask.raw(method, request.SerializeToString(), **({} if token is None else {"token": token}))
    trailer = next(value for key, value in caught.value.trailing_metadata() or () if key == TRAILER)
    assert isinstance(trailer, bytes)
    status, info = status_pb2.Status.FromString(trailer), error_details_pb2.ErrorInfo()
    assert (status.code, status.message) == (caught.value.code().value[0], caught.value.details())
    assert status.details[0].Unpack(info)
    assert info.domain == DOMAIN
    return info.reason


async def test_a_refusal_is_a_problem_of_rfc_9457() -> None:
    answer = await ask_plainly(made(error=NotFound("no such thing; look", code="job_not_found")), "/v1/fail")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json == {
        "type": "urn:rota:error:job_not_found",
        "title": "No such job",
        "status": 404,
        "detail": "no such thing; look",
        "code": "job_not_found",
        "error": "no such thing; look",
    }


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "code"),
    [
        ("GET", "/v1/resources/room/9", None, 404, "resource_not_found"),
        ("GET", "/v1/jobs/none", None, 404, "job_not_found"),
        ("GET", "/v1/streams/none", None, 404, "stream_not_found"),
        ("GET", "/v1/runs/none/now", None, 404, "run_not_found"),
        ("DELETE", "/v1/hooks/none", None, 404, "hook_not_found"),
        ("POST", "/v1/tokens/none/revoke", {}, 404, "token_not_found"),
        ("POST", "/v1/nodes/none/cordon", {}, 404, "node_not_found"),
        ("GET", "/v1/resources?colour=red", None, 422, "unknown_parameter"),
        ("GET", "/v1/resources?limit=x", None, 422, "invalid"),
        ("POST", "/v1/resources", {"kind": "room", "id": "1", "colour": "red"}, 422, "unknown_field"),
        ("POST", "/v1/resources", {"kind": "hall", "id": "1"}, 422, "unknown_kind"),
        ("POST", "/v1/resources", b"{", 400, "bad_json"),
        ("POST", "/v1/resources", b" " * 2_000_000, 413, "too_large"),
        ("GET", "/v1/nodes/idlest", None, 503, "no_node"),
        ("GET", "/v1/jobz", None, 404, "path_not_found"),
        ("DELETE", "/v1/jobs", None, 405, "method_not_allowed"),
    ],
)
async def test_each_refusal_has_its_code(
    store: Store, method: str, path: str, content: object, status: int, code: str
) -> None:
    headers = {"content-type": "application/json"} if isinstance(content, bytes) else None
    answer = await opened(store)(method, path, content, headers=headers)
    assert (answer.status, answer.json["code"]) == (status, code)
    assert ("retry-after" in answer.headers) == (status == 503)


async def test_conflicts_are_told_apart(store: Store) -> None:
    ask, wanted = opened(store), {"kind": "room", "id": "1"}
    json = {"content-type": "application/json"}
    assert (await ask("POST", "/v1/resources", wanted, headers={**json, "idempotency-key": "k"})).status == 201
    taken = await ask("POST", "/v1/resources", wanted)
    other = await ask("POST", "/v1/resources", {**wanted, "id": "2"}, headers={**json, "idempotency-key": "k"})
    stale = await ask("PATCH", "/v1/resources/room/1", {"priority": 2}, headers={**json, "if-match": '"1"'})
    codes = [answer.json["code"] for answer in (taken, other, stale)]
    assert codes == ["already_exists", "key_reused", "stale_version"]


async def test_the_door_itself_refuses_with_codes(store: Store) -> None:
    ask = opened(store)
    assert (await ask("GET", "/v1/nodes", headers={"host": "evil.example"})).json["code"] == "wrong_host"
    assert (await ask("GET", "/v1/nodes", headers={"authorization": "Bearer x"})).json["code"] == "unauthenticated"
    assert (await ask("POST", "/v1/hooks", b"{}", headers={"content-type": "text/plain"})).json["code"] == "not_json"


async def test_the_code_over_grpc_is_the_one_over_http(store: Store) -> None:
    over_http = opened(store)
    async with opened_grpc(lambda: store) as over_grpc:
        for path, method, request in (
            ("/v1/resources/room/9", "/rota.v1.Resources/Get", pb.GetResourceRequest(kind="room", id="9")),
            ("/v1/why/n9", "/rota.v1.Nodes/Why", pb.WhyNodeRequest(node="n9")),
            ("/v1/nodes/idlest", "/rota.v1.Nodes/Idlest", pb.IdlestRequest()),
            ("/v1/resources?limit=0", "/rota.v1.Resources/List", pb.ListResourcesRequest(limit=0)),
        ):
            said = (await over_http("GET", path)).json["code"]
            assert await code_over_grpc(over_grpc, method, request) == said


async def test_a_long_sentence_and_its_details_fit_into_a_status() -> None:
    async with opened_grpc(lambda: None) as ask:
        assert await code_over_grpc(ask, "/rota.v1.Nodes/List", pb.ListNodesRequest()) == "not_joined"
    _, trailer = details(5, "丂" * 400, "not_found")
    assert len(trailer) * 4 / 3 + 400 * 9 < 8192  # each character is percent-encoded in the status


def test_details_are_what_google_rpc_writes() -> None:
    info = error_details_pb2.ErrorInfo(reason="job_not_found", domain=DOMAIN)
    packed = Packed()
    packed.Pack(info)
    wanted = status_pb2.Status(code=5, message="no such job – look", details=[packed])
    assert status_pb2.Status.FromString(details(5, "no such job – look", "job_not_found")[1]) == wanted


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("/v1/nod", "/v1/node"),
        ("/v1/node/", "/v1/node"),
        ("/v1/job/nightly/run", "/v1/jobs/{name}/run"),
        ("/v1/resource/room/1", "/v1/resources/{kind}/{id}"),
        ("/health", "/healthz"),
        ("/", ""),
        ("/wp-admin.php", ""),
    ],
)
def test_the_nearest_path_is_suggested(path: str, near: str) -> None:
    assert problems.nearest(path, PATHS) == near


async def test_a_path_that_is_not_there_is_answered_shortly(store: Store) -> None:
    sentence = await opened(store).refused(404, "GET", "/" + "x" * 5000)
    assert len(sentence) < 300
