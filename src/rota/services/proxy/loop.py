"""The proxy's loop: which sockets are ready, and the callbacks to call for them.

A thin cover over the system's poll. On Linux it costs the same however many connections are idle; elsewhere it is the
plain one, which every system has, and whose events have the same numbers.
"""

import select
from collections.abc import Callable

from rota.runtime.system import kernel

READ = select.POLLIN
WRITE = select.POLLOUT
NOTHING = 0
"""No events but the end of a connection in both directions, or its failure: poll reports these always."""

Ready = Callable[[int], None]


class Loop:
    """Sockets, and the callback to call when each is ready."""

    def __init__(self) -> None:
        self._handlers: dict[int, Ready] = {}
        self.room = kernel.descriptor_limit() * 7 // 8
        """Descriptors that clients may use; the rest are kept for those that the agent hands over."""

        self._poll: select.epoll | select.poll
        if kernel.is_portable() or not hasattr(select, "epoll"):
            self._poll, self._unit = select.poll(), 1000.0
        else:
            self._poll, self._unit = select.epoll(), 1.0

    def add(self, fd: int, ready: Ready, events: int = READ) -> None:
        """Call `ready` when a descriptor has one of these events."""
        self._handlers[fd] = ready
        self._poll.register(fd, events)

    def change(self, fd: int, events: int) -> None:
        """Watch a descriptor for other events."""
        self._poll.modify(fd, events)

    def remove(self, fd: int) -> None:
        """Forget a descriptor; does nothing if it is unknown."""
        if self._handlers.pop(fd, None):
            self._poll.unregister(fd)

    def wait(self, seconds: float) -> list[tuple[int, int]]:
        """The descriptors that are ready and their events, after at most this many seconds."""
        return self._poll.poll(seconds * self._unit)

    def notify(self, events: list[tuple[int, int]]) -> None:
        """Call the callbacks of these events. A descriptor removed meanwhile gets no call."""
        handlers = self._handlers
        for fd, event in events:
            if ready := handlers.get(fd):
                ready(event)
