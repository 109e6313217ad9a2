"""Who takes part in jobs: what is news to those who decide, and what is not."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.jobs.fleet.members import FEED, PREFIXES, Members
from rota.kit.record import replace
from rota.model import codec, keys
from rota.model.ids import Key, LeaseId, NodeId, Revision, SessionId
from rota.model.node import Node, NodeLoad, NodeStatus, Role
from rota.model.peers import DutyHeld
from rota.resources.core.records import LabelsSet
from rota.store.follow import PrefixChanges
from rota.store.port import Change, Entry

NODE = Node(
    id=NodeId("a"),
    session=SessionId("s1"),
    lease=LeaseId("l1"),
    role=Role.BOTH,
    home="a",
    host="h",
    pid=1,
    since=datetime(2026, 11, 18, tzinfo=UTC),
    lease_ttl=timedelta(seconds=10),
    executors=4,
)
STATUS = NodeStatus(
    app="x", generation=1, previous=None, reloading=None, pools=[], tasks_ordered=0, tasks_running=0, jobs=["j"]
)
LOAD = NodeLoad(score=10.0, cpu=0.1, memory=0.1, executors=4, executors_used=0)
LABELS = LabelsSet(node=NODE.id, labels={"gpu": "yes", "zone": None}, since=NODE.since)
DUTY = DutyHeld(beat=1, node=NODE.id, session=NODE.session)


def news(key: Key, record: object | None, *, is_whole: bool = False) -> PrefixChanges:
    entry = None if record is None else Entry(key, codec.encode(record), Revision(1), Revision(1))
    return PrefixChanges((Change(key, entry),), Revision(1), is_whole)


@pytest.fixture
def members() -> Members:
    """One node, of which everything is known."""
    found = Members()
    records = {
        keys.NODES + "a": NODE,
        keys.STATUS + "a": STATUS,
        keys.NODE_LOADS + "a": LOAD,
        keys.DUTIES + FEED: DUTY,
        keys.CORDONS + "b": None,
        keys.LABELS + "b": None,
    }
    for prefix in PREFIXES:
        key = next(each for each in records if each.startswith(prefix))
        assert found.fold(prefix, news(key, records[key], is_whole=True)), "what was read for the first time is news"
    assert found.is_known
    assert found.feeder == "a"
    return found


@pytest.mark.parametrize(
    ("prefix", "name", "record", "is_news"),
    [
        pytest.param(keys.NODES, "a", NODE, False, id="the same node"),
        pytest.param(keys.NODES, "a", replace(NODE, executors=8), True, id="more executors"),
        pytest.param(keys.NODES, "a", None, True, id="a node that is gone"),
        pytest.param(keys.STATUS, "a", replace(STATUS, tasks_running=7), False, id="figures of a node"),
        pytest.param(keys.STATUS, "a", replace(STATUS, jobs=["j", "k"]), True, id="another job"),
        pytest.param(keys.CORDONS, "a", LOAD, True, id="a cordon"),
        pytest.param(keys.LABELS, "a", LABELS, True, id="labels that were set"),
        pytest.param(keys.NODE_LOADS, "a", replace(LOAD, score=90.0), False, id="load"),
        pytest.param(keys.DUTIES, FEED, replace(DUTY, beat=2), False, id="the same feeder"),
        pytest.param(keys.DUTIES, FEED, None, True, id="no feeder"),
        pytest.param(keys.DUTIES, "other", DUTY, False, id="another duty"),
    ],
)
def test_news(members: Members, prefix: Key, name: str, record: object | None, is_news: bool) -> None:
    assert members.fold(prefix, news(prefix + name, record)) is is_news


def test_load_is_kept_though_it_is_no_news(members: Members) -> None:
    members.fold(keys.NODE_LOADS, news(keys.NODE_LOADS + "a", replace(LOAD, score=90.0)))
    assert members.scores == {"a": 90.0}


def test_labels_that_an_operator_set_count_for_jobs(members: Members) -> None:
    members.fold(keys.NODES, news(keys.NODES + "a", replace(NODE, labels={"zone": "a", "disk": "ssd"})))
    members.fold(keys.LABELS, news(keys.LABELS + "a", LABELS))

    def labels() -> dict[str, str]:
        [member] = members.members(lambda _: 0, lambda _: "", lambda _: 1.0)
        return dict(member.labels)

    assert labels() == {"gpu": "yes", "disk": "ssd"}
    members.fold(keys.LABELS, news(keys.LABELS + "a", None))
    assert labels() == {"zone": "a", "disk": "ssd"}
