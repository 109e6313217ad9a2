"""A service worker: started, its hooks run, and idle.

Requests reach it through the proxy, which is not written yet; what stands here is its life.
"""

import logging
import signal
import socket

from rota.node.guard import Guard
from rota.node.pipes import Brief, Finish, Pipe, Registered
from rota.sdk.app import App

log = logging.getLogger(__name__)


def be_service_worker(app: App, brief: Brief, sock: socket.socket, guard: Guard | None) -> None:
    """Stand ready until told to finish, or until the agent is gone."""
    pipe = Pipe(sock)
    signal.signal(signal.SIGTERM, lambda *_: sock.shutdown(socket.SHUT_RD))
    pipe.send(Registered())
    while True:
        match pipe.receive():
            case None | Finish():
                return
