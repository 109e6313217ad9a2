"""The agent's end of a worker of runs: the orders it was given, and the pipe that its output and answers come by.

Orders wait in the kernel, in a socket of which the agent holds both ends. Each is taken by exactly one: by the worker,
which then runs it, or by the agent, which may then give it to another. No stuck worker has to be asked.

Output is read as fast as it comes, up to a rate; beyond it the pipe is not read for a moment, and only the worker that
floods it waits.
"""

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from rota.jobs.node.output import AttemptAnswer, Cutter

READ = 64 * 1024
ALLOWANCE = 4 * 1024 * 1024
"""Bytes that one worker may write between two allowances; there are at least ten allowances a second."""

A = TypeVar("A")


class Tap:
    """Reads one worker's pipe. `heard` is called for each piece of output and each answer, in order."""

    def __init__(self, fd: int, mark: bytes, heard: Callable[[bytes | AttemptAnswer], None]) -> None:
        os.set_blocking(fd, False)
        self._fd: int | None = fd
        self._cutter, self._heard = Cutter(mark), heard
        self._left = ALLOWANCE
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(fd, self._read)
        self._is_read = True

    def allow(self) -> None:
        """Grant the worker a new allowance."""
        self._left = ALLOWANCE
        if self._fd is not None and not self._is_read:
            self._loop.add_reader(self._fd, self._read)
            self._is_read = True

    def catch_up(self) -> None:
        """Read what has been written so far; the pipe holds no more than a few pieces."""
        for _ in range(4):
            if not self._take_in():
                return

    def close(self) -> None:
        """Read what is left, and close the pipe."""
        self.catch_up()
        if rest := self._cutter.end():
            self._heard(rest)
        self._end()

    def _read(self) -> None:
        if self._take_in() is False:
            self._end()
        elif self._left <= 0 and self._fd is not None:
            self._loop.remove_reader(self._fd)
            self._is_read = False

    def _take_in(self) -> bool | None:
        """Read one piece; None if nothing is there, False if nothing will come any more."""
        if self._fd is None:
            return False
        try:
            data = os.read(self._fd, READ)
        except BlockingIOError:
            return None
        self._left -= len(data)
        for piece in self._cutter.feed(data):
            self._heard(piece)
        return bool(data)

    def _end(self) -> None:
        if self._fd is not None:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None


class Orders:
    """Orders on their way to one executor."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)

    def fileno(self) -> int:
        """The end that the executor reads."""
        return self._theirs.fileno()

    def send(self, order: bytes) -> bool:
        """Add an order; False if there is no room now."""
        try:
            self._ours.send(order)
        except (BlockingIOError, ConnectionError):
            return False
        return True

    def take_back(self) -> int:
        """Take out the orders that the executor has not taken, which are the last ones added; returns how many."""
        count = 0
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while self._theirs.recv(1, socket.MSG_DONTWAIT):
                count += 1
        return count

    def finish(self) -> None:
        """Close the queue: there are no more orders."""
        with contextlib.suppress(BlockingIOError, OSError):
            self._ours.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close both ends."""
        self._ours.close()
        self._theirs.close()


class ExecutorSeat(Generic[A]):
    """A worker of runs, and the attempts that it holds: the first runs, the others wait behind it."""

    def __init__(self, worker: int, orders: Orders | None) -> None:
        self.worker, self.orders = worker, orders
        self.held: deque[A] = deque()
        self.tap: Tap | None = None

    def give(self, attempt: A, order: bytes) -> bool:
        """Give it one more attempt; False if that is not possible."""
        assert self.orders is not None
        if not self.orders.send(order):
            return False
        self.held.append(attempt)
        return True

    def take_back(self) -> list[A]:
        """Take back the attempts that it had not begun, and certainly will not."""
        count = self.orders.take_back() if self.orders is not None else 0
        taken = [self.held.pop() for _ in range(count)]
        return taken[::-1]

    def close(self) -> None:
        """Close everything that belongs to it."""
        if self.tap is not None:
            self.tap.close()
        if self.orders is not None:
            self.orders.close()
