"""The loader: imports the app once and forks workers from it. `python -m rota.runtime.loader.main` is its own process.

It has no event loop, no Python thread, no gRPC and no database client, because a fork copies the one thread that forks,
and locks that other threads hold stay locked in the child. It waits on two things: messages of the agent, and the ends
of its children. Before it forks it looks for Python threads that the app's import left running, and refuses, naming
them. Native threads (numpy, pyarrow) are usually harmless; those that are not known to be are named in a warning.
`gc.freeze` keeps what was imported out of the collector's sight, so that children do not copy those pages by merely
collecting.

An app that cannot live with forks says `App(..., start="spawn")`: then this program is started once for each worker,
imports the app, and becomes the worker itself.
"""

import argparse
import contextlib
import gc
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import setproctitle

import rota
from rota.kit.faults import described, sendable
from rota.kit.text import loglines
from rota.model.errors import RotaError
from rota.runtime.loader import kept
from rota.runtime.pipes.brief import LIFELINE, PAGE, Brief
from rota.runtime.pipes.channel import Pipe
from rota.runtime.pipes.loader import (
    AskSources,
    Fork,
    Forked,
    ForkRefused,
    Leave,
    Loaded,
    LoadFailed,
    Reaped,
    SourcesAre,
)
from rota.runtime.system import enclosure, kernel
from rota.runtime.system.confine import Commands, Confinement, become_command, confine, confine_attempt
from rota.runtime.worker import main as worker
from rota.runtime.worker import roles
from rota.runtime.worker.warden import Warden
from rota.sdk.app import App
from rota.sdk.load import load

LONGEST = 100_000
"""Characters kept of the reason why an app cannot be imported."""

HARMLESS = frozenset({"jemalloc_bg_thd"})
"""Native threads of libraries that take care of forks themselves: jemalloc (pyarrow brings it) locks what it has before
a fork, and lets go of it and starts its thread anew afterwards."""

SHOWN = 5
"""Names of other native threads in a warning."""

VERSION = 100
"""Characters of a version."""

CHECK = 0.5
"""Seconds between two checks of the lifeline during an import, where the kernel does not watch it."""


def main(argv: list[str] | None = None) -> None:
    """Run a loader, or one spawned worker."""
    options = _options(argv)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is for the agent
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # what workers print is seen as it comes
    loglines.to_stderr(options.log_level, options.log_format)
    setproctitle.setproctitle(f"rota: loader {options.generation} of {options.node}")
    if kernel.is_portable():
        _look_at(options.lifeline)
    else:
        kernel.die_with(options.lifeline)
    roles.import_all()
    pipe = Pipe(socket.socket(fileno=options.control))
    confinement = msgspec.json.decode(options.confinement, type=Confinement)
    bounds = _Bounds(confinement, msgspec.json.decode(options.commands, type=Commands))
    folders = _Folders(_folder(options.letters), _folder(options.printed))
    brief = None if options.brief is None else _brief(options.brief)
    enclosure.enter(options.cgroup, enclosure.LOADER if brief is None else _leaf(brief))
    confine(confinement)
    target, used = options.app, None
    if options.sources is not None:
        with open(options.sources, "rb") as file:
            used = kept.unpacked(file.read())
            target = kept.use(used)
    app = _imported(target, pipe)
    if brief is not None:
        _become(app, pipe, brief, options, bounds, folders)
    warnings = _warnings()
    roles.prepare(app)
    sources = kept.collect(target, used)
    pipe.send(Loaded(app.summary(), kept.digest(sources), warnings, _version(target)))
    packed = kept.packed(sources)
    del sources
    gc.collect()
    gc.freeze()
    _serve(app, pipe, options, bounds, folders, packed)


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rota.runtime.loader.main")
    for name in ("--control", "--lifeline", "--generation"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--app", "--node"):
        parser.add_argument(name, required=True)
    parser.add_argument("--confinement", default="{}")
    parser.add_argument("--commands", default="{}", help="how commands run that came over the API")
    parser.add_argument("--letters", help="the folder of dead letters, to be opened before anything is given up")
    parser.add_argument("--printed", help="the folder of printed lines, likewise")
    parser.add_argument("--cgroup", default="", help="the folder of this generation's cgroups, if it has any")
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--log-format", default="text")
    parser.add_argument("--sources", type=int, help="a file with the app's modules, in place of what is on disk")
    parser.add_argument("--stacks", type=int, help="with --brief: where stacks are written")
    parser.add_argument("--extra", type=int, action="append", default=[], help="with --brief: what else it needs")
    parser.add_argument("--brief", type=int, help="a file that says which worker to become, instead of serving forks")
    return parser.parse_args(argv)


def _look_at(lifeline: int) -> None:
    """Check periodically whether the agent lives, from a signal handler: a thread would make forking unsafe."""

    def look(*_: object) -> None:
        if kernel.has_hung_up(lifeline):
            os.killpg(os.getpgrp(), signal.SIGKILL)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, CHECK, CHECK)


def _imported(target: str, pipe: Pipe) -> App:
    """The app; if it cannot be imported, report the reason and end."""
    try:
        app = load(target)
    except SystemExit as error:
        pipe.send(LoadFailed(sendable(f"its import called sys.exit({error.code!r})")))
    except RotaError as error:  # a wrong declaration, or no app: the message explains it, so the place is enough
        pipe.send(LoadFailed(sendable(str(error), LONGEST), sendable(_place(error), LONGEST)))
    except BaseException as error:  # whatever users' code raises is shown to them whole
        pipe.send(LoadFailed(described(error, LONGEST), sendable(_traceback(error), LONGEST)))
    else:
        return app
    sys.exit(1)


def _place(error: BaseException) -> str:
    """The line of the user's code that an error comes from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    return "".join(traceback.format_list(frames[-1:]))


def _traceback(error: BaseException) -> str:
    """The traceback, beginning with the user's code."""
    shown = traceback.TracebackException.from_exception(error)
    while shown.stack and _is_ours(shown.stack[0].filename):
        shown.stack.pop(0)
    return "".join(shown.format())


def _is_ours(file: str) -> bool:
    """Does this frame belong to Rota, or to Python's import?"""
    return file.startswith("<frozen") or Path(file).is_relative_to(Path(rota.__file__).parent)


class _Bounds(NamedTuple):
    """The limits and the user of workers, beyond those of the loader."""

    app: Confinement
    commands: Commands

    def confine(self, brief: Brief) -> None:
        """Confine this process, which is to become the worker of the brief."""
        if brief.attempt is not None:
            confine_attempt(self.app)
            if brief.attempt.is_from_api and brief.attempt.argv:
                become_command(self.commands)


class _Folders(NamedTuple):
    """Folders of the node's data that the app's user cannot reach by their paths, opened before it is that user."""

    letters: int | None
    printed: int | None

    def handed_to(self, brief: Brief) -> Brief:
        """The brief for a worker that may use these folders."""
        return msgspec.structs.replace(brief, letters_at=self.letters, printed_at=self.printed)


def _folder(path: str | None) -> int | None:
    return None if path is None else os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def _brief(fd: int) -> Brief:
    """The brief of a spawned worker."""
    with open(fd, "rb") as file:
        return msgspec.json.decode(file.read(), type=Brief)


def _leaf(brief: Brief) -> str:
    """The cgroup of a worker. To enter one takes milliseconds, so attempts stay in their loader's."""
    return enclosure.LOADER if brief.attempt is not None else enclosure.leaf(brief.worker)


def _become(
    app: App, pipe: Pipe, brief: Brief, options: argparse.Namespace, bounds: _Bounds, folders: _Folders
) -> None:
    """Become the worker of a spawned process; does not return."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    brief = folders.handed_to(brief)
    bounds.confine(brief)
    worker.run(app, brief, pipe.sock, options.lifeline, options.stacks, options.extra)


def _serve(
    app: App, pipe: Pipe, options: argparse.Namespace, bounds: _Bounds, folders: _Folders, sources: bytes
) -> None:
    """Fork and reap, until the agent asks it to leave or is gone."""
    wake, woken = os.pipe()
    own = (wake, woken, options.lifeline)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    wardens = _Wardens()
    while True:
        ready, _, _ = select.select([pipe.sock.fileno(), wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            _reap(pipe, wardens)
        if pipe.sock.fileno() in ready:
            if not pipe.read():
                return
            for message in pipe.ready():
                match message:
                    case Fork(brief=brief, extras=extras):
                        brief = folders.handed_to(brief)
                        _fork(app, pipe, brief, extras, own, wardens, bounds, options.cgroup)
                    case AskSources(number=number):
                        pipe.send(SourcesAre(number, sources))
                    case Leave():
                        return


class _Wardens:
    """The warden of this loader, if there is one: it is forked for the first attempt, and anew when it has ended."""

    def __init__(self) -> None:
        self._warden: Warden | None = None

    def need(self, brief: Brief, extras: Sequence[int]) -> Warden | None:
        """The warden that watches this worker; None if it is not an attempt's, or if there can be no warden."""
        if brief.attempt is None or kernel.is_portable():
            return None
        if self._warden is None:
            with contextlib.suppress(OSError):
                title = f"rota: warden g{brief.generation} of {brief.node}"
                self._warden = Warden(title, extras[PAGE], extras[LIFELINE])
        return self._warden

    def reaped(self, pid: int) -> None:
        """A child has ended."""
        if self._warden is not None and self._warden.pid == pid:
            self.leave()

    def leave(self) -> None:
        """Close the line to the warden."""
        if self._warden is not None:
            self._warden.close()
            self._warden = None


def _fork(
    app: App,
    pipe: Pipe,
    brief: Brief,
    count: int,
    own: tuple[int, ...],
    wardens: _Wardens,
    bounds: _Bounds,
    cgroup: str,
) -> None:
    channel, lifeline, stacks, *extras = (pipe.fds.popleft() for _ in range(3 + count))
    if threads := _threads():
        pipe.send(ForkRefused(brief.worker, threads))
        _close(channel, lifeline, stacks, *extras)
        return
    warden = wardens.need(brief, extras)
    try:
        pid = kernel.fork()
    except OSError as error:
        pipe.send(ForkRefused(brief.worker, f"the system refused to fork: {error.strerror}"))
        _close(channel, lifeline, stacks, *extras)
        return
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0)
        pipe.close()
        _close(*own)
        if warden is None:
            wardens.leave()  # it must notice its loader's end, whichever processes live on
        if brief.attempt is None:
            enclosure.enter(cgroup, _leaf(brief))
        bounds.confine(brief)
        worker.run(app, brief, socket.socket(fileno=channel), lifeline, stacks, extras, warden)
    if brief.attempt is None:  # a run's worker starts a session of its own, which the leader of a group cannot do
        _own_group(pid)
    _close(channel, lifeline, stacks, *extras)
    pipe.send(Forked(brief.worker, pid))


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


def _own_group(pid: int) -> None:
    """Give the child its process group, in case it has not got to do so itself."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpgid(pid, pid)


def _reap(pipe: Pipe, wardens: _Wardens) -> None:
    for ended in kernel.ended_children():
        wardens.reaped(ended.pid)
        pipe.send(Reaped(*ended))


def _threads() -> str:
    """Why forking is not safe; empty if it is."""
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    if not others:
        return ""
    names = ", ".join(f'"{thread.name}" ({_maker(thread)})' for thread in others)
    return (
        f"the app's import left threads running: {names}; start them in @app.on_worker_start, or use "
        'App(..., start="spawn")'
    )


def _maker(thread: threading.Thread) -> str:
    """The module whose code a thread runs."""
    target = getattr(thread, "_target", None)
    return getattr(target, "__module__", None) or type(thread).__module__


def _warnings() -> tuple[str, ...]:
    names = [name for name in kernel.native_threads() if name not in HARMLESS]
    if not names:
        return ()
    shown = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in Counter(names).most_common(SHOWN))
    return (
        f"native threads are running after the import: {shown}; workers are forked without them, and a lock that one "
        'of them holds then stays locked; if workers hang, use App(..., start="spawn")',
    )


def _version(target: str) -> str:
    """The `__version__` of the module that the app is in, or of the package above it; empty if there is none."""
    name = target.partition(":")[0]
    module = Path(name).stem if name.endswith(".py") else name
    for each in (module, module.partition(".")[0]):
        if isinstance(version := getattr(sys.modules.get(each), "__version__", None), str):
            return sendable(version, VERSION)
    return ""


if __name__ == "__main__":
    main()
