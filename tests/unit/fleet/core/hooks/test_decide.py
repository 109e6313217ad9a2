"""Which events go to which hooks, when, and how often they are tried."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.fleet.core.hooks.decide import LONGEST_WAIT, claimed, failed, taken, wait, wants
from rota.fleet.core.hooks.record import Delivery, Hook
from rota.model import event
from rota.model.event import Event
from rota.model.ids import NodeId

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A = NodeId("a")
SECOND = timedelta(seconds=1)


def happened(kind: str = "node.offline", number: int = 1) -> Event:
    return event.make(kind, "b", {}, node=A, at=NOW, number=number)


def hook(*events: str, name: str = "mail", enabled: bool = True, retries: int = 2, per_minute: int = 60) -> Hook:
    return Hook(
        name=name,
        events=list(events or ["node.*"]),
        url="http://example",
        enabled=enabled,
        retries=retries,
        per_minute=per_minute,
        created=NOW,
    )


@pytest.mark.parametrize(
    ("patterns", "kind", "expected"),
    [
        (("node.offline",), "node.offline", True),
        (("node.*",), "node.offline", True),
        (("node.online", "*.elected"), "leader.elected", True),
        (("node.online",), "node.offline", False),
        (("*",), "hook.failed", False),
    ],
)
def test_what_a_hook_wants(patterns: tuple[str, ...], kind: str, expected: bool) -> None:
    assert wants(hook(*patterns), happened(kind)) is expected
    assert not wants(hook(*patterns, enabled=False), happened(kind))


def test_an_event_goes_to_each_hook_that_wants_it() -> None:
    hooks = [hook(name="mail"), hook("leader.*", name="log"), hook(name="chat")]
    found = taken(hooks, [happened()], {}, NOW)
    assert [(each.hook, each.due, each.attempts) for each in found.deliveries] == [("mail", NOW, 0), ("chat", NOW, 0)]


def test_a_minutes_worth_goes_at_once_and_more_waits_its_turn() -> None:
    found = taken([hook(per_minute=6)], [happened(number=number) for number in range(9)], {}, NOW)
    waits = [(each.due - NOW).total_seconds() for each in found.deliveries]
    assert waits == [0] * 6 + [10, 20, 30]
    later = taken([hook(per_minute=6)], [happened()], found.paces, NOW + 2 * timedelta(minutes=1))
    assert later.deliveries[0].due == NOW + timedelta(minutes=2), "in time it catches up"


def test_who_is_ten_minutes_behind_gets_no_more() -> None:
    found = taken([hook(per_minute=1)], [happened(number=number) for number in range(15)], {}, NOW)
    assert len(found.deliveries) == 11
    assert found.dropped == {"mail": 4}


def test_paces_of_hooks_that_are_gone_are_forgotten() -> None:
    assert taken([hook()], [], {"mail": NOW, "gone": NOW}, NOW).paces == {"mail": NOW}


def test_a_claim_lasts_longer_than_the_try_may_take() -> None:
    mine = claimed(Delivery(hook="mail", event=happened(), due=NOW), hook(), A, NOW)
    assert (mine.attempts, mine.by) == (1, A)
    assert mine.due > NOW + hook().timeout


def test_what_failed_is_tried_again_after_longer_and_longer_waits_and_then_given_up() -> None:
    delivery, waits = Delivery(hook="mail", event=happened(), due=NOW), []
    while True:
        again = failed(claimed(delivery, hook(retries=3), A, NOW), hook(retries=3), NOW)
        if again is None:
            break
        waits.append((again.due - NOW).total_seconds())
        delivery = again
    assert waits == [2, 4, 8]


def test_no_wait_is_longer_than_five_minutes() -> None:
    tired = Delivery(hook="mail", event=happened(), due=NOW, attempts=50)
    again = failed(tired, hook(retries=100), NOW)
    assert again is not None
    assert again.due == NOW + LONGEST_WAIT


def test_a_clock_that_was_set_back_holds_nothing_up() -> None:
    day = timedelta(days=1)
    found = taken([hook()], [happened()], {"mail": NOW + day}, NOW)
    assert [each.due for each in found.deliveries] == [NOW]
    assert wait(Delivery(hook="mail", event=happened(), due=NOW + day), NOW) == timedelta()
    assert wait(Delivery(hook="mail", event=happened(), due=NOW + SECOND), NOW) == SECOND
    assert wait(Delivery(hook="mail", event=happened(), due=NOW - SECOND), NOW) == timedelta()
