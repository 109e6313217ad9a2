"""The smallest apps for gunicorn (`wsgi`) and uvicorn (`asgi`); `PORT WORKERS` serves the second.

uvicorn's own way to several workers makes a listener for which asyncio does not set TCP_NODELAY, and every answer waits
40 ms for an acknowledgement. That says nothing about uvicorn, so the listener is made here.
"""

import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import uvicorn

BODY = b"x" * 100


def wsgi(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """Answer every request."""
    start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(BODY)))])
    return [BODY]


async def asgi(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[dict[str, Any]], Awaitable[None]]
) -> None:
    """Answer every request."""
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(BODY)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})


def serve(port: int, workers: int) -> None:
    """Answer in so many processes until killed."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.bind(("127.0.0.1", port))
    sock.listen(1024)
    for _ in range(workers - 1):
        if os.fork() == 0:
            break
    uvicorn.Server(uvicorn.Config(asgi, log_level="error", access_log=False, lifespan="off")).run([sock])


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
