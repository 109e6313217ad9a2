"""Overview, nodes, placement, resources and events: what is done in the browser is done, and what is done shows."""

from typing import Any

import pytest
from playwright.async_api import expect

from tests.kit.browser import Dashboard
from tests.kit.shown import Shown, ask

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.needs("chromium"),
]
HOSTILE = "<img src=x onerror=alert(1)> 🚀 ${1} 'q'"


def node(shown: Shown, name: str) -> Any:
    return next(each for each in ask(shown, "GET", "/v1/nodes")["nodes"] if each["id"] == name)


# Overview


async def test_what_is_wrong_comes_first_and_goes_when_it_is_mended(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("overview")
    await expect(dashboard.panel("The fleet in numbers")).to_contain_text("2/2")
    ask(shown, "POST", "/v1/resources", {"kind": "model", "id": "large"})
    wrong = dashboard.panel("What is wrong").get_by_role("listitem").filter(has_text="model/large")
    await expect(wrong).to_contain_text("gpu")
    await wrong.get_by_role("link").click()
    await expect(dashboard.panel("Why")).to_contain_text("0 of 1 tasks are placed")
    ask(shown, "DELETE", "/v1/resources/model/large")
    await dashboard.go("overview")
    await expect(wrong).to_have_count(0)


async def test_the_leader_is_at_the_top(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("overview")
    leader = ask(shown, "GET", "/v1/overview")["leader"]
    await expect(dashboard.page.locator(".leader")).to_contain_text(f"{leader['node']} leads · term {leader['term']}")


# Nodes


async def test_a_node_is_cordoned_and_let_go(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("nodes", shown.second)
    await dashboard.button("Cordon").click()
    await dashboard.answer("Cordon", why="new <disk>")
    await expect(dashboard.panel("node")).to_contain_text("cordoned")
    assert node(shown, shown.second)["cordon"]["why"] == "new <disk>"
    await expect(dashboard.panel("node")).to_contain_text("new <disk>")
    ask(shown, "POST", f"/v1/nodes/{shown.second}/uncordon", {})
    await expect(dashboard.button("Cordon")).to_be_visible()
    await dashboard.button("Cordon").click()
    await dashboard.page.get_by_role("button", name="Cancel").click()
    assert node(shown, shown.second)["cordon"] is None
    ask(shown, "POST", f"/v1/nodes/{shown.second}/cordon", {})
    await dashboard.button("Uncordon").click()
    await expect(dashboard.toast("may get new tasks")).to_be_visible()
    assert node(shown, shown.second)["cordon"] is None


async def test_a_node_is_drained_after_saying_what_will_happen(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("nodes", shown.second)
    await dashboard.button("Drain").click()
    await expect(dashboard.page.get_by_role("dialog")).to_contain_text("move to other nodes")
    await expect(dashboard.page.get_by_role("dialog")).to_contain_text(f"rota nodes drain {shown.second}")
    await dashboard.answer("Drain", why="moving house", deadline="10m")
    await expect(dashboard.panel("node")).to_contain_text("draining")
    drain = node(shown, shown.second)["drain"]
    assert (drain["why"], drain["deadline"] is not None) == ("moving house", True)
    await dashboard.button("End the drain").click()
    await expect(dashboard.panel("node")).to_contain_text("online")
    assert node(shown, shown.second)["drain"] is None


async def test_slots_are_set(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("nodes", shown.second)
    before = node(shown, shown.second)["configured_slots"]
    await dashboard.button("Set slots").click()
    await dashboard.answer("Set", slots="7")
    await expect(dashboard.panel("node")).to_contain_text("/7")
    assert node(shown, shown.second)["slots"] == 7
    ask(shown, "PATCH", f"/v1/nodes/{shown.second}", {"slots": None})
    await expect(dashboard.panel("node")).to_contain_text(f"/{before}")


# Resources and placement


async def test_a_resource_is_added_changed_and_deleted(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("resources")
    await dashboard.button("Add a resource").click()
    await dashboard.answer("Add", kind="room", id="kitchen", spec='{"depth": 3}')
    await expect(dashboard.toast("room/kitchen is there, and placed.")).to_be_visible()
    assert ask(shown, "GET", "/v1/resources/room/kitchen")["spec"] == {"depth": 3}
    await dashboard.row("resources", "room/kitchen").get_by_role("link").first.click()
    await expect(dashboard.panel("resource")).to_contain_text("1/1")
    await dashboard.button("Change replicas").click()
    await dashboard.answer("Set", replicas="2")
    await expect(dashboard.panel("resource")).to_contain_text("2/2")
    assert ask(shown, "GET", "/v1/resources/room/kitchen")["replicas"] == 2
    await dashboard.button("Delete").click()
    await expect(dashboard.page.get_by_role("dialog")).to_contain_text("Its 2 tasks are stopped")
    await dashboard.answer("Delete")
    await expect(dashboard.page.locator("h1")).to_have_text("Resources")
    await expect(dashboard.row("resources", "room/kitchen")).to_have_count(0)
    assert shown.door.http("GET", "/v1/resources/room/kitchen")[0] == 404


async def test_what_others_add_and_delete_shows_without_asking_now_and_then(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.page.add_init_script("setInterval = () => 0")
    await dashboard.go("resources")
    await expect(dashboard.page.locator(".filters")).to_be_visible()
    ask(shown, "POST", "/v1/resources?wait=30s", {"kind": "room", "id": "cellar"})
    await expect(dashboard.row("resources", "room/cellar")).to_contain_text("covered")
    ask(shown, "DELETE", "/v1/resources/room/cellar")
    await expect(dashboard.row("resources", "room/cellar")).to_have_count(0)


async def test_a_name_with_html_is_a_name(dashboard: Dashboard, shown: Shown) -> None:
    ask(shown, "POST", "/v1/resources?wait=30s", {"kind": "room", "id": HOSTILE, "spec": {"<b>": "</script>"}})
    await dashboard.go("resources")
    await dashboard.row("resources", HOSTILE).get_by_role("link").first.click()
    await expect(dashboard.page.locator("h1")).to_have_text(f"room/{HOSTILE}")
    await expect(dashboard.page.locator(".heading .words")).to_have_text(
        "rota why 'room/<img src=x onerror=alert(1)> 🚀 ${1} '\\''q'\\'''"
    )
    await expect(dashboard.page.locator("pre.json")).to_contain_text("</script>")
    assert await dashboard.page.locator("main img, main script, main b").count() == 0
    await dashboard.button("Delete").click()
    await dashboard.answer("Delete")
    await expect(dashboard.page.locator("h1")).to_have_text("Resources")


async def test_the_map_has_a_square_for_each_task_and_plans_change_nothing(dashboard: Dashboard, shown: Shown) -> None:
    for number in range(6):
        ask(shown, "POST", "/v1/resources?wait=30s", {"kind": "room", "id": f"r{number}", "replicas": 2})
    await dashboard.go("placement")
    rooms = dashboard.page.locator(".squares a[aria-label^='room/']")
    await expect(rooms).to_have_count(12)
    before = node(shown, shown.second)["tasks"]
    await dashboard.page.get_by_label("without a node…").select_option(shown.second)
    await expect(dashboard.panel("What if")).to_contain_text("6 resources would wait")
    await expect(dashboard.panel("What if")).to_contain_text(f"rota plan --without {shown.second}")
    assert node(shown, shown.second)["tasks"] == before
    for number in range(6):
        ask(shown, "DELETE", f"/v1/resources/room/r{number}")
    await expect(rooms).to_have_count(0)


# Events


async def test_events_come_as_they_happen_and_are_filtered(dashboard: Dashboard, shown: Shown) -> None:
    await dashboard.go("events")
    await expect(dashboard.row("events", f"node {shown.second} joined")).to_be_visible()
    run = ask(shown, "POST", "/v1/jobs/failing/run?wait=60s", {})["id"]
    await expect(dashboard.row("events", f"run {run} failed")).to_be_visible()
    await dashboard.page.get_by_label("every kind").select_option("leader")
    await expect(dashboard.row("events", "joined")).to_have_count(0)
    await expect(dashboard.row("events", "leads").first).to_be_visible()
    told = [each["text"] for each in ask(shown, "GET", "/v1/events?kind=leader.*")["events"]]
    await expect(dashboard.page.locator("#table-events tbody tr")).to_have_count(len(told))


# The audit trail


async def test_the_trail_tells_who_did_what_who_was_refused_and_that_it_is_whole(
    dashboard: Dashboard, shown: Shown
) -> None:
    await dashboard.go("audit")
    ask(shown, "POST", "/v1/resources", {"kind": "room", "id": "noted"})
    made = dashboard.row("audit", "create_resource").filter(has_text="room/noted")
    await expect(made).to_contain_text("done")
    ask(shown, "DELETE", "/v1/resources/room/noted")
    assert shown.door.showing("rota_of-a-stranger").http("GET", "/v1/nodes")[0] == 401
    await dashboard.page.get_by_label("Outcome").select_option("refused")
    await expect(dashboard.page.locator(".heading .cli .words")).to_have_text("rota audit ls --refused")
    stranger = dashboard.row("audit", "GET /v1/nodes").filter(has_text="a stranger").first  # others were here before
    await expect(stranger).to_contain_text("refused")
    await expect(made).to_have_count(0)
    await dashboard.button("Verify").click()
    await expect(dashboard.panel("Is the trail whole?")).to_contain_text("Nothing was changed or taken away")


async def test_a_token_is_revoked(dashboard: Dashboard, shown: Shown) -> None:
    ask(shown, "POST", "/v1/tokens", {"name": "leaver", "role": "view"})
    await dashboard.go("audit")
    row = dashboard.row("tokens", "leaver")
    await expect(row).to_contain_text("good")
    await row.get_by_role("button", name="Revoke").click()
    await expect(dashboard.page.get_by_role("dialog")).to_contain_text("rota token revoke leaver")
    await dashboard.answer("Revoke")
    await expect(row).to_contain_text("revoked")
    known = {each["name"]: each["is_good"] for each in ask(shown, "GET", "/v1/tokens")["tokens"]}
    assert known["leaver"] is False


# Hooks


async def test_a_hook_is_added_tried_switched_and_deleted(dashboard: Dashboard, shown: Shown) -> None:
    def hooks() -> dict[str, bool]:
        return {each["name"]: each["enabled"] for each in ask(shown, "GET", "/v1/hooks")["hooks"]}

    await dashboard.go("hooks")
    await dashboard.button("Add hook").click()
    await dashboard.answer("Add", name="pager", events="node.offline node.online", url="http://127.0.0.1:9/nobody")
    row = dashboard.row("hooks", "pager")
    await expect(row).to_contain_text("node.offline node.online")
    assert hooks() == {"pager": True}
    await row.get_by_role("button", name="Try").click()
    await dashboard.answer("Try")
    await expect(dashboard.toast("pager failed:")).to_be_visible(timeout=30_000)
    await row.get_by_role("button", name="Disable").click()
    await expect(row).to_contain_text("disabled")
    assert hooks() == {"pager": False}
    ask(shown, "PATCH", "/v1/hooks/pager", {"enabled": True})
    await expect(row.get_by_role("button", name="Disable")).to_be_visible()
    await row.get_by_role("button", name="Delete").click()
    await dashboard.answer("Delete")
    await expect(row).to_have_count(0)
    assert hooks() == {}
