"""The agent's side of its proxy processes: it starts them, talks to them, notices their end and restarts them."""

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from rota.fleet.members.journal import Tell
from rota.kit.time.clock import Clock
from rota.model.ids import Instant
from rota.runtime.core.restart import Falls, RestartPolicy
from rota.runtime.pipes.child import GiveUp
from rota.runtime.system.children import ChildProcess, start
from rota.services.core.table import Table
from rota.services.node.listening import Listening
from rota.services.proxy.pipe import Idle, Told

log = logging.getLogger(__name__)


class ProxyProcess(ChildProcess[Told]):
    """One proxy process."""

    def __init__(
        self, number: int, node: str, heard: Callable[[Any], None], gone: Callable[["ProxyProcess"], None]
    ) -> None:
        self.number = number
        self.is_idle = self.is_leaving = False
        self.tables: dict[str, Table] = {}
        """Service → the table it was sent last."""

        self.sockets: dict[str, Listening] = {}
        """Service → the sockets it was handed last."""

        self.withdrawn: set[str] = set()
        """Services for which it takes nothing new."""

        self._heard, self._gone = heard, gone
        flags = [f"--number={number}", f"--node={node}"]
        super().__init__(f"proxy {number}", lambda control: start("rota.services.proxy.main", control, flags))

    def leave(self) -> None:
        """Let it answer what is left, part from its clients, and end."""
        if not self.is_leaving:
            self.is_leaving = True
            self.send(GiveUp())

    def _hear(self, message: Any) -> None:
        if isinstance(message, Told):
            self._answered(message)
            return
        if isinstance(message, Idle):
            self.is_idle = True
        self._heard(message)

    def _ended(self) -> None:
        self.handle.close()
        self._gone(self)


class Proxies:
    """The proxies of a node: as many as its services need."""

    def __init__(
        self,
        node: str,
        policy: RestartPolicy,
        clock: Clock,
        tell: Tell,
        heard: Callable[[Any], None],
        ended: Callable[[ProxyProcess], None],
    ) -> None:
        self._node, self._policy, self._clock, self._tell = node, policy, clock, tell
        self._heard, self._ended = heard, ended
        self._proxies: dict[int, ProxyProcess] = {}
        self._falls: dict[int, Falls] = {}
        self._born: dict[int, float] = {}
        self._wanted = 0

    def __iter__(self) -> Iterator[ProxyProcess]:
        return iter(list(self._proxies.values()))

    def get(self, number: int) -> ProxyProcess | None:
        """The proxy of that number, if it is there now."""
        proxy = self._proxies.get(number)
        return proxy if proxy and not proxy.is_leaving else None

    @property
    def surplus(self) -> list[ProxyProcess]:
        """The proxies that no service needs any more."""
        return [proxy for number, proxy in self._proxies.items() if number >= self._wanted]

    def want(self, count: int) -> None:
        """Keep this number of proxies from now on."""
        self._wanted = count
        self.mend()

    @property
    def mend_at(self) -> Instant | None:
        """When the next one may be started, if one is missing."""
        missing = [number for number in range(self._wanted) if number not in self._proxies]
        return min((self._falls.get(number, Falls()).start_at(self._policy) for number in missing), default=None)

    def mend(self) -> None:
        """Start the missing proxies whose waiting time is over."""
        now = self._clock.monotonic()
        for number in range(self._wanted):
            if number in self._proxies or self._falls.get(number, Falls()).start_at(self._policy) > now:
                continue
            try:
                proxy = ProxyProcess(number, self._node, self._heard, self._gone)
            except OSError as error:
                self._fell(number, f"it could not be started: {error.strerror}")
                continue
            self._proxies[number], self._born[number] = proxy, now

    def kill(self) -> None:
        """End them all now."""
        self._wanted = 0
        for proxy in self:
            proxy.kill()

    def _gone(self, proxy: ProxyProcess) -> None:
        if self._proxies.get(proxy.number) is not proxy:
            return
        del self._proxies[proxy.number]
        if proxy.number < self._wanted:
            self._fell(proxy.number, "ended")
            self._tell("proxy.exited", f"proxy {proxy.number}", pid=proxy.pid)
            log.warning("proxy ended", extra={"proxy": proxy.number, "pid": proxy.pid})
        self._ended(proxy)

    def _fell(self, number: int, why: str) -> None:
        now = self._clock.monotonic()
        stood = timedelta(seconds=now - self._born.get(number, now))
        self._falls[number] = self._falls.get(number, Falls()).add(now, stood, why, self._policy)
