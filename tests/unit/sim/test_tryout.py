"""Fleets that are tried out: what dies is covered elsewhere, and what finds no room says so."""

import pytest

from rota.model.errors import NotFound
from rota.sim.sketch import Sketch, read
from rota.sim.tryout import tryout

TEXT = """
lasts = "75s"

[[nodes]]
name = "n"
count = 3
slots = 8

[[resources]]
name = "room"
count = {rooms}
replicas = 2

[[jobs]]
name = "tick"
every = "10s"
takes = "2s"
"""


def fleet(rooms: int) -> Sketch:
    return read(TEXT.format(rooms=rooms), "fleet.toml")


def test_a_death_costs_the_lease_and_moves_what_was_there() -> None:
    outcome = tryout(fleet(rooms=6), seed=1, kill=["n-1"])
    assert outcome.samples[-1].coverage == 1.0
    assert outcome.pending == {}
    assert 3 <= outcome.moves <= 5  # its share of twelve tasks
    assert outcome.recovered_s is not None
    assert outcome.uncovered_s > 0
    assert "n-1" not in outcome.used
    assert outcome.runs["succeeded"] > 3


def test_what_finds_no_room_says_why() -> None:
    outcome = tryout(fleet(rooms=10), seed=1, kill=["n-1"])
    assert outcome.samples[-1].coverage < 1.0
    assert len(outcome.pending) == 4  # of twenty tasks sixteen have a slot
    assert all("slots" in why for why in outcome.pending.values())
    assert outcome.used == {"n-2": (8, 8), "n-3": (8, 8)}


def test_a_node_that_joins_takes_what_has_no_place() -> None:
    outcome = tryout(fleet(rooms=12), seed=1, kill=["n-1"], add=1)
    assert outcome.pending == {}
    assert outcome.used == {"n-2": (8, 8), "n-3": (8, 8), "added-1": (8, 8)}


def test_the_same_seed_is_the_same_fleet() -> None:
    assert tryout(fleet(rooms=4), seed=7, kill=["n-2"]) == tryout(fleet(rooms=4), seed=7, kill=["n-2"])


def test_who_is_to_be_killed_must_be_there() -> None:
    with pytest.raises(NotFound, match="there are n-1, n-2, n-3"):
        tryout(fleet(rooms=1), seed=1, kill=["n9"])
