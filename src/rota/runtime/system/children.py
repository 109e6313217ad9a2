"""The processes that the agent starts itself: loaders, proxies and the relay.

`start` starts one with its control channel and its lifeline. `ChildProcess` is the agent's side of it: it sends
messages, waits for answers, and reports the process's end once, whether it is killed or its channel closes.
"""

import asyncio
import itertools
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from rota.model.errors import Unavailable
from rota.runtime.pipes.channel import Channel, PipeMessage, pair
from rota.runtime.system import kernel
from rota.runtime.system.confine import cleaned

ANSWER = 5.0
"""Seconds a process may take to answer a question."""


def start(
    module: str,
    control: int,
    flags: Iterable[str],
    fds: Iterable[int] = (),
    *,
    env: Mapping[str, str] | None = None,
    own_session: bool = False,
) -> tuple[kernel.ProcessHandle, int]:
    """A new process that runs a module: its handle, and the agent's end of its lifeline.

    It gets its end of the control channel, its lifeline, and the other descriptors under the numbers they have here.
    Without `env` it gets the agent's environment but none of Rota's settings, and so no password of the store.
    """
    theirs, ours = os.pipe()
    argv = [sys.executable, "-P", "-m", module, f"--control={control}", f"--lifeline={theirs}", *flags]
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            pass_fds=[control, theirs, *fds],
            env=cleaned(os.environ) if env is None else env,
            process_group=None if own_session else 0,
            start_new_session=own_session,
        )
        kernel.tie(process.pid, theirs)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    process.returncode = 0  # the agent reaps all its children itself
    return kernel.ProcessHandle(process.pid), ours


class Numbered(Protocol):
    """An answer, with the number of its question."""

    @property
    def number(self) -> int:
        """The number that `ChildProcess.ask` gave to the question."""


Answer = TypeVar("Answer", bound=Numbered)


class ChildProcess(ABC, Generic[Answer]):
    """The agent's side of one process, which counts as alive until it is killed or its channel closes."""

    def __init__(self, name: str, start: Callable[[int], tuple[kernel.ProcessHandle, int]]) -> None:
        """`start` starts the process, given its end of the control channel; its errors pass through."""
        self.is_alive = True
        self._name = name
        self._asked: dict[int, asyncio.Future[Answer]] = {}
        self._numbers = itertools.count(1)
        mine, theirs = pair()
        with theirs:
            try:
                self.handle, self._lifeline = start(theirs.fileno())
            except BaseException:
                mine.close()
                raise
        self._channel = Channel(mine, self._hear, self._lost)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.handle.pid

    def send(self, message: PipeMessage, fds: list[int] | None = None) -> None:
        """Send a message; does nothing if the process is gone. Descriptors are closed here."""
        self._channel.send(message, fds)

    async def ask(self, question: Callable[[int], PipeMessage], within: float | None = None) -> Answer:
        """The answer to the question made from its number; Unavailable if it takes longer than `within` or `ANSWER`."""
        number, seconds = next(self._numbers), ANSWER if within is None else within
        self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self.send(question(number))
            async with asyncio.timeout(seconds):
                return await self._asked[number]
        except TimeoutError:
            raise Unavailable(f"{self._name} did not answer within {seconds:g} s; is it busy or frozen?") from None
        finally:
            del self._asked[number]

    def kill(self) -> None:
        """End it now."""
        self.handle.kill()
        self._lost()

    @abstractmethod
    def _hear(self, message: Any) -> None:
        """The process sent a message."""

    @abstractmethod
    def _ended(self) -> None:
        """The process is gone; called once, when the channel and the lifeline are closed."""

    def _answered(self, answer: Answer) -> None:
        """Pass an answer to the caller that waits for it; does nothing if no caller waits any more."""
        if (asked := self._asked.get(answer.number)) and not asked.done():
            asked.set_result(answer)

    def _lost(self) -> None:
        if not self.is_alive:
            return
        self.is_alive = False
        self._channel.close()
        os.close(self._lifeline)  # kills the process if it only closed its end
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(Unavailable(f"{self._name} ended before it answered; ask again"))
        self._ended()
