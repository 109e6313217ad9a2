"""The relay's process: `python -m rota.relay.process.main`. The agent starts it and talks to it over a channel."""

import argparse
import asyncio
import logging
import signal
import socket
from typing import TYPE_CHECKING, Any

import setproctitle

from rota.kit import collector
from rota.kit.text import loglines
from rota.kit.time.clock import SYSTEM
from rota.model.errors import RotaError
from rota.relay.process.lines import OPENING
from rota.relay.process.pipe import (
    AskRest,
    AskTallies,
    BeRelay,
    Fences,
    RelaysAre,
    Revoked,
    SenderGone,
    TakeLine,
    Tokens,
)
from rota.relay.process.shell import Shell
from rota.runtime.pipes.channel import Channel
from rota.runtime.pipes.child import GiveUp
from rota.runtime.system import kernel

if TYPE_CHECKING:
    from rota.relay.process.tls import RelayTls

log = logging.getLogger(__name__)


class RelayProgram:
    """The relay, its channel to the agent, and the door for other relays."""

    def __init__(self, control: socket.socket, door: socket.socket) -> None:
        self._control, self._door = control, door
        self._over = asyncio.Event()
        self._shell: Shell | None = None

    async def run(self) -> None:
        """Run the relay until the agent ends it, or is gone."""
        asyncio.get_running_loop().set_exception_handler(self._failed)
        async with asyncio.TaskGroup() as parts:
            self._parts = parts
            self._channel = Channel(self._control, self._heard, self._over.set, takes_fds=True)
            await self._over.wait()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
        if self._shell is not None:
            self._shell.close()
        self._channel.close()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback raised: end the process rather than continue with half of the work done."""
        log.error("relay failed", exc_info=context.get("exception"), extra={"what": context["message"]})
        self._over.set()

    def _heard(self, message: object) -> None:
        match message:
            case BeRelay():
                tls = self._tls(message.tls)
                self._shell = Shell(message, self._channel.send, self._parts, SYSTEM, SYSTEM.wall(), tls)
                self._parts.create_task(self._shell.run(), name="ticks")
                self._parts.create_task(self._admit(self._shell, tls), name="door")
            case GiveUp():
                self._over.set()
            case _ if self._shell is not None:
                self._obey(self._shell, message)

    def _obey(self, shell: Shell, message: object) -> None:
        match message:
            case TakeLine(sender=sender):
                shell.take_worker(sender, socket.socket(fileno=self._channel.fds.popleft()))
            case SenderGone(sender=sender):
                shell.sender_gone(sender)
            case RelaysAre():
                shell.follow(message)
            case Fences():
                shell.fence(message)
            case Revoked():
                shell.revoke(message)
            case Tokens():
                shell.admit(message)
            case AskTallies() | AskRest():
                self._channel.send(shell.answer(message))

    @staticmethod
    def _tls(folder: str) -> "RelayTls | None":
        """How it speaks TLS, if it does."""
        if not folder:
            return None
        from rota.relay.process.tls import RelayTls  # noqa: PLC0415  # what reads certificates is an extra

        return RelayTls(folder)

    async def _admit(self, shell: Shell, tls: "RelayTls | None") -> None:
        self._door.setblocking(False)
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(self._door)
            except OSError as error:  # out of descriptors, or it was gone at once
                log.warning("relay's door", extra={"why": str(error)})
                await asyncio.sleep(1)
                continue
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is None:
                shell.take_stranger(sock)
            else:
                self._parts.create_task(self._shake_hands(shell, tls, sock), name="handshake")

    async def _shake_hands(self, shell: Shell, tls: "RelayTls", sock: socket.socket) -> None:
        """Complete the TLS handshake with a relay that shows a certificate."""
        sock.setblocking(False)
        try:
            async with asyncio.timeout(OPENING):
                secured = await tls.answer(sock)
        except (OSError, TimeoutError, RotaError) as error:
            log.debug("relay refused", extra={"why": str(error)})
            return
        shell.take_stranger(secured, secured.certificate)


def main(argv: list[str] | None = None) -> None:
    """Be a relay."""
    parser = argparse.ArgumentParser(prog="rota.relay.process")
    for name in ("--control", "--lifeline", "--door"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--node", "--log-level", "--log-format"):
        parser.add_argument(name, required=True)
    options = parser.parse_args(argv)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the agent says when to end
    loglines.to_stderr(options.log_level, options.log_format)
    setproctitle.setproctitle(f"rota: relay of {options.node}")
    kernel.raise_descriptor_limit()
    kernel.die_with(options.lifeline)
    collector.look_rarely(collector.BUSY)
    asyncio.run(RelayProgram(socket.socket(fileno=options.control), socket.socket(fileno=options.door)).run())


if __name__ == "__main__":
    main()
