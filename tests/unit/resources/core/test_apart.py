"""Which task ends the host that it shares: found in a few rounds, and the others go back."""

from collections.abc import Collection
from datetime import timedelta

import pytest

from rota.kit.time.instant import Instant
from rota.resources.core.apart import PROCESSES, REMEMBER, WITHIN, Apart
from rota.runtime.core.restart import RestartPolicy

POLICY = RestartPolicy()
SHORT = timedelta(seconds=1)


def at(seconds: float) -> Instant:
    return Instant(1000.0 + seconds)


def names(count: int) -> list[str]:
    return [f"room/{number}#0" for number in range(count)]


def rounds_to_find(guilty: Collection[str], tasks: list[str]) -> tuple[int, set[str]]:
    """How many rounds of deaths it takes, and who was found."""
    apart, now, found, rounds = Apart(POLICY), 0.0, set[str](), 0
    apart.host_died(tasks, SHORT, at(now))
    apart.host_died(tasks, SHORT, at(now + 1))
    while found != set(guilty):
        rounds += 1
        now += 1
        assert rounds < 1000, "it never ends"
        apart.clear(at(now), set(apart.portions))
        for number, portion in list(apart.portions.items()):
            if not set(portion.tasks).isdisjoint(guilty) and (task := apart.portion_died(number, SHORT, at(now))):
                found.add(task)
                apart.keep(set(tasks) - found, at(now))  # as when it is given back
    return rounds, found


def test_one_death_of_a_host_makes_no_suspects() -> None:
    apart = Apart(POLICY)
    assert apart.host_died(names(3), SHORT, at(0)) == []
    assert apart.host_died(["room/new#0"], SHORT, at(1)) == []
    assert not apart.portions


def test_deaths_that_are_far_apart_make_no_suspects() -> None:
    apart = Apart(POLICY)
    apart.host_died(names(3), SHORT, at(0))
    assert apart.host_died(names(3), SHORT, at(WITHIN.total_seconds())) == []


def test_two_deaths_make_suspects_of_those_that_saw_both() -> None:
    apart = Apart(POLICY)
    apart.host_died(names(3), SHORT, at(0))
    assert apart.host_died([*names(2), "room/new#0"], SHORT, at(1)) == names(2)
    assert sorted(portion.tasks for portion in apart.portions.values()) == [("room/0#0",), ("room/1#0",)]


@pytest.mark.parametrize(("count", "most"), [(1, 1), (8, 1), (64, 2), (10_000, 5)])
def test_the_task_at_fault_is_found_in_a_few_rounds(count: int, most: int) -> None:
    tasks = names(count)
    for guilty in (tasks[0], tasks[count // 2], tasks[-1]):
        rounds, found = rounds_to_find({guilty}, tasks)
        assert found == {guilty}
        assert rounds <= most


def test_all_of_many_at_fault_are_found_with_few_processes() -> None:
    tasks = names(300)
    assert rounds_to_find(set(tasks), tasks)[1] == set(tasks)


def test_no_task_is_lost_or_in_two_places() -> None:
    tasks = names(100)
    apart = Apart(POLICY)
    apart.host_died(tasks, SHORT, at(0))
    apart.host_died(tasks, SHORT, at(1))
    for second in range(2, 30):
        for number in list(apart.portions)[:3]:
            apart.portion_died(number, SHORT, at(second))
        placed, held = apart.placed(), apart.held()
        assert sorted([*placed, *held]) == sorted(tasks)
        assert len(apart.portions) <= PROCESSES


def test_a_portion_that_lives_twice_as_long_as_the_host_did_is_innocent() -> None:
    apart = Apart(POLICY)
    apart.host_died(names(2), timedelta(seconds=60), at(0))
    apart.host_died(names(2), timedelta(seconds=60), at(60))
    running = set(apart.portions)
    assert apart.clear(at(60 + 119), running) == []
    assert apart.clear(at(60 + 120), running) == names(2)
    assert not apart.portions
    assert apart.host_died(names(2), SHORT, at(190)) == [], "their earlier deaths are left behind"


def test_time_without_a_process_does_not_count_as_life() -> None:
    apart = Apart(POLICY)
    apart.host_died(names(1), SHORT, at(0))
    apart.host_died(names(1), SHORT, at(1))
    assert apart.clear(at(100), set()) == []
    assert apart.clear(at(129), set(apart.portions)) == []
    assert apart.clear(at(130), set(apart.portions)) == names(1)


def test_a_task_at_fault_that_comes_back_starts_apart_for_a_while() -> None:
    apart = Apart(POLICY)
    apart.host_died(names(2), SHORT, at(0))
    apart.host_died(names(2), SHORT, at(1))
    assert apart.portion_died(apart.placed()["room/0#0"], SHORT, at(2)) == "room/0#0"
    apart.keep({"room/1#0"}, at(3))  # given back
    assert "room/0#0" not in apart.placed()
    apart.keep(set(names(2)), at(4))  # and placed here again
    assert "room/0#0" in apart.placed()
    apart.keep(set(), at(5))
    apart.keep(set(names(2)), at(2 + REMEMBER.total_seconds()))
    assert "room/0#0" not in apart.placed()


def test_an_unknown_portion_says_nothing() -> None:
    assert Apart(POLICY).portion_died(7, SHORT, at(0)) is None
