"""The crew's plan: what starts, drains and dies, and that nothing is ever left uncovered by a replacement."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.kit.record import replace
from rota.kit.time.instant import Instant
from rota.runtime.core.restart import Falls, RestartPolicy
from rota.runtime.crew.plan import (
    Action,
    CrewMember,
    CrewState,
    DrainWorker,
    KillWorker,
    StartWorker,
    WorkerPhase,
    WorkerPool,
    is_settled,
    plan,
)

NOW = Instant(1000.0)
POLICY = RestartPolicy()


def crew(
    *members: CrewMember, count: int = 2, target: int = 1, loaders: Sequence[int] = (1, 2), **pool: object
) -> CrewState:
    return CrewState(
        pools={"p": replace(WorkerPool("p", count), **pool)},  # type: ignore[arg-type]
        target=target,
        members=members,
        loaders=frozenset(loaders),
    )


def member(
    number: int,
    slot: int = 0,
    generation: int = 1,
    phase: WorkerPhase = WorkerPhase.READY,
    age: float = 0,
    worn: str = "",
) -> CrewMember:
    return CrewMember(number, "p", slot, generation, phase, Instant(NOW - age), worn)


def actions(seen: CrewState) -> tuple[Action, ...]:
    return plan(seen, NOW).actions


def test_empty_slots_are_filled() -> None:
    assert actions(crew()) == (StartWorker("p", 0, 1), StartWorker("p", 1, 1))


def test_a_full_pool_needs_nothing() -> None:
    assert actions(crew(member(1), member(2, slot=1))) == ()


def test_nothing_starts_without_a_loader() -> None:
    assert actions(crew(loaders=())) == ()


def test_what_starts_is_waited_for_and_then_killed() -> None:
    starting = member(1, phase=WorkerPhase.STARTING, age=29)
    seen = crew(starting, count=1)
    assert plan(seen, NOW) == plan(seen, NOW)
    assert plan(seen, NOW).actions == ()
    assert plan(seen, NOW).look_again == NOW + 1
    late = crew(replace(starting, since=Instant(NOW - 30)), count=1)
    assert actions(late) == (KillWorker(1, "did not register in time"),)


def test_a_fallen_slot_waits_for_its_turn() -> None:
    seen = replace(crew(count=1), falls={("p", 0): Falls(3, Instant(NOW - 0.1), "exit code 1")})
    assert plan(seen, NOW).actions == ()
    assert plan(seen, NOW).look_again == pytest.approx(NOW + 0.3)
    assert plan(seen, Instant(NOW + 0.31)).actions == (StartWorker("p", 0, 1),)


def test_a_new_generation_starts_beside_the_old_one() -> None:
    old = member(1), member(2, slot=1)
    assert actions(crew(*old, target=2)) == (StartWorker("p", 0, 2), StartWorker("p", 1, 2))


def test_a_pool_flips_only_when_all_its_new_members_are_ready() -> None:
    old = member(1), member(2, slot=1)
    half = member(3, generation=2), member(4, slot=1, generation=2, phase=WorkerPhase.STARTING)
    assert actions(crew(*old, *half, target=2)) == ()
    whole = half[0], replace(half[1], phase=WorkerPhase.READY)
    assert actions(crew(*old, *whole, target=2)) == (
        DrainWorker(1, "generation 2 took over"),
        DrainWorker(2, "generation 2 took over"),
    )


def test_going_back_drains_the_new_generation_at_once() -> None:
    old = member(1), member(2, slot=1)
    new = member(3, generation=2), member(4, slot=1, generation=2, phase=WorkerPhase.STARTING)
    assert [action.member for action in actions(crew(*old, *new, target=1)) if isinstance(action, DrainWorker)] == [
        3,
        4,
    ]


def test_what_must_not_run_twice_stops_first() -> None:
    old = member(1)
    seen = crew(old, count=1, target=2, breaks_first=True)
    assert actions(seen) == (DrainWorker(1, "generation 2 took over"),)
    draining = crew(replace(old, phase=WorkerPhase.DRAINING), count=1, target=2, breaks_first=True)
    assert actions(draining) == ()
    assert actions(crew(count=1, target=2, breaks_first=True)) == (StartWorker("p", 0, 2),)


def test_a_worn_member_stays_until_its_successor_is_ready() -> None:
    worn = member(1, worn="it is old")
    assert actions(crew(worn, count=1)) == (StartWorker("p", 0, 1),)
    assert actions(crew(worn, member(2, phase=WorkerPhase.STARTING), count=1)) == ()
    assert actions(crew(worn, member(2), count=1)) == (DrainWorker(1, "it is old"),)


def test_worn_members_of_a_pool_are_replaced_one_at_a_time() -> None:
    worn = member(1, worn="it is old"), member(2, slot=1, worn="it is old")
    assert actions(crew(*worn)) == (StartWorker("p", 0, 1),)
    assert actions(crew(*worn, member(3))) == (DrainWorker(1, "it is old"),)


def test_a_pool_that_became_smaller_drains_its_last_slots() -> None:
    assert actions(crew(member(1), member(2, slot=1), count=1)) == (DrainWorker(2, "the pool became smaller"),)


def test_a_pool_that_is_gone_drains_altogether() -> None:
    seen = replace(crew(member(1)), pools={})
    assert actions(seen) == (DrainWorker(1, "not wanted any more"),)


def test_a_drain_has_a_limit() -> None:
    seen = crew(member(1, phase=WorkerPhase.DRAINING, age=10), member(2), count=1)
    assert actions(seen) == (KillWorker(1, "did not end in time"),)
    assert actions(crew(member(1, phase=WorkerPhase.DRAINING, age=9), member(2), count=1)) == ()
    gone = replace(crew(replace(member(1, phase=WorkerPhase.DRAINING, age=2), drain=timedelta(seconds=1))), pools={})
    assert actions(gone) == (KillWorker(1, "did not end in time"),), "its own limit, also when its pool is gone"


def test_a_canary_wants_its_own_generation() -> None:
    seen = crew(member(1), member(2, slot=1))
    seen = replace(seen, pools={**seen.pools, "canary:p": WorkerPool("canary:p", 1, generation=2)})
    assert actions(seen) == (StartWorker("canary:p", 0, 2),)
    assert is_settled(seen, 1), "a canary is not part of what must be manned"


def test_settled_means_all_new_and_nothing_old() -> None:
    new = member(3, generation=2), member(4, slot=1, generation=2)
    assert is_settled(crew(*new, target=2), 2)
    assert is_settled(crew(*new, member(1, phase=WorkerPhase.DRAINING), target=2), 2)
    assert not is_settled(crew(*new, member(1), target=2), 2)
    assert not is_settled(crew(new[0], target=2), 2)


members = st.builds(
    member,
    st.just(0),
    slot=st.integers(0, 3),
    generation=st.integers(1, 3),
    phase=st.sampled_from(WorkerPhase),
    age=st.floats(0, 60),
    worn=st.sampled_from(["", "it is old"]),
)


@given(st.lists(members, max_size=8), st.integers(0, 3), st.integers(1, 3), st.booleans(), st.sets(st.integers(1, 3)))
@settings(max_examples=400)
def test_carrying_out_the_plan_again_and_again_settles_and_never_uncovers_a_slot(
    first: list[CrewMember], count: int, target: int, breaks_first: bool, loaders: set[int]
) -> None:
    """Whatever the crew looks like, with every start succeeding and every drain ending."""
    there = {number: replace(each, id=number) for number, each in enumerate(first)}
    number = len(there)
    seen = crew(
        *there.values(), count=count, target=target, loaders=tuple(loaders | {target}), breaks_first=breaks_first
    )
    for _ in range(20):
        served = {m.slot for m in there.values() if m.phase == WorkerPhase.READY and m.slot < count}
        todo = plan(replace(seen, members=tuple(there.values())), NOW).actions
        for action in todo:
            match action:
                case StartWorker(slot=slot, generation=generation):
                    there[number] = member(number, slot, generation, WorkerPhase.STARTING)
                    number += 1
                case DrainWorker(member=who):
                    there[who] = replace(there[who], phase=WorkerPhase.DRAINING, since=NOW)
                case KillWorker(member=who):
                    del there[who]
        after = {m.slot for m in there.values() if m.phase == WorkerPhase.READY and m.slot < count}
        assert breaks_first or served <= after, "a slot lost its last ready member to a replacement"
        if not todo and all(m.phase == WorkerPhase.READY for m in there.values()):
            break
        there = {
            n: replace(m, phase=WorkerPhase.READY) if m.phase == WorkerPhase.STARTING else m
            for n, m in there.items()
            if m.phase != WorkerPhase.DRAINING
        }
    fit = [m for m in there.values() if m.phase == WorkerPhase.READY and m.generation == target and not m.worn]
    assert sorted(m.slot for m in fit) == list(range(count)) or len(fit) >= count
    assert is_settled(replace(seen, members=tuple(there.values())), target)
