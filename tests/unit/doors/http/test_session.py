"""Sessions of browsers: what the cookie is like, and that no other site's page can use it."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from rota.compose.metrics import NodeFigures, registry
from rota.doors.behind import NodeBackend
from rota.doors.guard.doorkeeper import Doorkeeper
from rota.doors.guard.sessions import LOOKUPS, MOST, Sessions
from rota.doors.health import HealthChecks
from rota.doors.http.door import door
from rota.doors.http.routes import routes
from rota.doors.http.session import HEADER, PATH, word
from rota.doors.watches import Watches
from rota.fleet.core.access.gate import Access, Gate, digest, known
from rota.fleet.doors.tokens import create_token, revoke_token
from rota.model import keys
from rota.model.errors import Unavailable
from rota.store import Store, open_store
from tests.kit.doorkeeping import Time, admitted, watched
from tests.kit.hand_clock import HandClock
from tests.kit.http_caller import JSON, Caller
from tests.kit.http_door import Answer
from tests.kit.relay_records import count
from tests.kit.waiting import eventually

CLOCK = HandClock()
ADA, LOOKER = "rota_ada_0123456789", "rota_looker_0123456789"
GATE = Gate((known(ADA, Access.ADMIN, "ada"), known(LOOKER, Access.VIEW, "looker")), "see: cat data/token")
HOME = "http://127.0.0.1:7700"


class Browser(Caller):
    """Asks with what a browser keeps, and no header `authorization`."""

    def __init__(self, store: Store | None = None, keeper: Doorkeeper | None = None) -> None:
        self.refusals: list[str] = []
        more = routes(NodeBackend(lambda: store, CLOCK, Watches(), count))
        self.sessions = Sessions(lambda: store, CLOCK)
        keeper = keeper or Doorkeeper(GATE, CLOCK, note=self._note)
        app = door(
            HealthChecks(CLOCK),
            registry(NodeFigures),
            dict,
            gate=keeper,
            more=more,
            sessions=self.sessions,
            clock=CLOCK,
        )
        super().__init__(app)
        del self._usual["authorization"]
        self.word = ""

    def _note(self, *, by: str, origin: str, what: str, refused: str = "") -> None:
        self.refusals.append(f"{by} {what}")

    async def log_in(self, token: str) -> Answer:
        """Exchange a token for a cookie, and keep it."""
        answer = await self("POST", PATH, {"token": token}, headers={**JSON, "origin": HOME})
        if answer.status == 200:
            self._usual["cookie"] = f"theme=dark; {answer.headers['set-cookie'].partition(';')[0]}"
            self.word = answer.json["csrf"]
        return answer

    def like(self, other: "Browser") -> None:
        """Have the cookies of another."""
        self._usual["cookie"], self.word = other._usual["cookie"], other.word


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        yield store


async def test_a_token_becomes_a_cookie_that_does_not_have_it_and_that_scripts_cannot_read(store: Store) -> None:
    browser = Browser(store)
    answer = await browser.log_in(ADA)
    name, _, value = answer.headers["set-cookie"].partition(";")[0].partition("=")
    assert answer.json == {"name": "ada", "access": "admin", "csrf": word(value)}
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "Path=/", "SameSite=strict", "Max-Age=43200"} <= set(cookie.split("; "))
    assert name == "rota_session_7700"  # each port has its own, for browsers send it to all of them
    for secret in (ADA, digest(ADA).hex()):
        assert secret not in cookie + answer.body.decode()
    (entry,) = (await store.scan(keys.SESSIONS)).entries
    assert value.encode() not in entry.key.encode() + entry.value
    assert entry.lease is not None
    assert (await browser("GET", "/v1/node")).status == 200
    assert (await browser("GET", PATH)).json == answer.json


async def test_a_cookie_is_no_token_and_a_token_is_no_cookie(store: Store) -> None:
    browser = Browser(store)
    value = (await browser.log_in(ADA)).headers["set-cookie"].partition(";")[0].partition("=")[2]
    assert (await browser("GET", "/v1/node", headers={"authorization": f"Bearer {value}"})).status == 401
    assert (await browser("GET", "/v1/node", headers={"cookie": f"rota_session_7700={ADA}"})).status == 401


async def test_a_session_counts_at_every_node_and_ends_at_every_node(store: Store) -> None:
    one, other = Browser(store), Browser(store)
    await one.log_in(ADA)
    other.like(one)
    assert (await other("GET", "/v1/node")).status == 200
    following = asyncio.create_task(one.sessions.follow(store))
    try:
        assert (await other("DELETE", PATH, headers={HEADER: other.word})).status == 204
        await eventually(lambda: ended(one))
    finally:
        following.cancel()
        await asyncio.wait([following])
    assert "log in again" in await other.refused(401, "GET", "/v1/node")
    assert not (await store.scan(keys.SESSIONS)).entries


async def ended(browser: Browser) -> bool:
    return (await browser("GET", "/v1/node")).status == 401


async def test_a_session_ends_with_its_token_and_after_its_time(store: Store) -> None:
    clock = Time()
    made = await create_token(store, clock, "ci", "operate", by="ada")
    async with watched(store, clock) as keeper:
        browser = Browser(store, keeper)
        assert await admitted(keeper, made.token, True)
        await browser.log_in(made.token)
        assert (await browser("GET", "/v1/node")).status == 200
        await revoke_token(store, clock, "ci")
        assert not await admitted(keeper, made.token, False)
        assert "was revoked" in await browser.refused(401, "GET", "/v1/node")
    late = Sessions(lambda: store, clock)
    id = await late.begin(digest(ADA))
    assert late.known(id)
    clock.now += timedelta(hours=12)
    assert late.known(id) is None
    assert await late.find(id) is None


async def test_a_token_has_so_many_sessions_and_the_store_is_not_asked_without_end(store: Store) -> None:
    sessions = Sessions(lambda: store, CLOCK)
    for _ in range(MOST + 1):
        await sessions.begin(digest(ADA))
    assert len((await store.scan(keys.SESSIONS)).entries) == MOST
    for _ in range(LOOKUPS):
        assert await sessions.find(secrets.token_urlsafe(32)) is None
    with pytest.raises(Unavailable, match="too many unknown sessions"):
        await sessions.find(secrets.token_urlsafe(32))


async def test_without_a_store_nobody_logs_in(store: Store) -> None:
    assert (await Browser().log_in(ADA)).status == 503
    browser, gone = Browser(store), Browser()
    await browser.log_in(ADA)
    gone.like(browser)
    assert (await gone("GET", "/v1/node")).status == 401


@pytest.mark.parametrize("token", ["rota_wrong_0123456789", "", "a b", 'a";x', "ä", 7, None])
async def test_what_is_no_token_gives_no_cookie(token: object) -> None:
    answer = await Browser()("POST", PATH, {"token": token}, headers=JSON)
    assert answer.status in (401, 422)
    assert "set-cookie" not in answer.headers


async def test_a_change_needs_the_word_that_only_our_page_knows(store: Store) -> None:
    browser, looker = Browser(store), Browser(store)
    await browser.log_in(ADA)
    await looker.log_in(LOOKER)
    wanted = {"name": "x", "role": "view"}
    for told in ({}, {HEADER: ""}, {HEADER: looker.word}, {HEADER: "ä"}):
        said = await browser.refused(403, "POST", "/v1/tokens", wanted, headers={**JSON, "origin": HOME, **told})
        assert HEADER in said
    assert browser.refusals == ["ada POST /v1/tokens"] * 4
    good = {**JSON, "origin": HOME, HEADER: browser.word}
    assert (await browser("POST", "/v1/tokens", wanted, headers=good)).status == 201


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:7700.evil.example"},
        {"origin": "http://127.0.0.1:8080"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
async def test_a_page_of_another_site_can_neither_look_nor_change_nor_log_in(
    store: Store, headers: dict[str, str]
) -> None:
    browser = Browser(store)
    await browser.log_in(ADA)
    for path in ("/v1/node", "/v1/events/watch", "/metrics"):
        assert "own page" in await browser.refused(403, "GET", path, headers=headers)
    told = {**JSON, HEADER: browser.word, **headers}
    assert "own page" in await browser.refused(403, "POST", "/v1/tokens", {}, headers=told)
    assert "own page" in await browser.refused(403, "POST", PATH, {"token": ADA}, headers={**JSON, **headers})


async def test_a_role_counts_in_a_session_too_and_a_header_needs_no_word(store: Store) -> None:
    browser = Browser(store)
    await browser.log_in(LOOKER)
    refused = await browser.refused(403, "POST", "/v1/tokens", {}, headers={**JSON, HEADER: browser.word})
    assert "yours is for view" in refused
    with_header = {**JSON, "authorization": f"Bearer {ADA}"}
    assert (await browser("POST", "/v1/tokens", {}, headers=with_header)).status == 422  # nothing is named


async def test_a_session_ends_when_it_is_told_to(store: Store) -> None:
    browser = Browser(store)
    await browser.log_in(ADA)
    answer = await browser("DELETE", PATH, headers={HEADER: browser.word})
    assert answer.status == 204
    assert 'rota_session_7700=""' in answer.headers["set-cookie"]
    assert (await browser("GET", "/v1/node")).status == 401  # whoever has kept the cookie
    assert "Max-Age=0" in answer.headers["set-cookie"]


async def test_a_broken_cookie_is_no_token() -> None:
    for value in ("", "=", '="', "=\\x00", f"={'x' * 43}"):
        cookie = f"rota_session_7700{value}"
        assert (await Browser()("GET", "/v1/node", headers={"cookie": cookie})).status == 401
