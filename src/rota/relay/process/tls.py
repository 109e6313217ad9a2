"""TLS on the lines between relays: a secured connection with the face of a plain socket that does not block.

Both ends show a certificate. What the TLS library has decrypted is handed out to the last byte, because a socket is not
reported as readable for what lies in there.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from rota.fleet.access.certificates import Folder
from rota.kit.crypto.authority import Certificate, read_der


class Secured:
    """A connection that is encrypted, and whose other end has shown a certificate of our authority."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock
        self.certificate: Certificate = read_der(sock.getpeercert(binary_form=True) or b"")

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._sock.fileno()

    def setblocking(self, flag: bool) -> None:
        """As of a plain socket."""
        self._sock.setblocking(flag)

    def recv(self, size: int) -> bytes:
        """What has come, about `size` bytes of it; BlockingIOError if nothing has."""
        parts: list[bytes] = []
        room = size
        while room > 0 or self._sock.pending():
            try:
                part = self._sock.recv(65_536)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            if not part:
                return b"".join(parts)
            parts.append(part)
            room -= len(part)
        if not parts:
            raise BlockingIOError
        return b"".join(parts)

    def send(self, data: memoryview) -> int:
        """How many bytes were taken; BlockingIOError if there is no room."""
        try:
            return self._sock.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def close(self) -> None:
        """Let go of it without a word: what was not acked is sent again anyway."""
        self._sock.close()


class RelayTls:
    """How a relay speaks TLS, by the files in a folder; they are read for each connection."""

    def __init__(self, folder: str) -> None:
        self._folder = Folder(Path(folder))

    async def answer(self, sock: socket.socket) -> Secured:
        """A connection that came in, secured; OSError if the other end cannot be trusted."""
        context = self._folder.server_context(asks_back=True)
        return await _shake_hands(context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False))

    async def call(self, sock: socket.socket, host: str) -> Secured:
        """A connection to a host, secured; OSError if it cannot show that it is that host."""
        context = self._folder.client_context()
        return await _shake_hands(context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False))


async def _shake_hands(sock: ssl.SSLSocket) -> Secured:
    loop = asyncio.get_running_loop()
    try:
        while True:
            try:
                sock.do_handshake()
                return Secured(sock)
            except ssl.SSLWantReadError:
                await _until(sock, loop.add_reader, loop.remove_reader)
            except ssl.SSLWantWriteError:
                await _until(sock, loop.add_writer, loop.remove_writer)
    except BaseException:
        sock.close()
        raise


async def _until(sock: ssl.SSLSocket, add: Callable[..., object], remove: Callable[[ssl.SSLSocket], object]) -> None:
    """Wait until a socket can be read, or written."""
    ready = asyncio.Event()
    add(sock, ready.set)
    try:
        await ready.wait()
    finally:
        remove(sock)
