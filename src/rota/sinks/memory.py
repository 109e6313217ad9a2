"""A sink in memory: `memory://name[?window=4096]`.

A complete adapter for tests, the tutorial and the simulator. `broker(name)` is the server behind the URL: it keeps what
arrived, can be stopped and started, and can reject. Messages arrive in one turn of the event loop and are confirmed in
the next, so a broker stopped in between has messages that were never confirmed, as real ones do.
"""

import asyncio
from collections.abc import Callable, Sequence

from rota.model.errors import Unavailable
from rota.sinks.intake import Intake
from rota.sinks.port import Message, Outcomes
from rota.sinks.url import Options, SinkUrl
from rota.sinks.window import ShardWindow

ALL = 1 << 62


class MemoryBroker:
    """What stands behind a name."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        """What arrived, repeats and all."""
        self.is_up = True
        self.objection: Callable[[Message], str | None] = lambda message: None
        """Why a message is rejected, or None."""
        self.sinks: set[MemorySink] = set()

    def stop(self) -> None:
        """Take nothing and confirm nothing more; what arrived stays."""
        self.is_up = False
        for sink in self.sinks:
            sink.broke()

    def start(self) -> None:
        """Take messages again."""
        self.is_up = True
        for sink in self.sinks:
            sink.works()


_BROKERS: dict[str, MemoryBroker] = {}


def broker(name: str) -> MemoryBroker:
    """The broker of that name, made when it is first asked for."""
    return _BROKERS.setdefault(name, MemoryBroker())


async def open(url: SinkUrl, outcomes: Outcomes) -> "MemorySink":
    """A sink on the broker that the URL names."""
    options = Options(url)
    intake = Intake(str(url), options.window(), outcomes)
    options.done()
    return MemorySink(broker(",".join(url.hosts)), intake)


class MemorySink:
    """One client of a broker."""

    def __init__(self, broker: MemoryBroker, intake: Intake) -> None:
        self._broker, self._intake = broker, intake
        self._window = ShardWindow()
        self._next: asyncio.Handle | None = None
        broker.sinks.add(self)
        if not broker.is_up:
            self.broke()

    @property
    def trouble(self) -> str | None:
        return self._intake.trouble

    async def publish(self, messages: Sequence[Message]) -> None:
        await self._intake.admit(len(messages))
        for message in messages:
            self._window.add(message)
        self._go_on()

    async def flush(self) -> None:
        await self._intake.emptied()

    async def close(self) -> None:
        self._intake.close()
        self._broker.sinks.discard(self)
        self._stand_still()

    def broke(self) -> None:
        """The broker is gone, and with it the confirmations it had not sent."""
        self._stand_still()
        self._window.restart()
        self._intake.troubled(Unavailable("the broker was stopped"))

    def works(self) -> None:
        """The broker is back."""
        self._intake.troubled(None)
        self._go_on()

    def _go_on(self) -> None:
        if self._next is None and self._broker.is_up:
            self._next = asyncio.get_running_loop().call_soon(self._send)

    def _stand_still(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _send(self) -> None:
        for number, message in enumerate(self._window.send(ALL), self._window.oldest):
            if why := self._broker.objection(message):
                self._window.reject(number)
                self._intake.rejected(message, why)
            else:
                self._broker.messages.append(message)
        self._next = asyncio.get_running_loop().call_soon(self._confirm)

    def _confirm(self) -> None:
        self._next = None
        self._intake.confirmed(self._window.confirm_all())
        self._intake.remain(len(self._window))
        if self._window.has_unsent:
            self._go_on()
