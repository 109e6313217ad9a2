"""Trials of services with real processes: helpers that tests and `make show-services` share."""

import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from tests.kit.boxes import Asker
from tests.kit.node import NodeUnderTest
from tests.kit.servers import free_port
from tests.kit.service_app import ECHO, WHO, service_app
from tests.kit.waiting import eventually

CLIENTS = 4
"""How many a crowd has."""


class Served(NodeUnderTest):
    """A node whose app has a service."""

    def __init__(
        self, folder: Path, *flags: object, options: str = "groups={1: 2}", portable: str = "", **more: object
    ) -> None:
        self.port = free_port()
        self.options, self.more = options, more
        app = service_app(self.port, options, **more)
        usual = ("--lease-ttl", "20s", "--drain", "4s", "--grace", "1s")
        super().__init__(folder, *usual, *flags, app=app, environ={"ROTA_PORTABLE": portable})

    def write(self, options: str = "", port: int = 0, **more: object) -> None:
        """Change the app's code."""
        self.app.write_text(service_app(port or self.port, options or self.options, **{**self.more, **more}))

    def client(self, *, udp: bool = False, within: float = 60.0) -> Asker:
        """A client of its service."""
        return Asker(self.port, udp=udp, within=within)

    def reload(self, options: str = "", port: int = 0, **more: object) -> None:
        """Change the app's code, and take it in."""
        self.write(options, port, **more)
        answer = self.rota("reload")
        assert answer.code == 0, answer.err

    def workers_that_answer(self, count: int) -> set[bytes]:
        """The pids of those who answer, if `count` clients ask at the same time."""
        with ExitStack() as stack:
            clients = [stack.enter_context(self.client()) for _ in range(count)]
            for client in clients:
                client.send(WHO)
            answers = [client.receive() for client in clients]
        assert {answer.ret for answer in answers} == {0}, answers
        return {answer.body.split()[1] for answer in answers}

    async def at_full_strength(self, count: int = 2) -> None:
        """Wait until `count` workers answer."""
        await eventually(lambda: len(self.workers_that_answer(count)) == count)


@asynccontextmanager
async def serving(folder: Path, *flags: object, **more: object) -> AsyncIterator[Served]:
    """A node that serves; none of its processes may be left in the end."""
    with Served(folder / "node", *flags, **more) as node:  # type: ignore[arg-type]  # passed through
        await node.ready()
        yield node
    await eventually(lambda: not node.leftovers())


class Crowd:
    """Clients that ask without pause, each its own connection, and count what becomes of it."""

    def __init__(self, port: int, *, udp: bool = False) -> None:
        self.rets: Counter[int] = Counter()
        self.lost = 0
        """Requests without an answer: the connection ended, or nothing came."""

        self.wrong = 0
        """Answers that were not to the last request: one too many, or to nobody."""

        self._port, self._udp = port, udp
        self._stop = threading.Event()
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """Answers so far."""
        return self.rets.total()

    def stop(self) -> None:
        """Ask no more."""
        self._stop.set()

    def run(self) -> None:
        """Be one of them; one that is told that the service stops asks no more."""
        with Asker(self._port, udp=self._udp, within=30) as client:
            while not self._stop.is_set():
                try:
                    answer = client.ask(ECHO, b"x")
                except (OSError, EOFError):
                    with self._lock:
                        self.lost += 1
                    return
                except AssertionError:
                    with self._lock:
                        self.wrong += 1
                    return
                with self._lock:
                    self.rets[answer.ret] += 1
                if answer.ret == -10006:
                    return


@contextmanager
def crowd(port: int, count: int = CLIENTS, *, udp: bool = False) -> Iterator[Crowd]:
    """So many clients that ask without pause until the end of the block."""
    found = Crowd(port, udp=udp)
    threads = [threading.Thread(target=found.run) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        found.stop()
        for thread in threads:
            thread.join()
