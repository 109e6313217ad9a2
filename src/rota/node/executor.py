"""An executor: a warm worker that runs one attempt of a job after another.

The job's function has the main thread; another thread listens, so that "take nothing new" is heard while it works.
Interrupting is not its business: the agent ends the whole process group.
"""

import queue
import signal
import socket
import threading

from rota.node.guard import Guard
from rota.node.pipes import Attempt, AttemptEnded, Beat, Brief, Finish, Pipe, Registered
from rota.sdk.app import App
from rota.workloads.jobs.run import run_attempt


def be_executor(app: App, brief: Brief, sock: socket.socket, guard: Guard | None) -> None:
    """Run attempts until told to finish, or until the agent is gone."""
    pipe = Pipe(sock)
    waiting: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()
    signal.signal(signal.SIGTERM, lambda *_: waiting.put(None))
    threading.Thread(target=_listen, args=(pipe, waiting), name="rota", daemon=True).start()
    pipe.send(Registered())
    done = 0
    while (attempt := waiting.get()) is not None:
        error = run_attempt(app, attempt)
        done += 1
        pipe.send(Beat(done))
        pipe.send(AttemptEnded(attempt.run, attempt.attempt, error))


def _listen(pipe: Pipe, waiting: "queue.SimpleQueue[Attempt | None]") -> None:
    while True:
        match pipe.receive():
            case Attempt() as attempt:
                waiting.put(attempt)
            case None | Finish():
                waiting.put(None)
                return
