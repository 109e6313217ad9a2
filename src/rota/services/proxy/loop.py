"""The proxy's loop: which sockets are ready, and who is told.

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
    """Sockets, and whom to tell when they are ready."""

    def __init__(self) -> None:
        self._handlers: dict[int, Ready] = {}
        self.room = kernel.descriptor_limit() * 7 // 8
        """Descriptors that clients may have: what the agent hands over must always find one."""

        self._poll: select.epoll | select.poll
        if kernel.is_portable() or not hasattr(select, "epoll"):
            self._poll, self._unit = select.poll(), 1000.0
        else:
            self._poll, self._unit = select.epoll(), 1.0

    def add(self, fd: int, ready: Ready, events: int = READ) -> None:
        """Tell `ready` when something can be done with a descriptor."""
        self._handlers[fd] = ready
        self._poll.register(fd, events)

    def change(self, fd: int, events: int) -> None:
        """Be told of other things."""
        self._poll.modify(fd, events)

    def remove(self, fd: int) -> None:
        """Forget a descriptor; nothing if it is not known."""
        if self._handlers.pop(fd, None):
            self._poll.unregister(fd)

    def wait(self, seconds: float) -> list[tuple[int, int]]:
        """What can be done with which descriptors, after at most so many seconds."""
        return self._poll.poll(seconds * self._unit)

    def tell(self, events: list[tuple[int, int]]) -> None:
        """Tell those whom it concerns. Who is removed meanwhile is not told."""
        handlers = self._handlers
        for fd, event in events:
            if ready := handlers.get(fd):
                ready(event)
