"""The table of a service, from what its app declares. Pure."""

from collections.abc import Mapping
from datetime import timedelta

from rota.services.core.routing import ROUTER, ByWorker
from rota.services.core.spec import ServiceSpec
from rota.services.core.table import CmdRoute, Table


def table(spec: ServiceSpec, active: Mapping[int, int]) -> Table:
    """The table of a service as one generation declares it; `active` says whose workers each group has."""
    groups = [*spec.groups, *([ROUTER] if isinstance(spec.rule, ByWorker) else [])]
    return Table(
        service=spec.name,
        groups={group: active.get(group, 0) for group in groups},
        routes={
            each.cmd: CmdRoute(each.group, _seconds(spec.timeout_of(each)), each.idempotent) for each in spec.handlers
        },
        rule=spec.rule,
        layout=spec.layout,
        queue=spec.queue,
        queue_bytes=spec.queue_bytes,
        max_frame=spec.max_frame,
        max_clients=spec.max_clients,
        client_timeout=_seconds(spec.client_timeout),
        answers_failures=spec.auto_answer_on_fail,
    )


def _seconds(limit: timedelta | None) -> float | None:
    return limit.total_seconds() if limit else None
