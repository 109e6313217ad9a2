"""Instructions per node, as seed 000 has them."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from rota.model.ids import NodeId
from rota.placement.core import Holdings, Instructions, assign
from tests.unit.placement.core.builders import demand, demands, node

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


def held(**keys: str) -> Holdings:
    """Nodes with 10 slots each, and the keys they hold, one letter each."""
    tasks = {NodeId(id): dict.fromkeys(held, 1) for id, held in keys.items()}
    return Holdings([node(id, 10, len(held)) for id, held in tasks.items()], tasks)


def test_every_node_gets_a_set_be_it_an_empty_one() -> None:
    assert assign(held(a="x", b=""), [], []) == {A: Instructions(), B: Instructions()}


def test_what_is_added_goes_to_nodes_that_do_not_hold_it() -> None:
    assert assign(held(a="x", b="", c=""), [demand("x", 2)], []) == {
        A: Instructions(),
        B: Instructions(add=("x",)),
        C: Instructions(add=("x",)),
    }


def test_what_is_removed_ends_wherever_it_runs() -> None:
    assert assign(held(a="xy", b="x"), [], ["x", "unheard-of"]) == {
        A: Instructions(end=("x",)),
        B: Instructions(end=("x",)),
    }


def test_what_is_removed_makes_room_first() -> None:
    full = Holdings([node("a", 3, 3)], {A: {"x": 3}})
    assert assign(full, [demand("y", cost=2)], ["x"]) == {A: Instructions(add=("y",), end=("x",))}


def test_after_a_reset_a_node_is_told_all_it_should_run() -> None:
    assert assign(held(a="xy", b=""), [demand("z")], ["x"], reset=True) == {
        A: Instructions(pre_reset=True, add=("y",)),
        B: Instructions(pre_reset=True, add=("z",)),
    }


def test_what_would_end_and_begin_on_the_same_node_stays() -> None:
    assert assign(held(a="x"), [demand("x")], ["x"]) == {A: Instructions()}


def test_shares_are_those_of_placement() -> None:
    fleet = Holdings([node("a", 100), node("b", 40), node("c", 10)], {})
    told = assign(fleet, demands(20, 2), [])
    assert {id: len(instructions.add) for id, instructions in told.items()} == {A: 20, B: 16, C: 4}


def carried_out(tasks: Mapping[NodeId, Mapping[str, int]], told: Mapping[NodeId, Instructions]) -> dict[str, set[str]]:
    """What each node runs once it has taken the difference."""
    return {
        id: (set() if set_.pre_reset else set(tasks[id]) - set(set_.end)) | set(set_.add) for id, set_ in told.items()
    }


keys = st.text("pqrstu", max_size=4).map(lambda text: "".join(sorted(set(text))))


@given(keys, keys, keys, keys, keys)
def test_a_reset_changes_how_it_is_told_and_not_what_runs(a: str, b: str, c: str, add: str, remove: str) -> None:
    fleet = held(a=a, b=b, c=c)
    wanted = [demand(key) for key in add]
    told, anew = assign(fleet, wanted, remove), assign(fleet, wanted, remove, reset=True)
    runs = carried_out(fleet.tasks, told)
    assert runs == carried_out(fleet.tasks, anew)
    for key in set(remove) - set(add):
        assert not any(key in held for held in runs.values())
    for key in set(a + b + c) - set(remove):
        assert {id for id, tasks in fleet.tasks.items() if key in tasks} <= {
            id for id, held in runs.items() if key in held
        }
