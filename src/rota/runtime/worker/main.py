"""A worker: a child forked by the loader, or spawned, that does one sort of work.

`run` makes the process its own (group, lifeline, stack file, signals, title, random seeds), runs the app's
`on_worker_start` hooks, and hands over to the body of its role (`runtime.worker.roles`). It never returns: a fork must
not run its parent's code to the end.
"""

import faulthandler
import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import setproctitle

from rota.kit.faults import described, sendable
from rota.runtime.pipes.brief import PAGE, Brief
from rota.runtime.pipes.channel import Pipe
from rota.runtime.pipes.worker import StartFailed
from rota.runtime.printed import WORKER_LINES, Printed
from rota.runtime.system import kernel
from rota.runtime.worker.guard import DeadlinePage, WorkerGuard
from rota.runtime.worker.roles import Setup, WorkerRole, named, role_of
from rota.runtime.worker.stacks import SIGNAL
from rota.runtime.worker.tee import About, LineBuffer, install
from rota.runtime.worker.warden import Warden
from rota.sdk.app import App


def run(
    app: App,
    brief: Brief,
    sock: socket.socket,
    lifeline: int,
    stacks: int,
    extras: Sequence[int] = (),
    warden: Warden | None = None,
) -> NoReturn:
    """Be the worker that `brief` describes; `extras` are the descriptors that its role needs besides the usual ones."""
    code, keeper = 1, None
    try:
        role = role_of(brief)
        guard = _settle_in(brief, role, lifeline, stacks, extras, warden)
        if brief.printed and role.keeps_lines:
            work = named(role.about)(brief) if role.about else About(WORKER_LINES, brief.pool)
            keeper = LineBuffer(Printed(Path(brief.printed), brief.printed_at), work)
            install(keeper)
        if not role.has_hooks or _start(app, sock):
            named(role.body)(app, Setup(brief, sock, guard, extras))
            code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # the last frame of this process; an exception must not reach the forked loader's code
        traceback.print_exc()
    finally:
        if keeper is not None:
            keeper.end()
        _leave(code)


def _settle_in(
    brief: Brief, role: WorkerRole, lifeline: int, stacks: int, extras: Sequence[int], warden: Warden | None
) -> WorkerGuard | None:
    if brief.attempt is not None:
        _own_session()
    elif os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    guard = _guarded(brief, role, lifeline, extras, warden)
    faulthandler.register(SIGNAL, file=stacks, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    setproctitle.setproctitle(f"rota: {brief.role} {brief.pool}/{brief.slot} g{brief.generation} of {brief.node}")
    # Python reseeds its own generator after a fork; numpy's global one would give every worker the same numbers.
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()
    return guard


def _own_session() -> None:
    """Start a session, so that nothing this process starts leaves it unseen; a spawned worker has its own already."""
    if os.getsid(0) != os.getpid():
        os.setsid()


def _guarded(
    brief: Brief, role: WorkerRole, lifeline: int, extras: Sequence[int], warden: Warden | None
) -> WorkerGuard | None:
    """End with the agent: by the kernel, or by a guard where the kernel cannot. Work under the lease always has a
    guard, or is watched by a warden."""
    title = f"rota: guard {brief.pool}/{brief.slot} of {brief.node}"
    is_program = brief.attempt is not None and bool(brief.attempt.argv)
    if role.has_page and extras:
        if not kernel.is_portable():
            kernel.die_with(lifeline)
        if warden is not None and warden.enrol():
            return None
        # A program may close all descriptors it does not know, including the lifeline; the guard still has it then.
        watches_lifeline = is_program or kernel.is_portable()
        return WorkerGuard(
            title, lifeline if watches_lifeline else None, DeadlinePage.of(extras[PAGE]), outlives_exec=is_program
        )
    if kernel.is_portable():
        return WorkerGuard(title, lifeline)
    kernel.die_with(lifeline)
    is_exclusive = brief.order is not None and brief.order.is_exclusive
    return WorkerGuard(title, None) if is_exclusive else None


def _start(app: App, sock: socket.socket) -> bool:
    """Run the app's start hooks; report to the agent if one failed."""
    for hook in app.worker_start_hooks:
        try:
            hook()
        except BaseException as error:
            traceback.print_exc()
            name = getattr(hook, "__name__", repr(hook))
            Pipe(sock).send(StartFailed(sendable(f"on_worker_start {name}: {described(error)}")))
            return False
    return True


def _leave(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(code)
