"""Changes that are asked twice with the same key: done once, answered twice; by each caller for itself."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.compose.metrics import NodeFigures, registry
from rota.doors import verbs
from rota.doors.behind import NodeBackend
from rota.doors.guard import idempotency
from rota.doors.guard.doorkeeper import Doorkeeper
from rota.doors.guard.idempotency import KeyBudget
from rota.doors.health import HealthChecks
from rota.doors.http import once
from rota.doors.http import routes as resources
from rota.doors.http.door import door
from rota.doors.watches import Watches
from rota.fleet.core.access.gate import Access, Gate, known
from rota.jobs.logs.folder import FolderLogs
from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.errors import Unavailable, Unknown
from rota.model.ids import Key, Revision
from rota.resources.core.records import KindRecord
from rota.store import Store, open_store
from rota.store.around import StoreAround
from rota.store.port import Entry, Expect, Put, Write
from tests.kit.fleet_records import declare, join
from tests.kit.hand_clock import HandClock
from tests.kit.http_caller import JSON, Caller
from tests.kit.http_door import Answer
from tests.kit.jobs import over
from tests.kit.relay_records import count

CLOCK = HandClock()
ADA, BOB = "rota_ada_0123456789", "rota_bob_0123456789"
GATE = Gate((known(ADA, Access.NODE, "ada"), known(BOB, Access.ADMIN, "bob")))
NIGHTLY = {"argv": ["true"], "cron": "0 3 * * *"}
DUE = datetime(2026, 1, 1, 3, tzinfo=UTC)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        await declare(store, "room")
        await join(store, "a")
        yield store


class Asking:
    """Callers who ask with a key."""

    def __init__(self, store: Store, folder: Path) -> None:
        logs = FolderLogs(folder)
        behind = NodeBackend(lambda: store, CLOCK, Watches(), count, lambda: logs)
        self._app = door(
            HealthChecks(CLOCK),
            registry(NodeFigures),
            dict,
            gate=Doorkeeper(GATE, CLOCK),
            more=resources.routes(behind),
        )

    async def __call__(
        self, method: str, path: str, content: object = None, *, key: str = "", token: str = ADA
    ) -> Answer:
        shown = {**JSON, **({once.HEADER: key} if key else {})}
        body = {} if content is None else content
        return await Caller(self._app, token)(method, path, body, headers=shown)


@pytest.fixture
def ask(store: Store, tmp_path: Path) -> Asking:
    return Asking(store, tmp_path)


CHANGES: list[tuple[str, str, object]] = [
    ("PUT", "/v1/jobs/nightly", NIGHTLY),
    ("POST", "/v1/jobs/job/disable", {}),
    ("POST", "/v1/jobs/job/enable", {}),
    ("POST", "/v1/jobs/job/run", {}),
    ("POST", "/v1/jobs/job/backfill", {"first": "2026-01-02T00:00:00Z", "last": "2026-01-05T00:00:00Z"}),
    ("POST", "/v1/runs/RUN/restart", {}),
    ("DELETE", "/v1/runs/RUN", {}),
    ("DELETE", "/v1/jobs/idle", {}),
    ("POST", "/v1/resources", {"kind": "room", "id": "2"}),
    ("PATCH", "/v1/resources/room/1", {"priority": 7}),
    ("DELETE", "/v1/resources/room/1", {}),
    ("PATCH", "/v1/nodes/a", {"slots": 3}),
    ("POST", "/v1/nodes/a/cordon", {"why": "disk"}),
    ("POST", "/v1/nodes/a/drain", {}),
    ("POST", "/v1/hooks", {"name": "h", "events": ["*"], "url": "https://example.com/x"}),
    ("PATCH", "/v1/hooks/there", {"enabled": False}),
    ("DELETE", "/v1/hooks/there", {}),
    ("POST", "/v1/tokens/ci/revoke", {}),
]
"""Changes of every sort; RUN is a run that is over."""


async def prepared(ask: Asking, store: Store) -> str:
    """What the changes are about; the run that is over."""
    for name in ("job", "idle"):
        assert (await ask("PUT", f"/v1/jobs/{name}", NIGHTLY)).status == 200
    assert (await ask("POST", "/v1/resources", {"kind": "room", "id": "1"})).status == 201
    hook = {"name": "there", "events": ["*"], "url": "https://example.com/x"}
    assert (await ask("POST", "/v1/hooks", hook)).status == 201
    assert (await ask("POST", "/v1/tokens", {"name": "ci", "role": "view"})).status == 201
    entry = await store.get(keys.kind("room"))
    assert entry is not None
    listed = replace(codec.decode(KindRecord, entry.value), source_every=timedelta(minutes=1))
    await store.commit(Put(entry.key, codec.encode(listed)))
    return await over(store, "job", DUE)


async def revision_without_notes(store: Store) -> list[tuple[str, bytes]]:
    """All that there is, but for what tells who asked for what."""
    found = [each for each in (await store.scan("/")).entries if not each.key.startswith("/idempotency/")]
    return [(each.key, each.value) for each in found]


@pytest.mark.parametrize(("method", "path", "content"), CHANGES)
async def test_a_change_with_a_key_is_made_once_and_answered_twice(
    ask: Asking, store: Store, method: str, path: str, content: object
) -> None:
    path = path.replace("RUN", await prepared(ask, store))
    first = await ask(method, path, content, key="k")
    assert first.status < 300, first.body
    before = await revision_without_notes(store)
    again = await ask(method, path, content, key="k")
    assert (again.status, again.body) == (first.status, first.body)
    assert again.headers.get("location") == first.headers.get("location")
    assert await revision_without_notes(store) == before
    other = await ask(method, f"{path}", {"wrong": 1}, key="k")
    assert other.status in (409, 422)
    assert await revision_without_notes(store) == before


def test_every_change_over_http_takes_a_key_or_refuses_it() -> None:
    """It is one rule for all of them; those that it leaves out are named."""
    changes = {each.operation for each in resources.table() if verbs.OPERATIONS[each.operation] is not Access.VIEW}
    without = {name for name in changes if verbs.VERBS[name].is_noted}
    assert without == {"reload_node", "rollback_node", "clear_service", "resize_service"}
    assert {name for name in changes if verbs.VERBS[name].keeps_keys} == {"create_resource", "run_job"}
    assert {name for name in changes if verbs.VERBS[name].is_secret} == {"create_token", "rotate_token"}


@pytest.mark.parametrize("path", ["/v1/nodes/a/reload", "/v1/nodes/a/rollback", "/v1/nodes/a/services/x/clear"])
async def test_what_only_a_node_does_takes_no_key(ask: Asking, path: str) -> None:
    answer = await ask("POST", path, {}, key="k")
    assert answer.status == 422
    assert "takes no idempotency-key" in answer.json["error"]


async def test_a_token_is_made_once_and_told_once(ask: Asking, store: Store) -> None:
    wanted = {"name": "grafana", "role": "view"}
    first = await ask("POST", "/v1/tokens", wanted, key="k")
    assert first.status == 201
    again = await ask("POST", "/v1/tokens", wanted, key="k")
    assert (again.status, "shown only once" in again.json["error"]) == (409, True)
    for entry in (await store.scan("/")).entries:
        assert first.json["token"].encode() not in entry.value
    rotated = await ask("POST", "/v1/tokens/grafana/rotate", {}, key="r")
    assert rotated.status == 200
    before = await store.get(keys.token("grafana"))
    assert (await ask("POST", "/v1/tokens/grafana/rotate", {}, key="r")).status == 409
    assert await store.get(keys.token("grafana")) == before


AT_ONCE: list[tuple[str, str, object]] = [
    *CHANGES,
    ("POST", "/v1/sources/room/sync", {"no_wait": True}),
    ("POST", "/v1/tokens", {"name": "new", "role": "view"}),
    ("POST", "/v1/tokens/ci/rotate", {}),
    ("DELETE", "/crawler/resource", {"name": "1"}),
]


@pytest.mark.parametrize(("method", "path", "content"), AT_ONCE)
async def test_two_who_come_at_once_with_one_key_make_one_change(
    store: Store, tmp_path: Path, method: str, path: str, content: object
) -> None:
    """Both have looked for the note before either wrote one: operations that try again after a Conflict must end."""
    path = path.replace("RUN", await prepared(Asking(store, tmp_path), store))
    together = Together(store)
    ask = Asking(together, tmp_path)
    answers = await asyncio.gather(*(ask(method, path, content, key="k") for _ in range(2)))
    first = next(each for each in answers if each.status < 300)
    for each in answers:
        assert (each.status, each.body) == (first.status, first.body) or each.status == 409
    assert together.commits < 10


@pytest.mark.parametrize(("method", "path", "content"), AT_ONCE)
async def test_who_looked_for_the_note_too_early_gets_the_answer_all_the_same(
    store: Store, tmp_path: Path, method: str, path: str, content: object
) -> None:
    """It meets the change of the first: nothing to delete, a name that is taken, nothing left to do."""
    first = Asking(store, tmp_path)
    path = path.replace("RUN", await prepared(first, store))
    early = TooEarly(store)
    second = asyncio.create_task(Asking(early, tmp_path)(method, path, content, key="k"))
    await early.has_looked.wait()
    made = await first(method, path, content, key="k")
    early.go_on.set()
    again = await second
    if "rotate" in path or path == "/v1/tokens":
        assert (made.status < 300, again.status) == (True, 409)
    else:
        assert (again.status, again.body) == (made.status, made.body)


class Together(StoreAround):
    """A store whose first look for a note waits for the second one."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.commits, self._looks, self._both = 0, 0, asyncio.Event()

    async def get(self, key: Key) -> Entry | None:
        found = await self._store.get(key)
        if key.startswith(idempotency.PREFIX):
            self._looks += 1
            if self._looks > 1:
                self._both.set()
            await self._both.wait()
        return found

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        self.commits += 1
        if self.commits > 100:
            raise AssertionError("a commit is tried again and again")
        return await self._store.commit(*writes, expect=expect)


class TooEarly(StoreAround):
    """A store whose first look for a note takes until `go_on` is set."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.has_looked, self.go_on = asyncio.Event(), asyncio.Event()

    async def get(self, key: Key) -> Entry | None:
        found = await self._store.get(key)
        if key.startswith(idempotency.PREFIX):
            self.has_looked.set()
            await self.go_on.wait()
        return found


async def test_callers_do_not_share_keys(ask: Asking, store: Store) -> None:
    run = await prepared(ask, store)
    for method, path, content in (
        ("POST", "/v1/jobs/job/run", {}),
        ("POST", f"/v1/runs/{run}/restart", {}),
    ):
        mine = await ask(method, path, content, key="k1" + path)
        assert mine.status == 422  # a slash
        mine = await ask(method, path, content, key="same" + path[-3:])
        theirs = await ask(method, path, content, key="same" + path[-3:], token=BOB)
        assert (mine.status, theirs.status) == (201, 201)
        assert mine.json["id"] != theirs.json["id"]
    assert (await ask("POST", "/v1/resources", {"kind": "room", "id": "x"}, key="z")).status == 201
    assert (await ask("POST", "/v1/resources", {"kind": "room", "id": "y"}, key="z", token=BOB)).status == 201


class Breaking(StoreAround):
    """A store that takes a commit and does not say so, or does not take it."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.error: Exception | None = None
        self.takes = True

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        if self.error is None:
            return await self._store.commit(*writes, expect=expect)
        error, self.error = self.error, None
        if self.takes:
            await self._store.commit(*writes, expect=expect)
        raise error


@pytest.mark.parametrize("takes", [True, False])
async def test_an_outcome_that_is_unknown_is_found_again(store: Store, tmp_path: Path, takes: bool) -> None:
    broken = Breaking(store)
    ask = Asking(broken, tmp_path)
    run = await prepared(ask, store)
    before = await runs(store)
    broken.error, broken.takes = Unknown("no answer"), takes
    assert (await ask("POST", f"/v1/runs/{run}/restart", {}, key="k")).status == 504
    assert len(await runs(store)) == len(before) + takes
    again = await ask("POST", f"/v1/runs/{run}/restart", {}, key="k")
    if takes:  # it is known to have happened, and is not done again
        assert (again.status, "this change was made" in again.json["error"]) == (409, True)
    else:
        assert again.status == 201
    assert len(await runs(store)) == len(before) + 1


async def runs(store: Store) -> list[str]:
    return [each.key for each in (await store.scan(keys.LIVE_RUNS)).entries]


async def test_what_was_refused_may_be_asked_again_with_the_same_key(ask: Asking, store: Store) -> None:
    assert (await ask("DELETE", "/v1/hooks/late", {}, key="k")).status == 404
    hook: dict[str, Any] = {"name": "late", "events": ["*"], "url": "https://example.com/x"}
    assert (await ask("POST", "/v1/hooks", hook)).status == 201
    assert (await ask("DELETE", "/v1/hooks/late", {}, key="k")).status == 204
    assert (await ask("DELETE", "/v1/hooks/late", {}, key="k")).status == 204


async def test_the_same_json_is_the_same_request_however_it_is_written(ask: Asking) -> None:
    hook = {"name": "h", "events": ["*"], "url": "https://example.com/x"}
    first = await ask("POST", "/v1/hooks", hook, key="k")
    again = await ask("POST", "/v1/hooks", json.dumps(dict(reversed(hook.items())), indent=2).encode(), key="k")
    assert (first.status, again.status, again.headers[once.REPLAYED]) == (201, 201, "true")


def test_a_caller_uses_so_many_keys_in_an_hour() -> None:
    budget, hour = KeyBudget(most=2), timedelta(hours=1).total_seconds()
    for _ in range(2):
        budget.take("ada", 10.0)
    budget.take("bob", 10.0)
    with pytest.raises(Unavailable, match="ada used 2 idempotency keys"):
        budget.take("ada", 9.0 + hour)
    budget.take("ada", 10.0 + hour)
