"""The reference of the API at `/docs`: drawn by the node itself, from its own description."""

import json
from pathlib import Path

import pytest
from playwright.async_api import Browser, Request, expect

from tests.kit.browser import NARROW, WIDE, Dashboard, open_dashboard
from tests.kit.shown import TOKEN, Shown

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.needs("chromium"),
]


async def enter(dashboard: Dashboard) -> None:
    """Open the page as somebody who has a token, and has not come in yet."""
    page = dashboard.page
    await page.goto(f"{dashboard.origin}/docs")
    await page.get_by_label("Token").fill(TOKEN)
    await page.get_by_role("button", name="Open").click()
    await expect(page.locator("h1")).to_have_text("API of this fleet")


async def test_every_operation_is_shown_and_nothing_is_loaded_from_elsewhere(browser: Browser, shown: Shown) -> None:
    async with open_dashboard(browser, shown.door.address, None) as dashboard:
        asked: list[str] = []

        def note(request: Request) -> None:
            asked.append(request.url)

        dashboard.page.on("request", note)
        await enter(dashboard)
        described = json.loads(shown.door.http("GET", "/openapi.json")[1])
        names = {each["operationId"] for methods in described["paths"].values() for each in methods.values()}
        there = await dashboard.page.locator("details.operation").evaluate_all("all => all.map(each => each.id)")
        assert set(there) == names
        assert {url for url in asked if not url.startswith(dashboard.origin)} == set()
        assert dashboard.errors == []


async def test_an_operation_says_its_role_its_parameters_and_its_errors_and_can_be_tried(
    browser: Browser, shown: Shown
) -> None:
    async with open_dashboard(browser, shown.door.address, None) as dashboard:
        await enter(dashboard)
        await dashboard.page.get_by_label("Filter").fill("/v1/nodes")
        operation = dashboard.page.locator("#list_nodes")
        await operation.locator("> summary").click()
        await expect(operation.locator(".badge")).to_have_text("view")
        await expect(operation).to_contain_text("At most this many entries; 1000 if not given.")
        await expect(operation).to_contain_text("too_many_requests")
        await operation.locator("[name=limit]").fill("1")
        await operation.get_by_role("button", name="GET /v1/nodes").click()
        await expect(operation.locator("pre.json").last).to_contain_text('"next"')
        await operation.locator("[name=limit]").fill("0")
        await operation.get_by_role("button", name="GET /v1/nodes").click()
        await expect(operation.locator("pre.json").last).to_contain_text("it must be from 1 to 1000")
        assert dashboard.errors == []


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
async def test_it_is_no_wider_than_its_window(
    browser: Browser, shown: Shown, size: tuple[int, int], tmp_path: Path
) -> None:
    async with open_dashboard(browser, shown.door.address, None, size) as dashboard:
        await enter(dashboard)
        await dashboard.page.locator("#create_resource > summary").click()
        await dashboard.page.locator("#list_nodes > summary").click()
        wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await dashboard.page.evaluate(wider) <= 0
        await dashboard.page.screenshot(path=tmp_path / f"docs-{size[0]}.png")
        await dashboard.page.locator("#create_resource").scroll_into_view_if_needed()
        await dashboard.page.screenshot(path=tmp_path / f"docs-{size[0]}-open.png")
        await dashboard.page.locator("#errors").scroll_into_view_if_needed()
        await dashboard.page.screenshot(path=tmp_path / f"docs-{size[0]}-errors.png")
