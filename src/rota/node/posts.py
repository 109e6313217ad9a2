"""Posts: which pools of workers an app and its orders ask for.

Pure: from the summary of the app as the loader imported it, the tasks ordered, and the configuration, to the pools that
`decide.crew` plans for.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

import msgspec

from rota.decide.crew import Pool
from rota.kit.record import replace
from rota.model.config import RuntimeConfig
from rota.model.stream import KIND
from rota.node.pipes.brief import Order
from rota.workloads.services.routing import ByWorker
from rota.workloads.services.spec import ServiceSpec
from rota.workloads.summary import AppSummary

HOST = "host"
EXECUTOR = "executor"
RUN = "run"
"""The role of workers that are there for one attempt; they belong to no pool."""

APART = "apart:"
"""Of pools of one host each, for suspects (`decide.apart`)."""

CANARY = "canary:"
ROUTER_GROUP = "router"
"""The group, among a service's pools, of the workers that only say which group a request is for."""


class Post(msgspec.Struct, frozen=True):
    """A pool, and what its workers are for."""

    pool: Pool
    role: str
    service: str = ""
    group: str = ""
    has_line: bool = False
    """Do its workers talk to a proxy?"""

    order: Order | None = None
    drain: timedelta | None = timedelta(seconds=10)
    """How long its workers may take to end; None for as long as their work takes."""

    has_loop: bool = False
    """Do its workers owe a beat? Sync code may take its time; an event loop may not stand still.

    A stream's worker has a loop in any case: a function that is not async is called beside it."""


def posts(
    app: AppSummary,
    orders: Iterable[Order],
    executors: int,
    config: RuntimeConfig,
    sizes: Mapping[tuple[str, int], int] | None = None,
    portions: Iterable[int] = (),
) -> dict[str, Post]:
    """What to man, by pool.

    `sizes` are those of services' groups that somebody changed by hand, `portions` the numbers of those of suspects.
    """
    found = [
        *_of_app(app, executors, config),
        *(_apart(number, config) for number in portions),
        *(post for service in app.services for post in _of_service(service, config, sizes or {})),
        *_of_orders(orders, app, config),
    ]
    return {post.pool.name: post for post in found}


def canaries(wanted: Mapping[str, Post], generation: int, config: RuntimeConfig) -> dict[str, Post]:
    """One worker of each sort of the new generation; none for what must not run twice."""
    found = {}
    for name, post in wanted.items():
        if not post.order and not post.pool.breaks_first and not post.pool.is_task:
            pool = Pool(f"{CANARY}{name}", 1, generation=generation)
            found[pool.name] = replace(post, pool=pool, drain=config.grace, has_line=False)
    return found


def _of_app(app: AppSummary, executors: int, config: RuntimeConfig) -> Iterator[Post]:
    if any(not resource.runs_alone for resource in app.resources):
        yield Post(Pool(HOST, config.hosts), "host", drain=config.drain, has_loop=True)
    has_source = any(resource.source_every is not None for resource in app.resources)
    if (app.jobs or has_source) and config.executors:
        yield Post(
            Pool(EXECUTOR, executors), "executor", drain=None
        )  # a run may last for hours; a reload does not end it


def _apart(number: int, config: RuntimeConfig) -> Post:
    """A host for a portion of suspects. Like a task it may fail at any time, which says nothing about the code."""
    return Post(Pool(f"{APART}{number}", 1, is_task=True), "host", drain=config.drain, has_loop=True)


def group_pool(service: str, group: str) -> str:
    """The name of the pool of a service's group."""
    return f"service:{service}:{group}"


def _of_service(service: ServiceSpec, config: RuntimeConfig, sizes: Mapping[tuple[str, int], int]) -> Iterator[Post]:
    # A worker ends when the last of its requests is answered, however long that takes: a reload loses none. Where all
    # old ones must be gone first, a request that hangs would hold up all others, so there `drain` is the limit.
    drain = config.drain if service.all_out_first else None
    for group, count in service.groups.items():
        size = sizes.get((service.name, group), count)
        pool = Pool(group_pool(service.name, str(group)), size, breaks_first=service.all_out_first)
        yield Post(pool, "service", service.name, str(group), True, drain=drain, has_loop=service.has_loop)
    if isinstance(service.rule, ByWorker):
        pool = Pool(group_pool(service.name, ROUTER_GROUP), service.proxies)
        yield Post(pool, "service", service.name, ROUTER_GROUP, True, drain=config.drain)


def kinds_alone(app: AppSummary) -> set[str]:
    """The kinds whose tasks each have a process of their own; so has every exclusive task."""
    return {kind.name for kind in app.kinds if kind.runs_alone}


def _of_orders(orders: Iterable[Order], app: AppSummary, config: RuntimeConfig) -> Iterator[Post]:
    kinds = {kind.name: kind for kind in app.kinds}
    alone = kinds_alone(app)
    for order in orders:
        if order.is_exclusive or order.kind in alone:
            is_stream = order.kind.startswith(KIND)
            pool = Pool(
                f"task:{order.task}",
                1,
                # Two of a stream would say different things of one task.
                breaks_first=order.is_exclusive or is_stream,
                version=order.epoch,
                needs_lease=order.is_exclusive,
                is_task=True,
            )
            is_async = order.kind in kinds and kinds[order.kind].is_async
            role = "stream" if is_stream else "task"
            yield Post(pool, role, order=order, drain=config.grace, has_loop=is_async or is_stream)
