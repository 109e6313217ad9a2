"""The table of a service, from what its app declares. Pure."""

from collections.abc import Mapping

from rota.workloads.services.routing import ROUTER, ByWorker
from rota.workloads.services.table import Route, Table
from rota.workloads.summary import ServiceSummary


def table(summary: ServiceSummary, active: Mapping[int, int]) -> Table:
    """The table of a service as one generation declares it; `active` says whose workers each group has."""
    groups = [int(group) for group in summary.groups]
    if isinstance(summary.rule, ByWorker):
        groups.append(ROUTER)
    return Table(
        service=summary.name,
        groups={group: active.get(group, 0) for group in groups},
        routes={
            int(cmd): Route(
                int(group),
                summary.timeouts[cmd].total_seconds() if cmd in summary.timeouts else None,
                int(cmd) in summary.idempotent,
            )
            for cmd, group in summary.routes.items()
        },
        rule=summary.rule,
        layout=summary.layout,
        queue=summary.queue,
        queue_bytes=summary.queue_bytes,
        max_frame=summary.max_frame,
        max_clients=summary.max_clients,
        client_timeout=summary.client_timeout.total_seconds() if summary.client_timeout else None,
        answers_failures=summary.auto_answer_on_fail,
    )
