"""The dashboard's files, asked for without a socket."""

import re

import pytest

from rota.compose.metrics import NodeFigures, registry
from rota.doors.health import HealthChecks
from rota.doors.http.door import door
from rota.web.routes import is_page, pages
from tests.kit.hand_clock import HandClock
from tests.kit.http_caller import Caller
from tests.kit.http_door import GATE
from tests.kit.web_files import texts

LOADED = re.compile(r'(?:src|href|from|import)[=\s(]*["\'](\.{0,2}/[\w./-]+\.(?:js|css|svg))["\']')


def stranger() -> Caller:
    """Somebody without a token."""
    app = door(HealthChecks(HandClock()), registry(NodeFigures), dict, gate=GATE, more=pages(), is_page=is_page)
    return Caller(app, "")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/docs", "text/html; charset=utf-8"),
        ("/static/docs.js", "text/javascript; charset=utf-8"),
        ("/static/app.js", "text/javascript; charset=utf-8"),
        ("/static/style.css", "text/css; charset=utf-8"),
        ("/static/icon.svg", "image/svg+xml"),
        ("/static/screens/overview.js", "text/javascript; charset=utf-8"),
    ],
)
async def test_everybody_gets_the_files_under_a_strict_policy(path: str, kind: str) -> None:
    answer = await stranger()("GET", path)
    assert (answer.status, answer.headers["content-type"]) == (200, kind)
    policy = dict(each.split(" ", 1) for each in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_what_the_files_show_needs_a_token_all_the_same() -> None:
    for path in ("/v1/overview", "/v1/nodes", "/staticky", "/static"):
        assert (await stranger()("GET", path)).status == 401


@pytest.mark.parametrize("path", ["/static/nothing.js", "/static/../routes.py", "/static/", "/static//etc/passwd"])
async def test_only_what_is_in_the_package_is_served(path: str) -> None:
    answer = await stranger()("GET", path)
    assert answer.status == 404
    assert "the dashboard has no file" in answer.json["error"]


async def test_under_another_name_there_is_no_page() -> None:
    """Otherwise a page of another site could have its own name point here, and load ours as its own."""
    assert (await stranger()("GET", "/", headers={"host": "evil.example"})).status == 421


def test_no_file_asks_another_site_or_holds_a_script_within_a_page() -> None:
    for path, text in texts().items():
        outside = re.findall(
            r"(?:https?:)?//(?!www\.w3\.org)[a-z0-9-]+\.[a-z]{2,}", re.sub(r"^\s*//.*$", "", text, flags=re.M)
        )
        assert not outside, path
        assert "innerHTML" not in text, path
        assert "eval(" not in text, path
    for page in (texts()["index.html"], texts()["docs.html"]):
        assert not re.search(r"<script(?![^>]*\bsrc=)", page)
        assert not re.search(r"\son\w+=|\sstyle=|<style", page)


def test_every_file_that_is_loaded_is_there() -> None:
    held = texts().keys()
    for path, text in texts().items():
        for found in LOADED.findall(text):
            folder = "" if found.startswith("/static/") else path.rpartition("/")[0]
            assert resolved(folder, found) in held, f"{path} loads {found}"


def resolved(folder: str, path: str) -> str:
    """A path that a file names, from the top."""
    if path.startswith("/"):
        return path.removeprefix("/static/")
    parts = folder.split("/") if folder else []
    for part in path.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
