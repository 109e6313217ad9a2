"""An executor: a warm worker that runs one attempt of a job after another; it asks sources for their lists, too.

The job's function has the main thread; another thread listens, so that "take nothing new" is heard while it works.
Interrupting is not its business: the agent ends the whole process group.
"""

import asyncio
import logging
import queue
import signal
import socket
import threading

import msgspec

from rota.model.errors import Invalid
from rota.node.guard import Guard
from rota.node.pipes import Attempt, AttemptEnded, Beat, Brief, Finish, Pipe, Registered
from rota.sdk.app import App
from rota.workloads.jobs.run import run_attempt
from rota.workloads.resources.listing import collect
from rota.workloads.resources.spec import Resource

log = logging.getLogger(__name__)

LONGEST_LIST = 16 * 1024 * 1024
"""Bytes of what a source may list, as JSON."""


def be_executor(app: App, brief: Brief, sock: socket.socket, guard: Guard | None) -> None:
    """Run attempts until told to finish, or until the agent is gone."""
    pipe = Pipe(sock)
    waiting: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()
    signal.signal(signal.SIGTERM, lambda *_: waiting.put(None))
    threading.Thread(target=_listen, args=(pipe, waiting), name="rota", daemon=True).start()
    pipe.send(Registered())
    done = 0
    while (attempt := waiting.get()) is not None:
        ended = _try(app, attempt)
        done += 1
        pipe.send(Beat(done))
        pipe.send(ended)


def _try(app: App, attempt: Attempt) -> AttemptEnded:
    if not attempt.source:
        return AttemptEnded(attempt.run, attempt.attempt, run_attempt(app, attempt))
    try:
        result = ask_source(app, attempt.source)
    except Invalid as error:
        return AttemptEnded(attempt.run, attempt.attempt, str(error))
    except (SystemExit, asyncio.CancelledError) as error:
        return AttemptEnded(attempt.run, attempt.attempt, f"it raised {type(error).__name__}")
    except Exception as error:
        log.exception("source failed", extra={"kind": attempt.source})
        return AttemptEnded(attempt.run, attempt.attempt, f"{type(error).__name__}: {error}")
    return AttemptEnded(attempt.run, attempt.attempt, result=result)


def ask_source(app: App, name: str) -> bytes:
    """The resources that the source of a kind lists, as JSON; whatever it raises comes through."""
    kind = app.resources.get(name)
    if kind is None or kind.own_source is None:
        raise Invalid(f'the app has no source of resource "{name}"')
    size = 0

    def accept(item: object) -> Resource:
        # Looked at item by item: a source that never ends must not fill the memory until its time is up.
        nonlocal size
        resource = kind.listed(item)
        size += len(msgspec.json.encode(resource))
        if size > LONGEST_LIST:
            raise Invalid(f'source of resource "{name}": it lists more than {LONGEST_LIST} bytes; list less')
        return resource

    return msgspec.json.encode(asyncio.run(collect(kind.own_source.function, accept, name)))


def _listen(pipe: Pipe, waiting: "queue.SimpleQueue[Attempt | None]") -> None:
    while True:
        match pipe.receive():
            case Attempt() as attempt:
                waiting.put(attempt)
            case None | Finish():
                waiting.put(None)
                return
