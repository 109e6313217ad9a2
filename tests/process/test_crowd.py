"""A crowd of viewers asks everything at once, with the worst arguments: the node keeps its lease and its work."""

from pathlib import Path

import pytest

from rota.doors.grpc import door as grpc_door
from rota.doors.http import routes as resources
from rota.doors.verbs import OPERATIONS
from tests.kit import crowd as crowds
from tests.kit.crowd import NOT_GIVEN, Unsaid, crowd, over_grpc, over_http, worst


def test_every_operation_of_both_doors_is_asked() -> None:
    """One that is added is asked as well, or its arguments have to be given."""
    http = {asked.operation for asked in over_http("n", "localhost")}
    grpc = {asked.operation for asked in over_grpc("n")}
    assert http == {endpoint.operation for endpoint in resources.table()}
    assert grpc == {method.operation for method in grpc_door.METHODS.values()}
    assert http | grpc <= set(OPERATIONS)


def test_an_argument_whose_worst_value_nobody_knows_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(crowds.WORST, "count")
    assert worst("plan", "token", "n") is NOT_GIVEN
    with pytest.raises(Unsaid, match="preview_job takes count"):
        list(over_http("n", "localhost"))


async def test_no_viewer_costs_a_node_its_lease(tmp_path: Path) -> None:
    report = await crowd(tmp_path, callers=20, resources=1000)
    print(crowds.render(report, 20))  # noqa: T201  # the margin, for whoever looks
    assert not report.broken
    assert report.sessions_kept
    assert report.leader_kept
    assert report.exclusive_kept
    assert min(report.least_left.values()) > 0
    assert not report.failed_probes
    assert report.outcomes["200"]
    assert report.outcomes["OK"]
    assert report.outcomes["429"]
    assert report.outcomes["RESOURCE_EXHAUSTED"]
