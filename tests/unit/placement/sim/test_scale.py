"""The cost of changes in a large fleet, tried on a small one."""

from typing import Any

import pytest

from rota.placement.fleet.plan import PlacementPlan, plan
from rota.placement.fleet.view import FleetView
from rota.placement.sim.scale import REPLICAS, measure
from rota.sim.leading import TTL

pytestmark = pytest.mark.slow


def test_every_task_is_placed_and_after_deaths_only_what_was_lost() -> None:
    scale = measure(nodes=16, tasks=640, deaths=(1, 2))
    first, one, two, leader = scale.costs
    assert scale.missing == 0
    assert (first.what, one.what, two.what) == ("initial placement", "one node dies", "2 nodes die")
    assert first.tasks == 640
    assert first.writes >= 640 + 640 / REPLICAS  # assignments, and each resource's status
    assert 30 <= one.tasks <= 50  # a sixteenth
    assert 60 <= two.tasks <= 120
    assert leader.what == "the leader and one node die"
    assert leader.seconds >= TTL.total_seconds() / 2  # nobody leads before the lease has ended, renewed at a third
    assert 40 <= leader.tasks <= 70
    assert scale.bytes_of_a_node > 1_000
    assert scale.terms == 2


class Processor:
    """A processor that only plans: each resource in a plan takes it as long as 40 do in truth."""

    def __init__(self) -> None:
        self.spent = 0.0

    def time(self) -> float:
        return self.spent

    def plan(self, view: FleetView, dirty: set[str], *more: Any) -> PlacementPlan:
        self.spent += len(dirty) * 0.004
        return plan(view, dirty, *more)


def test_no_leader_loses_its_lease_to_a_plan_that_takes_longer_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """3,200 resources take as long as some 128,000 do, and nothing depends on how busy this machine is."""
    processor = Processor()
    monkeypatch.setattr("rota.placement.sim.scale.time.process_time", processor.time)
    monkeypatch.setattr("rota.placement.fleet.supervisor.plan", processor.plan)
    scale = measure(nodes=16, tasks=6_400, deaths=(1,))
    assert scale.costs[0].leader > TTL.total_seconds()
    assert (scale.missing, scale.terms) == (0, 2)
