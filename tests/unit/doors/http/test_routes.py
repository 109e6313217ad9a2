"""The operations over HTTP, asked without a socket: what is decoded, what is answered, what is refused."""

import asyncio
import json
from collections.abc import AsyncIterator

import msgspec
import pytest

from rota.doors.http import calls, problems
from rota.fleet.events.event_log import EventLog
from rota.model.errors import NotFound
from rota.model.ids import NodeId
from rota.resources.doors import operations as resource_operations
from rota.store import Store, open_store
from tests.kit.fleet_records import declare, join, lead, settle
from tests.kit.http_caller import CLOCK, JSON, Caller, opened
from tests.kit.relay_records import SINK, status
from tests.kit.waiting import eventually


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        await declare(store, "room")
        yield store


@pytest.fixture
def ask(store: Store) -> Caller:
    return opened(store)


# Relays


async def test_relays_and_what_they_counted(ask: Caller, store: Store) -> None:
    await status(store, "a")
    found = (await ask("GET", "/v1/relays?node=a")).json
    assert found["map"] is None
    assert found["relays"][0]["status"]["sinks"] == [msgspec.to_builtins(SINK)]
    assert 'node "b" has no relay; there are some on a' in await ask.refused(404, "GET", "/v1/relays?node=b")
    await ask("POST", "/v1/resources", {"kind": "room", "id": "1"})
    counted = (await ask("GET", "/v1/resources/room/1/messages")).json
    assert counted == {
        "kind": "room", "resource": "1", "unique": 7, "duplicates": 6, "seen_by_one": 1, "last_s": 0.5,
    }  # fmt: skip
    assert "there is no resource room/2" in await ask.refused(404, "GET", "/v1/resources/room/2/messages")


# Resources


async def test_a_resource_from_its_making_to_its_end(ask: Caller) -> None:
    made = await ask("POST", "/v1/resources", {"kind": "room", "id": "a b", "spec": {"url": "x"}, "priority": 2})
    assert made.status == 201
    assert made.headers["location"] == "/v1/resources/room/a%20b"
    version = made.json["version"]
    assert made.headers["etag"] == f'"{version}"'
    assert made.json == {
        "kind": "room", "id": "a b", "uid": made.json["uid"], "version": version, "created": "2026-01-01T00:00:00Z",
        "origin": "api", "spec": {"url": "x"}, "priority": 2, "replicas": None, "cost": 1, "labels": {}, "pin": None,
        "tags": {}, "affinity": {}, "status": None, "state": "unseen", "running": None,
    }  # fmt: skip
    assert (await ask("GET", "/v1/resources/room/a b")).json == made.json
    assert (await ask("GET", "/v1/resources")).json["resources"] == [made.json]
    changed = await ask("PATCH", "/v1/resources/room/a b", {"cost": 2}, headers={**JSON, "if-match": f'"{version}"'})
    assert (changed.status, changed.json["cost"], changed.json["priority"]) == (200, 2, 2)
    assert changed.headers["etag"] == f'"{changed.json["version"]}"'
    gone = await ask("DELETE", "/v1/resources/room/a b", headers={"if-match": changed.headers["etag"]})
    assert (gone.status, gone.body) == (204, b"")
    assert "there is no resource room/a b" in await ask.refused(404, "GET", "/v1/resources/room/a b")
    assert "there is no resource" in await ask.refused(404, "DELETE", "/v1/resources/room/a b")


async def test_making_can_wait_for_the_leader(ask: Caller, store: Store) -> None:
    asking = asyncio.create_task(ask("POST", "/v1/resources?wait=20s", {"kind": "room", "id": "1"}))
    made = await eventually(lambda: resource_operations.get_resource(store, "room", "1"), despite=(NotFound,))
    await settle(store, made, "a")
    status = (await asking).json["status"]
    assert (status["AssignedNode"], status["replicas"], status["assigned"]) == ("a|a:7701", 1, 1)


async def test_an_idempotency_key_makes_a_repeat_harmless(ask: Caller) -> None:
    wanted, headers = {"kind": "room", "id": "1"}, {**JSON, "idempotency-key": "k1"}
    first = await ask("POST", "/v1/resources", wanted, headers=headers)
    again = await ask("POST", "/v1/resources", wanted, headers=headers)
    assert (again.status, again.json) == (first.status, first.json)
    assert "another request" in await ask.refused(409, "POST", "/v1/resources", {**wanted, "cost": 2}, headers=headers)


async def test_pages_are_asked_for_by_token(ask: Caller) -> None:
    for id in "abcde":
        await ask("POST", "/v1/resources", {"kind": "room", "id": id})
    first = (await ask("GET", "/v1/resources?kind=room&limit=3&pending=true")).json
    second = (await ask("GET", f"/v1/resources?limit=3&token={first['next']}")).json
    assert [each["id"] for each in (*first["resources"], *second["resources"])] == list("abcde")
    assert second["next"] is None


@pytest.mark.parametrize(
    ("status", "method", "path", "content", "said"),
    [
        (422, "POST", "/v1/resources", {"kind": "rom", "id": "2"}, 'has a kind "rom"; did you mean "room"?'),
        (422, "POST", "/v1/resources", {"kind": "room", "id": "2", "slots": -1}, 'there is no field "slots"'),
        (422, "POST", "/v1/resources", {"kind": "room", "id": "2", "replicas": "2"}, "it must be a whole number"),
        (422, "POST", "/v1/resources", {"kind": "room", "id": "2", "cost": -1}, "cost is -1; it must be from 1"),
        (422, "POST", "/v1/resources", ["room"], "the body is a list; it must be an object"),
        (422, "POST", "/v1/resources", {}, "kind is missing"),
        (422, "POST", "/v1/resources?wait=soon", {"kind": "room", "id": "2"}, "wait: "),
        (422, "POST", "/v1/resources?wait=1h", {"kind": "room", "id": "2"}, "it must be from 0s to 1m"),
        (422, "POST", "/v1/resources?wiat=1s", {"kind": "room", "id": "2"}, 'no parameter "wiat"; did you mean "wait"'),
        (409, "POST", "/v1/resources", {"kind": "room", "id": "1"}, "room/1 exists already, at version"),
        (400, "POST", "/v1/resources", b"{kind: room}", "the body is not JSON: "),
        (400, "POST", "/v1/resources", b"", "the body is not JSON: "),
        (400, "POST", "/v1/resources", b"[" * 100_000, "nested too deeply"),
        (400, "POST", "/v1/resources", b'{"kind":"room","id":"\xff"}', "the body is not JSON: "),
        (413, "POST", "/v1/resources", b" " * (calls.LARGEST + 1), "larger than 1048576 bytes"),
        (422, "PATCH", "/v1/resources/room/1", {}, "nothing is to change"),
        (422, "PATCH", "/v1/resources/room/1", {"kind": "x"}, "kind never changes"),
        (422, "PATCH", "/v1/resources/room/1", {"colour": "red"}, 'there is no field "colour"'),
        (404, "PATCH", "/v1/resources/room/9", {"cost": 2}, "there is no resource room/9"),
        (422, "GET", "/v1/resources?limit=many", None, 'limit is "many"; it must be a whole number'),
        (422, "GET", "/v1/resources?limit=0", None, "limit is 0; it must be from 1 to 1000"),
        (422, "GET", "/v1/resources?pending=yes", None, "it must be true or false"),
        (422, "GET", "/v1/resources/room/1?x=1", None, "/v1/resources/room/1 has none"),
        (422, "GET", "/v1/resources/room/\x00", None, "unprintable"),
        (405, "PUT", "/v1/resources/room/1", {}, "does not take PUT; use "),
        (404, "GET", "/v1/why/room/9", None, "there is no resource room/9"),
        (404, "GET", "/v1/why/x", None, 'there is no node "x"'),
        (404, "POST", "/v1/nodes/x/cordon", {}, 'there is no node "x"; there are a'),
        (422, "POST", "/v1/nodes/a/cordon", {"why": 3}, "why is 3; it must be a text"),
        (422, "POST", "/v1/nodes/a/cordon", {"reason": "x"}, 'there is no field "reason"; there may be why'),
        (404, "POST", "/v1/nodes/x/drain", {}, 'there is no node "x"; there are a'),
        (422, "POST", "/v1/nodes/a/drain", {"deadline": "soon"}, "deadline: "),
        (422, "POST", "/v1/nodes/a/drain", {"why": 3}, "why is 3; it must be a text"),
        (422, "POST", "/v1/nodes/a/drain", {"deadline": 5}, "deadline is 5; it must be a text, such as 10s"),
        (422, "POST", "/v1/nodes/a/drain", {"deadline": "40000d"}, "deadline is 40000d; it must be 36500d or less"),
        (422, "PATCH", "/v1/nodes/a", {}, "nothing is to change; give slots"),
        (422, "POST", "/v1/sources/room/sync", {"force": None}, "force is None; it must be true or false"),
        (422, "GET", "/v1/plan?add=-1", None, "add is "),
        (404, "GET", "/v1/plan?without=x", None, 'there is no node "x"'),
        (422, "POST", "/v1/resources", {"kind": "room", "id": "2", "affinity": {"nera": {}}}, 'no field "nera"; did'),
        (422, "POST", "/v1/resources", {"kind": "room", "id": "2", "affinity": {"near": {"a": 1}}}, "both must be str"),
        (422, "POST", "/v1/nodes/a/uncordon", {"why": "x"}, 'there is no field "why"; there may be none'),
        (422, "GET", "/v1/events?since=today", None, "it must be a time with its zone"),
        (422, "GET", "/v1/events?since=2026-01-01T00:00:00", None, "it must be a time with its zone"),
        (422, "POST", "/crawler/resource", {"id": "x"}, "name is None; it must be a text"),
        (404, "DELETE", "/crawler/resource", {"name": "none"}, "no such task"),
    ],
)  # fmt: skip
async def test_a_bad_request_is_refused_with_a_sentence(
    ask: Caller, store: Store, status: int, method: str, path: str, content: object, said: str
) -> None:
    await ask("POST", "/v1/resources", {"kind": "room", "id": "1"})
    await join(store, "a")
    before = await store.revision()
    assert said in await ask.refused(status, method, path, content)
    assert await store.revision() == before


@pytest.mark.parametrize(
    ("path", "field"), [("/v1/tokens", "role"), ("/v1/nodes/a/drain", "deadline"), ("/v1/nodes/a/cordon", "why")]
)
async def test_a_refusal_shows_only_the_beginning_of_a_long_value(ask: Caller, path: str, field: str) -> None:
    content = {**({"name": "web"} if path == "/v1/tokens" else {}), field: ["x" * 100_000]}
    said = await ask.refused(422, "POST", path, content)
    assert said.startswith(f"{field} is ['xxx")
    assert len(said) < 200


LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("method", "path", "content", "begins", "ends"),
    [
        ("POST", "/v1/streams/s/scale", {"tasks": LONG}, 'stream "s": tasks is xxx', "or null for as declared"),
        ("POST", "/v1/streams/s/reset", {"backfill": LONG}, 'stream "s": backfill is xxx', "true or false"),
        ("PATCH", "/v1/nodes/a/labels", {"labels": {"zone": [LONG]}}, 'node "a": label zone is [', "to take it away"),
        ("PATCH", "/v1/nodes/a/labels", {"labels": {LONG: "b"}}, 'labels: "xxx', "at most 63"),
        ("PUT", "/v1/jobs/a", {"argv": ["x"], "cron": LONG}, 'job "a": cron "xxx', "or six with seconds first"),
        ("PUT", "/v1/jobs/a", {"argv": LONG}, 'job "a": argv is a str; write a list of words: [', "xxx']"),
    ],
)
async def test_a_refusal_of_any_value_has_its_beginning_and_says_what_to_do(
    ask: Caller, method: str, path: str, content: object, begins: str, ends: str
) -> None:
    answer = await ask(method, path, content)
    assert (answer.status, answer.json["detail"]) == (422, answer.json["error"])
    said = answer.json["detail"]
    assert said.startswith(begins)
    assert said.endswith(ends)
    assert len(said) == problems.LONGEST


async def test_a_stale_version_is_refused_with_the_present_one(ask: Caller) -> None:
    made = await ask("POST", "/v1/resources", {"kind": "room", "id": "1"})
    changed = (await ask("PATCH", "/v1/resources/room/1", {"cost": 2}, headers={**JSON, "if-match": "*"})).json
    stale = {**JSON, "if-match": made.headers["etag"]}
    said = f"room/1 is at version {changed['version']}, not {made.json['version']}"
    assert said in await ask.refused(409, "PATCH", "/v1/resources/room/1", {"cost": 3}, headers=stale)
    assert said in await ask.refused(409, "DELETE", "/v1/resources/room/1", headers=stale)
    for wrong in ("x", '"1", "2"', "-1"):
        answer = await ask.refused(422, "DELETE", "/v1/resources/room/1", headers={"if-match": wrong})
        assert "it must be one version" in answer


@pytest.mark.parametrize(
    "told", [{}, {"content-type": "text/plain"}, {"content-type": "application/x-www-form-urlencoded"}]
)
@pytest.mark.parametrize("path", ["/v1/resources", "/v1/nodes/a/cordon", "/v1/nodes/a/uncordon", "/crawler/resource"])
async def test_only_what_says_that_it_is_json_changes_anything(
    ask: Caller, store: Store, path: str, told: dict[str, str]
) -> None:
    await join(store, "a")
    before = await store.revision()
    contents = [b'{"kind":"room","id":"1","name":"1"}', *([b""] if told else [])]
    for content in contents:
        sentence = await ask.refused(415, "POST", path, content, headers=told)
        assert sentence.endswith("send the header content-type: application/json")
    assert await store.revision() == before


async def test_a_body_is_cut_off_where_it_becomes_too_large(ask: Caller) -> None:
    answer = await ask.send("POST", "/v1/resources", [b" " * 600_000] * 3, JSON)
    assert answer.status == 413
    answer = await ask.send("POST", "/v1/resources", [b""], {**JSON, "content-length": "9999999999"})
    assert answer.status == 413


async def test_a_caller_who_goes_away_is_no_failure_of_the_node(ask: Caller, caplog: pytest.LogCaptureFixture) -> None:
    answer = await ask.send("POST", "/v1/resources", [], JSON)
    assert answer.status == 400
    assert not caplog.records


async def test_a_node_that_has_not_joined_says_so() -> None:
    ask = opened(None)
    for method, path in (("GET", "/v1/resources"), ("GET", "/v1/nodes"), ("POST", "/crawler/resource")):
        assert "not in the fleet yet" in await ask.refused(503, method, path)


# Nodes, why, events, kinds


async def test_nodes_are_shown_cordoned_and_explained(ask: Caller, store: Store) -> None:
    await join(store, "a", kinds=("room",))
    await lead(store, "a")
    answer = await ask("POST", "/v1/nodes/a/cordon", {"why": "disk"})
    assert answer.json == {"node": "a", "since": "2026-01-01T00:00:00Z", "why": "disk"}
    (node,) = (await ask("GET", "/v1/nodes")).json["nodes"]
    assert (node["id"], node["role"], node["slots"], node["used"], node["kinds"]) == ("a", "both", 10, 0, ["room"])
    assert (node["cordon"]["why"], node["is_up"], node["leads"]) == ("disk", True, True)
    assert (await ask("GET", "/v1/why/a")).json["reasons"][0].startswith("it is cordoned since")
    answer = await ask("POST", "/v1/nodes/a/uncordon", headers=JSON)
    assert answer.json == {"node": "a", "was_cordoned": True}
    assert (await ask("GET", "/v1/nodes")).json["nodes"][0]["cordon"] is None
    await ask("POST", "/v1/resources", {"kind": "room", "id": "1"})
    assert (await ask("GET", "/v1/why/room/1")).json["says"].startswith("the leader has not looked at it yet")
    assert [kind["name"] for kind in (await ask("GET", "/v1/kinds")).json["kinds"]] == ["room"]


async def test_events_are_read(ask: Caller, store: Store) -> None:
    log = EventLog(store, NodeId("a"), CLOCK)
    for number in range(3):
        log.record("node.joined", f"n{number}", term=1)
    await log.flush()
    answer = await ask("GET", "/v1/events?kind=node.*&node=a&limit=2&since=2025-01-01T00:00:00Z")
    assert [each["subject"] for each in answer.json["events"]] == ["n1", "n2"]


# The seed


async def test_the_seed_may_send_all_its_fields_and_is_told_the_node(ask: Caller, store: Store) -> None:
    wanted = {"id": "zjx", "name": "task-test-4", "assigned_node": "", "creation_time": 0, "colour": "red"}
    asking = asyncio.create_task(ask("POST", "/crawler/resource", wanted))
    made = await eventually(lambda: resource_operations.get_resource(store, "room", "task-test-4"), despite=(NotFound,))
    await settle(store, made, "worker-2")
    answer = await asking
    assert (answer.status, answer.json) == (200, {"id": "worker-2", "Address": "worker-2:7701"})
    answer = await ask("DELETE", "/crawler/resource", {"name": "task-test-4"})
    assert (answer.status, answer.json) == (200, {})


async def test_the_seed_is_told_that_there_are_no_worker_nodes(ask: Caller, store: Store) -> None:
    asking = asyncio.create_task(ask.refused(503, "POST", "/crawler/resource", {"name": "1"}))
    made = await eventually(lambda: resource_operations.get_resource(store, "room", "1"), despite=(NotFound,))
    await settle(store, made, pending="there is no node")
    assert (await asking).startswith("no worker nodes: there is no node")
    assert (await resource_operations.get_resource(store, "room", "1")).uid == made.uid


# The description


async def test_the_description_is_answered(ask: Caller) -> None:
    described = (await ask("GET", "/openapi.json")).json
    create = described["paths"]["/v1/resources"]["post"]
    assert (create["operationId"], create["x-role"]) == ("create_resource", "operate")
    assert create["summary"].startswith("Create a resource.")
    assert set(described["components"]["schemas"]["WantedResource"]["required"]) == {"kind", "id"}


async def test_the_description_names_only_records_that_it_has(ask: Caller) -> None:
    text = (await ask("GET", "/openapi.json")).body.decode()
    schemas = json.loads(text)["components"]["schemas"]
    named = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert named <= schemas.keys()
    assert named


async def test_a_verb_without_a_body_needs_no_content_type(ask: Caller, store: Store) -> None:
    await join(store, "a")
    answer = await ask("POST", "/v1/nodes/a/cordon", headers={})
    assert (answer.status, answer.json["node"]) == (200, "a")
    assert (await ask("POST", "/v1/nodes/a/uncordon", headers={})).json == {"node": "a", "was_cordoned": True}
    assert "content-type" in await ask.refused(415, "POST", "/v1/resources", headers={})


async def test_durations_of_a_kind_are_written_as_people_write_them(ask: Caller) -> None:
    (kind,) = (await ask("GET", "/v1/kinds")).json["kinds"]
    assert (kind["silent_after"], kind["source_every"]) == ("30s", None)


@pytest.mark.parametrize("wait", ["0s", "PT0S"])
async def test_a_wait_is_given_in_both_shapes(ask: Caller, wait: str) -> None:
    answer = await ask("POST", f"/v1/resources?wait={wait}", {"kind": "room", "id": "1"})
    assert answer.status == 201


async def test_labels_of_a_node_are_changed(store: Store) -> None:
    await join(store, "n1")  # its settings say zone=a
    ask = opened(store)
    path = "/v1/nodes/n1/labels"
    done = (await ask("PATCH", path, {"labels": {"gpu": "yes", "zone": None}})).json
    assert (done["labels"], done["labels_set"]["labels"]) == ({"gpu": "yes"}, {"gpu": "yes", "zone": None})
    assert (await ask("PATCH", path, {"reset": True})).json == {
        "node": "n1",
        "labels": {"zone": "a"},
        "labels_set": None,
    }
    assert "must be a text, or null" in await ask.refused(422, "PATCH", path, {"labels": {"gpu": 1}})
    assert "nothing is to change" in await ask.refused(422, "PATCH", path, {})
    assert "n9" in await ask.refused(404, "PATCH", "/v1/nodes/n9/labels", {"labels": {"gpu": "1"}})


async def test_slots_of_a_node_are_changed(store: Store) -> None:
    await join(store, "n1")
    ask = opened(store)
    assert (await ask("PATCH", "/v1/nodes/n1", {"slots": 3})).json == {"node": "n1", "slots": 3}
    assert (await ask("PATCH", "/v1/nodes/n1", {"slots": None})).json == {"node": "n1", "slots": None}
    assert "slots is -1" in await ask.refused(422, "PATCH", "/v1/nodes/n1", {"slots": -1})
    assert "give slots" in await ask.refused(422, "PATCH", "/v1/nodes/n1", {})
    assert "n9" in await ask.refused(404, "PATCH", "/v1/nodes/n9", {"slots": 3})
