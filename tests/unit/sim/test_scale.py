"""The cost of changes in a large fleet, tried on a small one."""

from rota.sim.scale import REPLICAS, measure


def test_every_task_is_placed_and_after_deaths_only_what_was_lost() -> None:
    scale = measure(nodes=10, tasks=400, deaths=(1, 2))
    first, one, two = scale.costs
    assert scale.missing == 0
    assert (first.what, one.what, two.what) == ("initial placement", "one node dies", "2 nodes die")
    assert first.tasks == 400
    assert first.writes >= 400 + 400 / REPLICAS  # assignments, and each resource's status
    assert 30 <= one.tasks <= 50  # a tenth
    assert 60 <= two.tasks <= 120
    assert scale.bytes_of_a_node > 1_000
