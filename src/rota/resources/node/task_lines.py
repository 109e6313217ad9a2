"""The subject of the lines that tasks of resources and of streams print."""

from rota.runtime.pipes.brief import Brief, Order
from rota.runtime.printed import resource_lines, stream_lines
from rota.runtime.worker.tee import About
from rota.streams.core.records import KIND
from rota.streams.pipe import stream_of


def work_of(order: Order) -> About:
    """The subject of a task's lines."""
    if order.kind.startswith(KIND):
        return About(stream_lines(stream_of(order)), f"{order.resource}#{order.slot}")
    return About(resource_lines(order.kind, order.resource), str(order.slot))


def of_worker(brief: Brief) -> About:
    """The subject of the lines of a worker with one task."""
    assert brief.order is not None
    return work_of(brief.order)
