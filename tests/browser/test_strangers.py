"""Pages of other sites, while the user has come in here: they see nothing and change nothing."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.kit.browser import open_dashboard
from tests.kit.node import NodeUnderTest
from tests.kit.shown import Shown
from tests.kit.strangers import another_site, framed, rebound, stolen, visit

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.needs("chromium"),
]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"], ids=["another site", "another origin of the same site"])
async def test_a_page_of_another_site_gets_nowhere(browser: Browser, shown: Shown, host: str) -> None:
    with another_site() as port:
        tried = await visit(browser, shown.door, f"{host}:{port}")
    assert tried.got_through == []
    assert len(tried.outcomes) == 6
    assert {401, 403} & set(tried.statuses)  # the node was asked, and did not leave it to the browser
    assert stolen(shown.door) == []


async def test_the_dashboard_is_shown_in_no_frame(browser: Browser, shown: Shown) -> None:
    with another_site() as port:
        assert (await framed(browser, shown.door, f"127.0.0.1:{port}")).startswith("chrome-error:")


async def test_a_name_that_was_rebound_is_not_answered_to(shown: Shown) -> None:
    assert await rebound(shown.door) == 421


async def test_an_insecure_node_says_so_on_every_screen(browser: Browser, tmp_path: Path) -> None:
    everywhere = ("--role", "both", "--http", "0.0.0.0:0", "--grpc", "0.0.0.0:0", "--insecure")
    with NodeUnderTest(tmp_path / "n", *everywhere) as node:
        port = (await node.ready())["doors"]["http"].rpartition(":")[2]
        async with open_dashboard(browser, f"127.0.0.1:{port}", node.token) as dashboard:
            for screen in ("overview", "jobs", "events"):
                await dashboard.go(screen)
                alarm = dashboard.page.get_by_role("alert")
                await expect(alarm).to_contain_text(f"Insecure: other machines reach {node.name} without TLS")
