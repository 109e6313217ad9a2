"""The services of a node, as its agent sees them: their sockets, their proxies, and whose workers get the requests.

Level-triggered: `update` compares what the app declares and which workers are ready with what the proxies were sent,
and sends them the difference. It is called after every change of the crew. So a reload needs no code of its own: the
new generation's workers register, group after group is flipped in the tables, and only then are the old ones dismissed.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from rota.fleet.members.journal import Tell
from rota.kit.time.clock import Clock
from rota.model.errors import Invalid, NotFound
from rota.model.spec.checks import did_you_mean
from rota.runtime.core.restart import RestartPolicy
from rota.runtime.crew.crew import Crew
from rota.runtime.crew.posts import Post
from rota.runtime.crew.worker import Worker
from rota.runtime.pipes.brief import Brief
from rota.runtime.pipes.channel import pair
from rota.runtime.pipes.worker import Finish
from rota.sdk.summary import AppSummary
from rota.services.core.admin_spec import AdminSpec
from rota.services.core.figures import stat
from rota.services.core.records import ServiceStat
from rota.services.core.routing import ROUTER
from rota.services.core.spec import ServiceSpec
from rota.services.node.posts import ROUTER_GROUP
from rota.services.node.proxies import Proxies, ProxyProcess
from rota.services.node.shared_sockets import SocketBorrower
from rota.services.node.sockets import ServiceSockets
from rota.services.node.tables import MOST, ServiceTables
from rota.services.proxy.pipe import (
    Ask,
    Clear,
    Close,
    Dismiss,
    Gone,
    HeldUp,
    Listen,
    Overdue,
    Serve,
    TakeSeat,
    Told,
    Unseated,
    Unserve,
    Withdraw,
)

log = logging.getLogger(__name__)

GRACE = 0.5
"""Seconds that a worker with a loop or threads gets to end a request by itself after its timeout."""

BATCH = 16
"""Requests that a router's worker holds at a time: it works on them one after the other, and they are short."""


class ServiceManager:
    """All services of one node."""

    def __init__(
        self,
        crew: Crew,
        node: str,
        policy: RestartPolicy,
        clock: Clock,
        tell: Tell,
        post: Callable[[], None],
        patience: timedelta = timedelta(seconds=10),
    ) -> None:
        self._patience = patience.total_seconds()
        self._crew, self._clock, self._tell, self._post = crew, clock, tell, post
        self._proxies = Proxies(node, policy, clock, tell, self._heard, self._proxy_ended)
        self._sockets = ServiceSockets(clock, tell)
        self._tables = ServiceTables(crew)
        self._seats: dict[int, ProxyProcess] = {}
        self._is_closing = False
        self._sizes: dict[tuple[str, int], int] = {}
        self._sized_in = 0

    def borrow_from(self, descriptor: int) -> None:
        """Have the sockets of fixed ports from `rota up`, over this channel: its nodes share them."""
        self._sockets.borrower = SocketBorrower(descriptor, self._crew.wake)

    # What other parts ask, and ask for

    @property
    def sizes(self) -> dict[tuple[str, int], int]:
        """(service, group) → the number of workers that an operator set; a reload drops these, and the code's count
        applies again."""
        return self._sizes if self._sized_in == self._crew.generations.current else {}

    def names(self) -> list[str]:
        """The services of the app."""
        return [service.name for service in self._declared()]

    def not_listening(self) -> dict[str, str]:
        """Services of the app that do not listen where it says, and why; the reason names the service."""
        found = {service.name: self._sockets.why_not(service) for service in self._declared()}
        return {name: why for name, why in found.items() if why}

    def processes(self) -> list[dict[str, Any]]:
        """Who is who among the proxies."""
        return [{"number": proxy.number, "pid": proxy.pid} for proxy in self._proxies]

    async def stat(self, service: str) -> ServiceStat:
        """What a service is doing; Unavailable if a proxy does not answer."""
        summary = self._known(service)
        told = await self._ask(summary, lambda number: Ask(number, service))
        return stat(
            service,
            [each.figures for each in told if each.figures is not None],
            {group: self.sizes.get((service, group), count) for group, count in summary.groups.items()},
            generation=self._crew.generations.current,
            listening=self._sockets.addresses(service),
            not_listening=self._sockets.refusal(service),
            pids={worker.id: worker.pid for worker in self._crew.workers.values() if worker.pid is not None},
        )

    async def clear(self, service: str, groups: Sequence[int] | None) -> dict[int, int]:
        """Drop what waits in these groups, or in all; how many there were."""
        summary = self._known(service)
        for group in groups or ():
            self._check_group(summary, group)
        wanted = None if groups is None else tuple(groups)
        asked = summary.groups if groups is None else groups
        total: Counter[int] = Counter(dict.fromkeys(asked, 0))
        for told in await self._ask(summary, lambda number: Clear(number, service, wanted)):
            total.update(told.dropped or {})
        self._tell("service.cleared", service, dropped=sum(total.values()))
        return dict(total)

    async def resize(self, service: str, group: int, count: int) -> int:
        """Set the number of workers of a group, until the next reload; returns the number before."""
        summary = self._known(service)
        self._check_group(summary, group)
        if not summary.proxies <= count <= MOST:
            raise Invalid(f'service "{service}": a group has from {summary.proxies} to {MOST} workers, not {count}')
        before = self.sizes.get((service, group), summary.groups[group])
        self._sizes = {**self.sizes, (service, group): count}
        self._sized_in = self._crew.generations.current
        self._tell("service.resized", f"{service}/{group}", before=before, after=count)
        self._post()
        return before

    def admin(self, service: str) -> AdminSpec | None:
        """Where the original control tool reaches it, as declared."""
        return self._known(service).admin

    # Level-triggered

    def update(self) -> None:
        """Bring the proxies closer to what the app declares and to the workers there are."""
        app = self._crew.generations.app
        if app is None or self._is_closing:
            return
        if not self.sizes:
            self._forget_sizes()
        declared = {service.name: service for service in app.app.services}
        self._sockets.give_back(declared)
        for name, service in declared.items():
            self._tables.update(service)
            self._sockets.listen(name, service)
        for name in self._tables.by_name.keys() - declared.keys():
            self._forget(name)
        self._sockets.give_back(declared)
        self._proxies.want(max((service.proxies for service in declared.values()), default=0))
        for proxy in self._proxies:
            if proxy.is_leaving:
                continue
            for name in proxy.tables.keys() | declared.keys():
                if name in declared and proxy.number < declared[name].proxies:
                    self._serve(proxy, name)
                elif name in proxy.tables:
                    self._withdraw(proxy, name)
        for proxy in self._proxies.surplus:
            if not proxy.tables:
                proxy.leave()

    def _forget_sizes(self) -> None:
        for (service, group), count in self._sizes.items():
            self._tell("service.resized", f"{service}/{group}", before=count, after=None)
        self._sizes = {}

    def _forget(self, name: str) -> None:
        """The app does not have this service any more."""
        del self._tables.by_name[name]
        self._sockets.forget(name)

    # Proxies

    def _serve(self, proxy: ProxyProcess, name: str) -> None:
        """Tell a proxy what is new of a service."""
        table, listening = self._tables.by_name[name], self._sockets.get(name)
        if proxy.tables.get(name) != table or name in proxy.withdrawn:
            proxy.tables[name] = table
            proxy.withdrawn.discard(name)
            proxy.send(Serve(table))
        if listening is not None and proxy.sockets.get(name) is not listening:
            try:
                copies = listening.copies()
            except OSError as error:  # the next turn retries
                log.warning("a proxy was not handed its sockets", extra={"service": name, "why": error.strerror})
                return
            proxy.sockets[name] = listening
            proxy.send(Listen(name, len(listening.tcp), len(listening.udp)), copies)

    def _withdraw(self, proxy: ProxyProcess, name: str) -> None:
        """Ask a proxy to serve a service no longer: its workers finish what is there, then the proxy drops it."""
        if name not in proxy.withdrawn:
            proxy.withdrawn.add(name)
            proxy.sockets.pop(name, None)
            proxy.send(Withdraw(name))
        workers = self._crew.workers
        if not any(each is proxy and workers[number].brief.service == name for number, each in self._seats.items()):
            del proxy.tables[name]
            proxy.withdrawn.discard(name)
            proxy.send(Unserve(name))

    def _heard(self, message: Any) -> None:
        match message:
            case Overdue(worker=worker, holds_others=holds_others):
                self._crew.replace(worker, "a request took longer than it may", now=not holds_others)
            case HeldUp(worker=number):
                if held_up := self._crew.workers.get(number):
                    self._is_held_up(held_up, message)
            case Unseated(worker=number):
                if seated := self._crew.workers.get(number):
                    seated.send(Finish())
                    self._crew.dismiss(number, is_limited=True)  # its requests took their time; its hooks may not
        self._crew.wake()

    def _is_held_up(self, worker: Worker, by: HeldUp) -> None:
        """Report a worker that should have ended and is kept by a request without a timeout."""
        brief = worker.brief
        worker.held_up = f"pid {worker.pid} of generation {brief.generation} works on a request (cmd {by.cmd})"
        self._tell(
            "worker.held_up",
            f"{brief.pool}/{brief.slot}",
            pool=brief.pool,
            pid=worker.pid,
            cmd=by.cmd,
            seconds=by.seconds,
            requests=by.requests,
            generation=brief.generation,
        )

    def _proxy_ended(self, proxy: ProxyProcess) -> None:
        """A proxy ended. Its workers notice by the end of their lines, and are replaced."""
        for number in [number for number, each in self._seats.items() if each is proxy]:
            del self._seats[number]
            self._crew.dismiss(number, is_limited=True)  # no client waits for its answers any more
        self._crew.wake()
        if (mend_at := self._proxies.mend_at) is not None:
            asyncio.get_running_loop().call_later(mend_at - self._clock.monotonic(), self._crew.wake)

    # Switch

    def can_connect(self, post: Post, slot: int, generation: int) -> bool:
        """Is the proxy there that a worker would get its requests from?"""
        return self._proxy_of(post.service, slot, generation) is not None

    def connect(self, brief: Brief) -> int | None:
        """The worker's end of a line to its proxy."""
        proxy = self._proxy_of(brief.service, brief.slot, brief.generation)
        summary = self._summary(brief.service, brief.generation)
        if summary is None or proxy is None:
            return None
        is_router = brief.group == ROUTER_GROUP
        capacity = BATCH if is_router else summary.concurrency
        grace = 0.0 if is_router or (capacity == 1 and not summary.has_loop) else GRACE
        ours, theirs = pair()
        self._seats[brief.worker] = proxy
        group = ROUTER if is_router else int(brief.group)
        proxy.send(TakeSeat(brief.worker, brief.service, group, brief.generation, capacity, grace), [ours.detach()])
        return theirs.detach()

    # Witness

    def registered(self, worker: Worker) -> None:
        """Nothing to do here: `update` finds a registered worker."""

    def said(self, worker: Worker, message: Any) -> None:
        """Nothing that workers say is for us."""

    def draining(self, worker: Worker) -> None:
        """Dismiss the worker at its proxy: it gets no more requests."""
        if not worker.brief.has_line:
            return
        if proxy := self._seats.get(worker.id):
            proxy.send(Dismiss(worker.id, self._patience))
        else:
            worker.send(Finish())

    def ended(self, worker: Worker, why: str) -> None:
        """A worker has ended; let its proxy know."""
        if proxy := self._seats.pop(worker.id, None):
            proxy.send(Gone(worker.id))

    # The end

    async def close(self, seconds: float) -> None:
        """Take no new requests, and wait until the present ones are answered, or until `seconds` have passed."""
        self._is_closing = True
        self._sockets.close()
        for proxy in self._proxies:
            proxy.send(Close())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._crew.until(lambda: all(proxy.is_idle for proxy in self._proxies))

    async def leave(self, seconds: float) -> None:
        """Let the proxies say goodbye to their clients, and wait until they have ended."""
        self._proxies.want(0)
        for proxy in self._proxies:
            proxy.leave()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._crew.until(lambda: not list(self._proxies))

    def kill(self) -> None:
        """End the proxies now."""
        self._is_closing = True
        self._sockets.close()
        self._proxies.kill()

    # Inside

    def _declared(self) -> tuple[ServiceSpec, ...]:
        app = self._crew.generations.app
        return app.app.services if app else ()

    def _summary(self, name: str, generation: int) -> ServiceSpec | None:
        app = self._crew.generations.app_of(generation)
        return _service(app.app, name) if app else None

    def _proxy_of(self, name: str, slot: int, generation: int) -> ProxyProcess | None:
        """The proxy of a worker, if it runs and was sent the service."""
        summary = self._summary(name, generation)
        proxy = self._proxies.get(slot % summary.proxies) if summary else None
        return proxy if proxy and name in proxy.tables and name not in proxy.withdrawn else None

    def _known(self, name: str) -> ServiceSpec:
        for service in self._declared():
            if service.name == name:
                return service
        names = self.names()
        there = f"; there are {', '.join(names)}" if names else "; the app has none"
        raise NotFound(f'there is no service "{name}"{did_you_mean(name, names) or there}', code="service_not_found")

    def _check_group(self, service: ServiceSpec, group: int) -> None:
        if group not in service.groups:
            known = ", ".join(map(str, service.groups))
            raise NotFound(f'service "{service.name}" has no group {group}; it has {known}')

    async def _ask(self, service: ServiceSpec, question: Any) -> list[Told]:
        proxies = [proxy for proxy in self._proxies if proxy.number < service.proxies]
        return list(await asyncio.gather(*(proxy.ask(question) for proxy in proxies)))


def _service(app: AppSummary, name: str) -> ServiceSpec | None:
    return next((service for service in app.services if service.name == name), None)
