"""The way in, the way around, languages, light and dark, small screens, and what grey means."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from tests.kit.browser import Dashboard, open_dashboard
from tests.kit.shown import TOKEN, Shown, ask
from tests.kit.waiting import eventually

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.needs("chromium"),
]
SCREENS = {
    "overview": "rota status",
    "nodes": "rota nodes ls",
    "placement": "rota plan",
    "resources": "rota resources ls",
    "services": "rota services ls",
    "streams": "rota streams ls",
    "jobs": "rota jobs ls",
    "runs": "rota runs ls",
    "events": "rota events -f",
    "hooks": "rota hooks ls",
    "audit": "rota audit ls",
}


async def test_who_has_no_token_is_asked_for_one(browser: Browser, shown: Shown) -> None:
    async with open_dashboard(browser, shown.door.address, None) as dashboard:
        page = dashboard.page
        await page.goto(f"http://{shown.door.address}/")
        await page.get_by_label("Token").fill("rota_wrong")
        await page.get_by_role("button", name="Open the dashboard").click()
        await expect(page.get_by_role("alert")).to_contain_text("this token is not known here")
        await page.get_by_label("Token").fill(TOKEN)
        await page.get_by_role("button", name="Open the dashboard").click()
        await expect(page.locator(".leader")).to_contain_text("leads")
        assert TOKEN not in page.url
        reach = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
        assert TOKEN not in await page.evaluate(reach)
        await page.reload()
        await expect(page.locator(".leader")).to_contain_text("leads")
        await page.get_by_role("button", name="Leave").click()
        await expect(page.get_by_label("Token")).to_be_visible()
        assert await page.context.cookies() == []


@pytest.mark.parametrize(("screen", "command"), SCREENS.items(), ids=list(SCREENS))
async def test_every_screen_opens_says_its_command_and_its_age(dashboard: Dashboard, screen: str, command: str) -> None:
    await dashboard.go(screen)
    await expect(dashboard.page.locator(".heading .cli .words")).to_have_text(command)
    await expect(dashboard.page.locator("main .age").first).to_contain_text("now")
    await expect(dashboard.page.locator("main .bones")).to_have_count(0)


async def test_no_screen_is_wider_than_its_window(telephone: Dashboard, dashboard: Dashboard, tmp_path: Path) -> None:
    """Pictures of all screens stay in the folder of the test, to be looked at."""
    dark = "localStorage['rota.theme'] = 'dark'; localStorage['rota.language'] = 'zh'"
    await dashboard.page.context.add_init_script(dark)
    for shown, width in ((telephone, 390), (dashboard, 1600)):
        for screen in SCREENS:
            await shown.go(screen)
            await expect(shown.page.locator("main .bones")).to_have_count(0)
            assert await shown.page.evaluate("document.documentElement.scrollWidth") <= width, screen
            await shown.page.screenshot(path=tmp_path / f"{screen}-{width}.png")


async def test_every_figure_of_a_stream_is_within_its_card_on_a_telephone(telephone: Dashboard) -> None:
    await telephone.go("streams", "clicks")
    chain = telephone.page.locator("#table-chain")
    await expect(chain.locator("tbody tr")).to_have_count(2)
    scrolled, seen = await chain.evaluate("each => [each.scrollWidth, each.clientWidth]")
    assert scrolled <= seen


async def test_the_trail_shows_outcomes_on_a_telephone(telephone: Dashboard, shown: Shown) -> None:
    shown.door.showing("rota_nobody-knows-this").http("GET", "/v1/nodes")
    ask(shown, "POST", "/v1/jobs/hello/run", {})
    await telephone.go("audit")
    for outcome in ("refused", "done"):
        first = telephone.page.locator("#table-audit td .badge").get_by_text(outcome, exact=True).first
        await expect(first).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("screen", ["audit", "nodes", "jobs"])
async def test_columns_stand_side_by_side_and_the_header_goes_to_the_edge(dashboard: Dashboard, screen: str) -> None:
    """What no column needs is behind the last one: no figure is far from the one before."""
    await dashboard.go(screen)
    page = dashboard.page
    await expect(page.locator(f"#table-{screen} tbody td").first).to_be_visible()
    spare = """table => {
        const width = (cell) => {
            const words = document.createRange();
            words.selectNodeContents(cell.querySelector('div') || cell);
            return words.getBoundingClientRect().width;
        };
        const heads = [...table.querySelectorAll('th')];
        return Math.max(...heads.filter((head) => !head.matches('.grid, .load')).map((head) => {
            const cells = [...table.querySelectorAll(`tbody td:nth-child(${head.cellIndex + 1})`)];
            return head.clientWidth - Math.max(...[head, ...cells].map(width));
        }));
    }"""
    padding = 40
    assert await page.locator(f"#table-{screen}").evaluate(spare) <= padding
    assert await page.evaluate("document.querySelector('.top').getBoundingClientRect().right === innerWidth")


async def test_what_a_list_is_narrowed_to_stands_in_the_address(
    dashboard: Dashboard, browser: Browser, shown: Shown
) -> None:
    page = dashboard.page
    await dashboard.go("events")
    await page.get_by_label("every kind").select_option("node")
    await page.get_by_label("Filter").fill("joined")
    await expect(page).to_have_url(f"{dashboard.origin}/#/events?kind=node&text=joined")
    async with open_dashboard(browser, shown.door.address, TOKEN) as other:
        await other.page.goto(page.url)
        await expect(other.page.get_by_label("every kind")).to_have_value("node")
        await expect(other.page.get_by_label("Filter")).to_have_value("joined")
        await expect(other.page.locator(".heading .cli .words")).to_have_text("rota events --kind 'node.*' -f")
        await other.page.goto(f"{other.origin}/#/runs?state=failed")
        await expect(other.page.get_by_label("State")).to_have_value("failed")
        await other.page.goto(f"{other.origin}/#/resources?state=covered&text=roo")
        await expect(other.page.get_by_label("Filter")).to_have_value("roo")
        await other.page.goto(f"{other.origin}/#/events")  # as by its tab: what was chosen last is chosen still
        await expect(other.page).to_have_url(page.url)
    await dashboard.go("jobs")
    await expect(page).to_have_url(f"{dashboard.origin}/#/jobs")


async def test_groups_of_streams_are_not_counted_as_resources(dashboard: Dashboard, shown: Shown) -> None:
    ask(shown, "POST", "/v1/resources", {"kind": "room", "id": "counted"})
    await dashboard.go("resources")
    await expect(dashboard.row("resources", "room/counted")).to_be_visible()

    async def are_all_counted() -> bool:
        said = await dashboard.page.locator(".filters .num").inner_text()
        rows = await dashboard.page.locator("#table-resources tbody tr").count()
        return said == f"{rows} of {rows}"

    assert await eventually(are_all_counted)
    ask(shown, "DELETE", "/v1/resources/room/counted")


async def test_search_goes_anywhere_by_keyboard(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("overview")
    page = dashboard.page
    await page.keyboard.press("/")
    await expect(page.get_by_role("searchbox")).to_be_focused()
    await page.keyboard.type("yearl")
    await expect(page.get_by_role("option").first).to_contain_text("yearly")
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_have_text("yearly")
    await page.keyboard.press("/")
    await expect(page.get_by_role("searchbox")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("searchbox")).to_have_count(0)


async def test_language_and_colours_are_chosen_and_kept(dashboard: Dashboard) -> None:
    await dashboard.go("nodes")
    page = dashboard.page
    language = page.get_by_role("button", name="中文")
    await expect(language).to_have_text("ZH")  # the letters need a font that not every system has
    await language.click()
    await expect(page.locator("h1")).to_have_text("节点")
    await page.get_by_role("button", name="深色").click()
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 19, 21)"
    await page.reload()
    await expect(page.locator("h1")).to_have_text("节点")
    assert await page.evaluate("document.documentElement.dataset.theme") == "dark"
    await page.get_by_role("button", name="English").click()
    await expect(page.locator("h1")).to_have_text("Nodes")


async def test_what_nobody_confirms_turns_grey(browser: Browser, shown: Shown) -> None:
    async with open_dashboard(browser, shown.door.address, TOKEN) as dashboard:
        page = dashboard.page
        await page.clock.install()
        await dashboard.go("nodes")
        await expect(dashboard.row("nodes", shown.first)).to_be_visible()

        async def cut(route: Route) -> None:
            await route.abort()

        await page.route("**/v1/**", cut)
        await page.clock.fast_forward(15_000)
        await expect(page.locator(".panel.stale")).to_have_count(1)
        await expect(page.locator(".panel .age")).to_contain_text("stale")
        await page.unroute("**/v1/**")
        await page.clock.fast_forward(6_000)
        await expect(page.locator(".panel.stale")).to_have_count(0)


async def test_who_may_only_look_cannot_press_what_changes(browser: Browser, shown: Shown) -> None:
    token = ask(shown, "POST", "/v1/tokens", {"name": "looker", "role": "view"})["token"]
    await eventually(lambda: shown.door.showing(token).http("GET", "/v1/nodes")[0] == 200)
    async with open_dashboard(browser, shown.door.address, token) as dashboard:
        await dashboard.go("jobs")
        await expect(dashboard.row("jobs", "hello").get_by_role("button", name="Run now")).to_be_disabled()
        ask(shown, "POST", "/v1/tokens/looker/revoke", {})
        alert = dashboard.page.get_by_role("alert")  # the door hears of it within 5 s, and the page asks every 5 s
        await expect(alert).to_contain_text("not known here any more", timeout=60_000)


async def test_a_button_that_needs_another_role_cannot_be_pressed_and_says_which(
    browser: Browser, shown: Shown
) -> None:
    token = ask(shown, "POST", "/v1/tokens", {"name": "hand", "role": "operate"})["token"]
    await eventually(lambda: shown.door.showing(token).http("GET", "/v1/nodes")[0] == 200)
    async with open_dashboard(browser, shown.door.address, token) as dashboard:
        await dashboard.go("jobs")
        await expect(dashboard.row("jobs", "hello").get_by_role("button", name="Run now")).to_be_enabled()
        await dashboard.go("hooks")
        add = dashboard.button("Add hook")
        await expect(add).to_be_disabled()
        assert "role admin" in (await add.get_attribute("title") or "")
        await expect(dashboard.page.locator("#tab-hooks")).to_have_count(1)
        await expect(dashboard.page.locator("#tab-audit")).to_have_count(0)
        await dashboard.page.goto(f"{dashboard.origin}/#/audit")
        await dashboard.page.locator("#screen-overview h1").wait_for()
    async with open_dashboard(browser, shown.door.address, TOKEN) as dashboard:
        await dashboard.go("hooks")
        await expect(dashboard.button("Add hook")).to_be_enabled()
        await expect(dashboard.page.locator("#tab-audit")).to_have_count(1)
    ask(shown, "POST", "/v1/tokens/hand/revoke", {})


async def test_the_badge_counts_what_the_overview_lists(browser: Browser, shown: Shown) -> None:
    ask(shown, "POST", "/v1/jobs/failing/run?wait=30s", {})
    async with open_dashboard(browser, shown.door.address, TOKEN) as dashboard:
        await dashboard.go("overview")
        listed = dashboard.page.locator(".concerns li")
        await expect(listed.filter(has_text="failing")).to_have_count(1)

        async def is_same() -> bool:
            count = (
                "[document.querySelector('nav .count')?.textContent, document.querySelectorAll('.concerns li').length]"
            )
            badge, lines = await dashboard.page.evaluate(count)
            return badge == str(lines)

        assert await eventually(is_same)


async def test_a_job_without_a_limit_says_so(browser: Browser, shown: Shown) -> None:
    async with open_dashboard(browser, shown.door.address, TOKEN) as dashboard:
        await dashboard.go("jobs", "yearly")
        facts = dashboard.page.locator(".facts").first
        await expect(facts).to_contain_text("no limit")
        assert "null" not in await facts.inner_text()
