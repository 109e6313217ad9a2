"""The tables of a node's services: by what its proxies should serve each, while generations follow one another."""

from collections import Counter

from rota.runtime.crew.crew import Crew
from rota.services.core.declared_table import table
from rota.services.core.routing import ROUTER
from rota.services.core.spec import ServiceSpec
from rota.services.core.table import Table, active, merged
from rota.services.node.posts import ROUTER_GROUP, group_pool

MOST = 1024
"""Workers of a group."""


class ServiceTables:
    """The tables of all services of one node."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.by_name: dict[str, Table] = {}
        """Service → what the proxies should serve it by."""

    def update(self, service: ServiceSpec) -> None:
        """Find out by what a service should be served now."""
        before = self.by_name.get(service.name)
        target = self._crew.generations.current
        groups = {group: str(group) for group in service.groups} | {ROUTER: ROUTER_GROUP}
        active = {number: self._active(service, number, name, before) for number, name in groups.items()}
        wanted = table(service, active)
        self.by_name[service.name] = wanted if before is None else merged(before, wanted, target)

    def _active(self, service: ServiceSpec, number: int, group: str, before: Table | None) -> int:
        """The generation whose workers should have a group's requests; 0 if those of a new group are not there yet."""
        target = self._crew.generations.current
        if before is None:
            return target
        pool = group_pool(service.name, group)
        post = self._crew.posts.get(pool)
        ready = Counter(worker.brief.generation for worker in self._crew.of_pool(pool) if worker.can_work)
        return active(before.groups.get(number, 0), target, ready, post.pool.count if post else MOST)
