"""Streams: lag, chain, groups, what was published, and the verbs."""

from typing import Any

import pytest
from playwright.async_api import expect

from tests.kit.browser import Dashboard
from tests.kit.cli import rota
from tests.kit.shown import Shown, ask
from tests.kit.waiting import eventually

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.needs("chromium"),
]
WITHIN = 60_000
"""Milliseconds that a stream may take to come to an end and publish."""


def stream(shown: Shown) -> Any:
    return ask(shown, "GET", "/v1/streams/clicks")


def moves(shown: Shown) -> Any:
    return ask(shown, "GET", "/v1/streams/clicks/status")["moves"]


async def test_a_stream_is_handed_off_and_what_it_published_shows(dashboard: Dashboard, shown: Shown) -> None:
    assert rota("log", "append", shown.log, cwd=shown.fleet.nodes["a"].folder, stdin="one\ntwo\nthree\n").code == 0
    await dashboard.go("streams")
    await expect(dashboard.row("streams", "clicks")).to_contain_text("running", timeout=WITHIN)
    await dashboard.row("streams", "clicks").get_by_role("link").first.click()
    await expect(dashboard.panel("The chain of offsets").locator("tbody tr")).to_have_count(2)
    await expect(dashboard.panel("Groups")).to_contain_text("reading", timeout=WITHIN)
    await eventually(lambda: ask(shown, "GET", "/v1/streams/clicks/status")["groups"][0]["tasks"][0]["rows"] == 3)
    await dashboard.button("Hand off").click()
    await expect(dashboard.page.get_by_role("dialog")).to_contain_text("rota streams handoff clicks")
    await dashboard.answer("Hand off")
    await expect(dashboard.panel("What was published").locator("tbody tr")).to_have_count(1, timeout=WITHIN)
    published = ask(shown, "GET", "/v1/streams/clicks/published")["published"]
    assert sum(each["rows"] for each in published) == 3


async def test_a_stream_is_scaled_suspended_and_resumed(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("streams", "clicks")
    await dashboard.button("Scale").click()
    await dashboard.answer("Scale", tasks="2")
    await expect(dashboard.panel("stream")).to_contain_text("2 wanted")
    assert stream(shown)["tasks"] == 2
    await dashboard.button("Suspend").click()
    await dashboard.answer("Suspend")
    await expect(dashboard.panel("stream")).to_contain_text("suspended", timeout=WITHIN)
    assert stream(shown)["suspended"] is True
    ask(shown, "POST", "/v1/streams/clicks/resume", {})
    await expect(dashboard.button("Suspend")).to_be_visible()
    ask(shown, "POST", "/v1/streams/clicks/suspend", {})
    await dashboard.button("Resume").click()
    await dashboard.answer("Resume")
    await expect(dashboard.button("Suspend")).to_be_visible()
    assert stream(shown)["suspended"] is False


async def test_a_stream_is_reset_and_terminated(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("streams", "clicks")
    await dashboard.button("Reset").click()
    await expect(dashboard.page.get_by_role("dialog")).to_contain_text("left out, or read and published again")
    await dashboard.answer("Reset", to="earliest")
    await expect(dashboard.panel("What went wrong")).to_contain_text("offsets were set", timeout=WITHIN)
    await dashboard.button("Set offsets").click()
    await dashboard.answer("Set offsets", offsets="the first")
    await expect(dashboard.toast("the is no offset of a partition")).to_be_visible()
    before = len(moves(shown))
    await dashboard.button("Set offsets").click()
    await dashboard.answer("Set offsets", offsets="0=0 1=earliest")
    await eventually(lambda: len(moves(shown)) > before)
    await dashboard.button("Terminate").click()
    await dashboard.answer("Terminate")
    await expect(dashboard.button("Resume")).to_be_visible()
    assert stream(shown)["terminated"] is True


async def test_a_backfill_that_is_completed_shows_when_all_are_wanted(dashboard: Dashboard, shown: Shown) -> None:
    ask(shown, "POST", "/v1/streams/clicks/resume", {})
    ask(shown, "POST", "/v1/streams/clicks/reset-offsets?wait=20s", {"offsets": {"0": 0, "1": 0}})
    ask(shown, "POST", "/v1/streams/clicks/reset?wait=20s", {"to": "latest", "backfill": True})
    await eventually(lambda: ask(shown, "GET", "/v1/streams")["left_out"] == 1, within=60)
    await dashboard.go("streams")
    await expect(dashboard.panel("Streams")).to_contain_text("Completed backfills that are not shown: 1.")
    await expect(dashboard.row("streams", "clicks")).to_have_count(1)
    await dashboard.button("Show them").click()
    await expect(dashboard.row("streams", "clicks~")).to_contain_text("completed")
    await expect(dashboard.page.locator("main")).to_contain_text("rota streams ls --all")
    await dashboard.button("Hide completed backfills").click()
    await expect(dashboard.row("streams", "clicks~")).to_have_count(0)
