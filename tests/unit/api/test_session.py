"""Sessions of browsers: what the cookie is like, and that no other site's page can use it."""

import pytest

from rota.api.doorkeeper import Doorkeeper
from rota.api.health import Health
from rota.api.http import door
from rota.api.metrics import Figures, registry
from rota.api.resources import routes
from rota.api.session import HEADER, PATH, word
from rota.decide.access import Access, Gate, known
from rota.store import open_store
from tests.unit.api.test_health import HandClock
from tests.unit.api.test_http import Answer
from tests.unit.api.test_relays import count
from tests.unit.api.test_resources_http import JSON, Behind, Caller, Watches

CLOCK = HandClock()
ADA, LOOKER = "rota_ada_0123456789", "rota_looker_0123456789"
GATE = Gate((known(ADA, Access.ADMIN, "ada"), known(LOOKER, Access.VIEW, "looker")), "see: cat data/token")
HOME = "http://127.0.0.1:7700"


class Browser(Caller):
    """Asks with what a browser keeps, and no header `authorization`."""

    def __init__(self, store: object = None) -> None:
        self.refusals: list[str] = []
        more = routes(Behind(lambda: store, CLOCK, Watches(), count))  # type: ignore[arg-type,return-value]
        keeper = Doorkeeper(GATE, CLOCK, note=self._note)
        super().__init__(door(Health(CLOCK), registry(Figures), dict, gate=keeper, more=more, clock=CLOCK))
        del self._usual["authorization"]

    def _note(self, *, by: str, origin: str, what: str, refused: str = "") -> None:
        self.refusals.append(f"{by} {what}")

    async def log_in(self, token: str) -> Answer:
        """Exchange a token for a cookie, and keep it."""
        answer = await self("POST", PATH, {"token": token}, headers={**JSON, "origin": HOME})
        if answer.status == 200:
            self._usual["cookie"] = f"theme=dark; {answer.headers['set-cookie'].partition(';')[0]}"
        return answer


async def test_a_token_becomes_a_cookie_that_scripts_and_other_sites_cannot_use() -> None:
    browser = Browser()
    answer = await browser.log_in(ADA)
    assert answer.json == {"name": "ada", "access": "admin", "csrf": word(ADA)}
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
    assert ADA not in answer.body.decode()
    assert (await browser("GET", "/v1/node")).status == 200
    assert (await browser("GET", PATH)).json == answer.json


@pytest.mark.parametrize("token", ["rota_wrong_0123456789", "", "a b", 'a";x', "ä", 7, None])
async def test_what_is_no_token_gives_no_cookie(token: object) -> None:
    answer = await Browser()("POST", PATH, {"token": token}, headers=JSON)
    assert answer.status in (401, 422)
    assert "set-cookie" not in answer.headers


async def test_a_change_needs_the_word_that_only_our_page_knows() -> None:
    async with open_store("memory://") as store:
        browser = Browser(store)
        await browser.log_in(ADA)
        wanted = {"name": "x", "role": "view"}
        for told in ({}, {HEADER: ""}, {HEADER: word(LOOKER)}, {HEADER: "ä"}):
            said = await browser.refused(403, "POST", "/v1/tokens", wanted, headers={**JSON, "origin": HOME, **told})
            assert HEADER in said
        assert browser.refusals == ["ada POST /v1/tokens"] * 4
        good = {**JSON, "origin": HOME, HEADER: word(ADA)}
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
async def test_a_page_of_another_site_can_neither_look_nor_change_nor_log_in(headers: dict[str, str]) -> None:
    browser = Browser()
    await browser.log_in(ADA)
    for path in ("/v1/node", "/v1/events/watch", "/metrics"):
        assert "own page" in await browser.refused(403, "GET", path, headers=headers)
    told = {**JSON, HEADER: word(ADA), **headers}
    assert "own page" in await browser.refused(403, "POST", "/v1/tokens", {}, headers=told)
    assert "own page" in await browser.refused(403, "POST", PATH, {"token": ADA}, headers={**JSON, **headers})


async def test_a_role_counts_in_a_session_too_and_a_header_needs_no_word() -> None:
    browser = Browser()
    await browser.log_in(LOOKER)
    refused = await browser.refused(403, "POST", "/v1/tokens", {}, headers={**JSON, HEADER: word(LOOKER)})
    assert "yours is for view" in refused
    with_header = {**JSON, "authorization": f"Bearer {ADA}"}
    assert (await browser("POST", "/v1/tokens", {}, headers=with_header)).status == 503  # there is no store


async def test_a_session_ends_when_it_is_told_to() -> None:
    browser = Browser()
    await browser.log_in(ADA)
    answer = await browser("DELETE", PATH, headers={HEADER: word(ADA)})
    assert answer.status == 204
    assert 'rota_session=""' in answer.headers["set-cookie"]
    assert "Max-Age=0" in answer.headers["set-cookie"]


async def test_a_broken_cookie_is_no_token() -> None:
    for cookie in ("rota_session", "rota_session=", 'rota_session="', "=;;=", "rota_session=\\x00"):
        assert (await Browser()("GET", "/v1/node", headers={"cookie": cookie})).status == 401
