"""The posts that resources and the tasks of a node ask for: hosts, hosts of suspects, and workers of one task. Pure."""

from collections.abc import Iterable, Iterator

from rota.model.config import RuntimeConfig
from rota.runtime.crew.plan import WorkerPool
from rota.runtime.crew.posts import Post
from rota.runtime.pipes.brief import Order
from rota.sdk.summary import AppSummary
from rota.streams.core.records import KIND

HOST = "host"
APART = "apart:"
"""Of pools of one host each, for suspects (`resources.core.apart`)."""


def host_posts(app: AppSummary, config: RuntimeConfig) -> Iterator[Post]:
    """The hosts, if the app has a kind of resource whose tasks share one."""
    if any(not resource.runs_alone for resource in app.resources):
        yield Post(WorkerPool(HOST, config.hosts), "host", drain=config.drain, has_loop=True)


def apart_post(number: int, config: RuntimeConfig) -> Post:
    """A host for a portion of suspects. Like a task it may fail at any time, which says nothing about the code."""
    return Post(WorkerPool(f"{APART}{number}", 1, is_task=True), "host", drain=config.drain, has_loop=True)


def kinds_alone(app: AppSummary) -> set[str]:
    """The kinds whose tasks each have a process of their own; so has every exclusive task."""
    return {kind.name for kind in app.kinds if kind.runs_alone}


def order_posts(orders: Iterable[Order], app: AppSummary, config: RuntimeConfig) -> Iterator[Post]:
    """A worker for each task that runs alone."""
    kinds = {kind.name: kind for kind in app.kinds}
    alone = kinds_alone(app)
    for order in orders:
        if order.is_exclusive or order.kind in alone:
            is_stream = order.kind.startswith(KIND)
            pool = WorkerPool(
                f"task:{order.task}",
                1,
                # Two workers of a stream task would report different statuses for it.
                breaks_first=order.is_exclusive or is_stream,
                version=order.epoch,
                needs_lease=order.is_exclusive,
                is_task=True,
            )
            is_async = order.kind in kinds and kinds[order.kind].is_async
            role = "stream" if is_stream else "task"
            yield Post(pool, role, order=order, drain=config.grace, has_loop=is_async or is_stream)
