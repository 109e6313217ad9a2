"""A worker: a child forked by the loader, or spawned, that does one sort of work.

`run` makes the process its own (group, lifeline, stack file, signals, title, random seeds), runs the app's
`on_worker_start` hooks, and hands over to the part for its role. It never returns: a fork must not run its parent's
code to the end.
"""

import faulthandler
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

import setproctitle

from rota.node import kernel
from rota.node.alone import be_alone
from rota.node.executor import be_executor
from rota.node.guard import Guard
from rota.node.host import be_host
from rota.node.pipes import Brief, Pipe, StartFailed
from rota.node.service import be_service_worker
from rota.node.stacks import SIGNAL
from rota.sdk.app import App

BODIES: dict[str, Callable[[App, Brief, socket.socket, Guard | None], None]] = {
    "executor": be_executor,
    "host": be_host,
    "task": be_alone,
}
"""What each role does, but for services, whose workers have a line; imported before the fork, which none pays for."""


def run(
    app: App, brief: Brief, sock: socket.socket, lifeline: int, stacks: int, line: socket.socket | None = None
) -> NoReturn:
    """Be the worker that `brief` describes; a service's has a line to its proxy."""
    code = 1
    try:
        guard = _settle_in(brief, lifeline, stacks)
        if _start(app, sock):
            if brief.role == "service":
                be_service_worker(app, brief, sock, guard, line)
            else:
                BODIES[brief.role](app, brief, sock, guard)
            code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # the last frame of this process; nobody above may see it
        traceback.print_exc()
    finally:
        _leave(code)


def _settle_in(brief: Brief, lifeline: int, stacks: int) -> Guard | None:
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    guard = _guarded(brief, lifeline)
    faulthandler.register(SIGNAL, file=stacks, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    setproctitle.setproctitle(f"rota: {brief.role} {brief.pool}/{brief.slot} g{brief.generation} of {brief.node}")
    # Python reseeds its own generator after a fork; numpy's global one would give every worker the same numbers.
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()
    return guard


def _guarded(brief: Brief, lifeline: int) -> Guard | None:
    """End with the agent: by the kernel, or by a guard where it cannot. Exclusive work has one in any case."""
    title = f"rota: guard {brief.pool}/{brief.slot} of {brief.node}"
    if kernel.is_portable():
        return Guard(title, lifeline)
    kernel.die_with(lifeline)
    is_exclusive = brief.order is not None and brief.order.is_exclusive
    return Guard(title, None) if is_exclusive else None


def _start(app: App, sock: socket.socket) -> bool:
    """Run the app's hooks; tell the agent if one failed."""
    for hook in app.worker_start_hooks:
        try:
            hook()
        except BaseException as error:
            traceback.print_exc()
            name = getattr(hook, "__name__", repr(hook))
            Pipe(sock).send(StartFailed(f"on_worker_start {name}: {type(error).__name__}: {error}"))
            return False
    return True


def _leave(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(code)
