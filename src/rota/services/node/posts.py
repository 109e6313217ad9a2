"""The posts that services ask for: the workers of each group, and those that only route. Pure."""

from collections.abc import Iterator, Mapping

from rota.model.config import RuntimeConfig
from rota.runtime.crew.plan import WorkerPool
from rota.runtime.crew.posts import Post
from rota.services.core.routing import ByWorker
from rota.services.core.spec import ServiceSpec

ROUTER_GROUP = "router"
"""The group, among a service's pools, of the workers that only say which group a request is for."""


def group_pool(service: str, group: str) -> str:
    """The name of the pool of a service's group."""
    return f"service:{service}:{group}"


def service_posts(service: ServiceSpec, config: RuntimeConfig, sizes: Mapping[tuple[str, int], int]) -> Iterator[Post]:
    """The workers of a service's groups; `sizes` are the counts that an operator set."""
    # A worker ends when the last of its requests is answered, however long that takes: a reload loses none. Where all
    # old ones must be gone first, a request that hangs would hold up all others, so there `drain` is the limit.
    drain = config.drain if service.all_out_first else None
    for group, count in service.groups.items():
        size = sizes.get((service.name, group), count)
        pool = WorkerPool(group_pool(service.name, str(group)), size, breaks_first=service.all_out_first)
        yield Post(pool, "service", service.name, str(group), True, drain=drain, has_loop=service.has_loop)
    if isinstance(service.rule, ByWorker):
        pool = WorkerPool(group_pool(service.name, ROUTER_GROUP), service.proxies)
        yield Post(pool, "service", service.name, ROUTER_GROUP, True, drain=config.drain)
