"""Services, jobs and runs: what is done in the browser is done, and what is done shows."""

import pytest
from playwright.async_api import expect

from tests.kit.browser import Dashboard
from tests.kit.shown import Shown, ask
from tests.kit.waiting import eventually

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.needs("chromium"),
]


def stat(shown: Shown, node: str) -> dict[str, object]:
    """The figures of the service of a node."""
    listed = ask(shown, "GET", f"/v1/nodes/{node}/services")["services"]
    found: dict[str, object] = listed[0]["stat"]
    return found


# Services


async def test_the_services_of_every_node_are_listed(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("services")
    for node in (shown.first, shown.second):
        await expect(dashboard.row("services", node)).to_contain_text("0/2")


async def test_a_group_of_another_node_is_resized(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("services", shown.second, "logic")
    await dashboard.row("groups", "1").get_by_role("button", name="Resize").click()
    await dashboard.answer("Resize", count="3")
    await expect(dashboard.toast("group 1 has 3 workers, 2 before")).to_be_visible()
    await expect(dashboard.row("groups", "1")).to_contain_text("0/3")
    assert stat(shown, shown.second)["workers"] == {"1": 3}


async def test_new_code_is_taken_in_and_given_back(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("services", shown.second, "logic")
    generation = int(str(stat(shown, shown.second)["generation"]))
    await dashboard.button("Reload").click()
    await expect(dashboard.page.get_by_role("dialog")).to_contain_text("the old code keeps running")
    await dashboard.answer("Reload")
    await expect(dashboard.toast(f"generation {generation + 1} took over from {generation}")).to_be_visible(
        timeout=30_000
    )
    assert stat(shown, shown.second)["generation"] == generation + 1
    await dashboard.button("Roll back").click()
    await dashboard.answer("Roll back")
    await expect(dashboard.toast(f"back at generation {generation}")).to_be_visible(timeout=30_000)
    assert stat(shown, shown.second)["generation"] == generation


async def test_what_waits_is_dropped_and_what_cannot_be_is_told(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("services", shown.first, "logic")
    await dashboard.button("Drop what waits").click()
    await dashboard.answer("Drop what waits")
    await expect(dashboard.toast("0 requests were dropped.")).to_be_visible()
    await dashboard.button("Roll back").click()
    await dashboard.answer("Roll back")
    await expect(dashboard.toast("there is no previous generation to go back to")).to_be_visible()


# Jobs and runs


async def test_a_job_is_run_and_its_output_follows(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("jobs")
    await dashboard.row("jobs", "long").get_by_role("button", name="Run now").click()
    await dashboard.answer("Run now")
    await expect(dashboard.page.locator("h1")).to_contain_text("long/")
    await expect(dashboard.page.get_by_role("log")).to_contain_text("line 3")
    run = await dashboard.page.locator("h1").inner_text()
    assert ask(shown, "GET", f"/v1/runs/{run}")["cause"] == "manual"
    await dashboard.button("Interrupt").click()
    await expect(dashboard.page.get_by_role("dialog")).to_contain_text("asked to end, and killed if they do not")
    await dashboard.answer("Interrupt", why="enough")
    await expect(dashboard.panel("run")).to_contain_text("interrupted")
    assert ask(shown, "GET", f"/v1/runs/{run}")["state"] == "interrupted"
    await dashboard.button("Delete").click()
    await dashboard.answer("Delete")
    await expect(dashboard.page.locator("h1")).to_have_text("long")
    assert shown.door.http("GET", f"/v1/runs/{run}")[0] == 404


async def test_a_run_that_somebody_starts_shows_and_is_done_again(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("jobs", "hello")
    made = ask(shown, "POST", "/v1/jobs/hello/run", {"payload": {"to": "you"}})["id"]
    moment = made.partition("/")[2]  # other tests have started this job, too
    await dashboard.row("history", "succeeded").locator(f'a[href*="{moment}"]').first.click()
    await expect(dashboard.page.locator("h1")).to_have_text(made)
    await expect(dashboard.page.get_by_role("log")).to_contain_text("hello {'to': 'you'}")
    await dashboard.button("Restart").click()
    await dashboard.answer("Restart")
    await expect(dashboard.panel("run")).to_contain_text("Repeats")
    await expect(dashboard.panel("run")).to_contain_text("succeeded")
    again = await dashboard.page.locator("h1").inner_text()
    assert ask(shown, "GET", f"/v1/runs/{again}")["of"] == made


async def test_output_is_text_whatever_it_holds(dashboard: Dashboard, shown: Shown) -> None:
    run = ask(shown, "POST", "/v1/jobs/hostile/run?wait=60s", {})["id"]
    await dashboard.go("runs", *run.split("/"))
    log = dashboard.page.get_by_role("log")
    await expect(log).to_contain_text("<img src=x onerror=alert(1)><script>alert(2)</script>")
    await expect(log).to_contain_text("red plain 🚀")
    await expect(log.locator(".ink-red")).to_have_text("red")
    await expect(log).to_contain_text("x" * 10_000)
    assert await dashboard.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert await log.locator("img, script").count() == 0


async def test_a_job_that_fails_is_wrong_until_it_succeeds(dashboard: Dashboard, shown: Shown) -> None:
    ask(shown, "POST", "/v1/jobs/failing/run?wait=60s", {})
    await dashboard.go("overview")
    wrong = dashboard.panel("What is wrong").get_by_role("listitem").filter(has_text="failing")
    await expect(wrong).to_contain_text("ValueError: <b>no</b> such luck")
    await wrong.get_by_role("link").click()
    await expect(dashboard.row("history", "failed").first).to_be_visible()
    await dashboard.go("jobs")
    await expect(dashboard.row("jobs", "failing").locator(".run.bad").first).to_be_visible()


async def test_a_job_is_switched_off_and_on(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("jobs", "yearly")
    await expect(dashboard.panel("Next due").get_by_role("listitem")).to_have_count(8)
    await dashboard.button("Disable").click()
    await dashboard.answer("Disable")
    await expect(dashboard.button("Enable")).to_be_visible()
    assert ask(shown, "GET", "/v1/jobs/yearly")["enabled"] is False
    ask(shown, "POST", "/v1/jobs/yearly/enable", {})
    await expect(dashboard.button("Disable")).to_be_visible()
    await dashboard.button("Disable").click()
    await dashboard.answer("Disable")
    await dashboard.button("Enable").click()
    await expect(dashboard.button("Disable")).to_be_visible()
    assert await eventually(lambda: ask(shown, "GET", "/v1/jobs/yearly")["enabled"])


async def test_due_times_are_made_up_for(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("jobs", "yearly")
    dialog = dashboard.page.get_by_role("dialog")

    async def look() -> None:
        await dashboard.button("Backfill").click()
        await expect(dialog).to_contain_text("Nothing is made yet.")
        await dashboard.answer("Look", first="2023-12-31T00:00", last="2025-01-02T00:00")

    await look()
    await expect(dialog).to_contain_text("Runs that are made: 2.")
    await expect(dialog).to_contain_text("rota jobs backfill yearly 2023-12-")
    await dialog.get_by_role("button", name="Cancel").click()
    assert ask(shown, "GET", "/v1/runs?job=yearly")["runs"] == []
    await look()
    await dashboard.answer("Backfill")
    await expect(dashboard.toast("2 runs were made.")).to_be_visible()
    await expect(dashboard.row("history", "backfill")).to_have_count(2)
    assert [run["cause"] for run in ask(shown, "GET", "/v1/runs?job=yearly")["runs"]] == ["backfill"] * 2
    await look()
    await expect(dashboard.toast("No due time between the two moments lacks a run.")).to_be_visible()


async def test_a_backfill_that_cannot_be_says_why_in_chinese_too(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.page.add_init_script("localStorage['rota.language'] = 'zh'")
    await dashboard.go("jobs", "yearly")
    await dashboard.button("补跑").click()
    await expect(dashboard.page.get_by_role("dialog")).to_contain_text("现在还不会创建任何运行。")
    await dashboard.answer("查看", first="2025-01-02T00:00", last="2024-12-31T00:00")
    await expect(dashboard.toast("the end must not be before the beginning")).to_be_visible()


async def test_a_job_that_was_added_is_deleted(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("jobs")
    ask(shown, "PUT", "/v1/jobs/added", {"argv": ["true"]})
    await dashboard.row("jobs", "added").get_by_role("link").first.click()
    await dashboard.button("Delete").click()
    await dashboard.answer("Delete")
    await expect(dashboard.page.locator("h1")).to_have_text("Jobs")
    assert shown.door.http("GET", "/v1/jobs/added")[0] == 404
