"""Reading from sockets without asking the system for memory each time.

`sock.recv(n)` makes room for n bytes before it knows how many there are; for large n that is two system calls and a
page fault for every read. All sockets of a process that reads in one thread can share one buffer instead.
"""

import socket

SIZE = 262_144
_buffer = memoryview(bytearray(SIZE))


def receive(sock: socket.socket) -> bytes:
    """The bytes that have come; empty if the other end is gone, for whatever reason. BlockingIOError if nothing has
    come."""
    try:
        count = sock.recv_into(_buffer)
    except (BlockingIOError, InterruptedError):
        raise
    except OSError:
        return b""
    return bytes(_buffer[:count])
