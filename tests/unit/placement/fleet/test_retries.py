"""Who waits is tried again in portions: the important ones each time, the others in turn."""

from rota.placement.fleet.retries import PORTION, Retries

WAITING = {f"room/{number:05}" for number in range(3 * PORTION)}


def important(name: str) -> int:
    return 1 if name >= f"room/{3 * PORTION - 5:05}" else 0


def test_nothing_is_tried_unless_room_may_have_come() -> None:
    assert Retries().take(WAITING, 0, important) == set()


def test_a_portion_is_tried_at_a_time_and_everyone_has_a_turn() -> None:
    retries = Retries()
    retries.begin(len(WAITING))
    first = retries.take(WAITING, 0, important)
    assert len(first) <= PORTION
    assert {name for name in WAITING if important(name)} < first
    assert not retries.is_due
    assert retries.take(WAITING, 0, important) == set()
    tried, ticks = set(first), 0
    while True:
        retries.tick()
        if not retries.is_due:
            break
        ticks += 1
        tried |= retries.take(WAITING, 0, important)
    assert tried == WAITING
    assert ticks <= 6


def test_all_that_there_is_room_for_are_tried_at_once() -> None:
    retries = Retries()
    retries.begin(len(WAITING))
    assert len(retries.take(WAITING, 2 * PORTION, important)) >= PORTION
    retries.begin(len(WAITING))
    retries.tick()
    assert retries.take(WAITING, 3 * PORTION, important) == WAITING
    retries.tick()
    assert not retries.is_due
