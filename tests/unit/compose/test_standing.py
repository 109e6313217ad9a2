"""What a node thinks of others when runs are to be given to them."""

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rota.compose.jobs import _barred, _share
from rota.compose.state import NodeState
from rota.fleet.members.peers import Peers
from rota.jobs.fleet.part import JobsPart
from rota.kit.time.clock import SYSTEM
from rota.model.config import PeersConfig
from rota.model.ids import NodeId, SessionId
from rota.model.peers import NodeHealth, Strikes

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
OTHER = NodeId("b")


@pytest.fixture
def state() -> NodeState:
    peers = Peers(NodeId("a"), cast(Any, nullcontext))
    jobs = cast(JobsPart, SimpleNamespace(clock=SimpleNamespace(now=lambda: NOW)))
    return NodeState(NodeId("a"), SYSTEM, peers=peers, jobs=jobs)


def fell(state: NodeState, *, is_online: bool) -> None:
    assert state.peers is not None
    ago = [NOW - timedelta(minutes=minutes) for minutes in (9, 5, 1)]
    state.peers.health[OTHER] = NodeHealth(node=OTHER, is_online=is_online, since=ago[-1], why="", falls=ago)


def strike(state: NodeState) -> None:
    assert state.peers is not None
    struck = Strikes(node=OTHER, session=SessionId("s"), observer=NodeId("a"), at=[NOW], why="no answer")
    state.peers.ledger.strikes[OTHER] = struck


def test_one_that_nothing_is_known_of_gets_its_share(state: NodeState) -> None:
    assert (_barred(state, OTHER), _share(state, OTHER, PeersConfig())) == ("", 1.0)


def test_one_that_counts_as_offline_and_answers_is_not_barred_but_has_no_share(state: NodeState) -> None:
    fell(state, is_online=False)
    assert (_barred(state, OTHER), _share(state, OTHER, PeersConfig())) == ("", 0.0)


def test_one_that_is_just_back_gets_a_little(state: NodeState) -> None:
    fell(state, is_online=True)
    assert _barred(state, OTHER) == ""
    assert 0.0 < _share(state, OTHER, PeersConfig()) < 1.0


def test_one_that_does_not_answer_us_is_barred_whatever_others_say(state: NodeState) -> None:
    strike(state)
    assert (_barred(state, OTHER), _share(state, OTHER, PeersConfig())) == ("it cannot be reached", 0.0)


def test_a_node_does_not_bar_itself(state: NodeState) -> None:
    assert (_barred(state, state.id), _share(state, state.id, PeersConfig())) == ("", 1.0)
