"""What the lines are about that tasks of resources and of streams print."""

from rota.runtime.pipes.brief import Brief, Order
from rota.runtime.printed import resource_lines, stream_lines
from rota.runtime.worker.tee import About
from rota.streams.core.records import KIND
from rota.streams.pipe import stream_of


def work_of(order: Order) -> About:
    """What the lines of a task are about."""
    if order.kind.startswith(KIND):
        return About(stream_lines(stream_of(order)), f"{order.resource}#{order.slot}")
    return About(resource_lines(order.kind, order.resource), str(order.slot))


def of_worker(brief: Brief) -> About:
    """What the lines of a worker with one task are about."""
    assert brief.order is not None
    return work_of(brief.order)
