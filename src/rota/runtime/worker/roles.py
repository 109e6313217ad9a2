"""Roles: what each sort of worker does, by the names of the functions that do it.

The loader imports all of them before it forks (`import_all`), so that no worker pays for it. They are named, not
imported, so that the code which starts workers depends on no kind of work.
"""

import socket
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import msgspec

from rota.runtime.pipes.brief import Brief
from rota.runtime.worker.guard import WorkerGuard
from rota.sdk.app import App

PROGRAM = "program"
"""The role of a worker that gives its process to a program; its brief says `run`, as of any attempt."""


class Setup(NamedTuple):
    """What a worker is given when its role begins."""

    brief: Brief
    sock: socket.socket
    """Its channel to the agent."""

    guard: WorkerGuard | None
    extras: Sequence[int]
    """The descriptors that its role needs beside the usual ones."""


class WorkerRole(msgspec.Struct, frozen=True, kw_only=True):
    """One sort of worker. Functions are `module:name`."""

    body: str
    """What the worker does, given the app and its `Setup`."""

    about: str = ""
    """The subject of lines printed outside of any task, given the worker's brief; empty: the worker."""

    prepare: str = ""
    """What to import for the role before the fork, given the app."""

    keeps_lines: bool = True
    """Are lines that it prints kept in files of the node? What a run prints is kept with the run."""

    has_hooks: bool = True
    """Are the app's `on_worker_start` hooks run before?"""

    has_page: bool = False
    """Does a page with the deadline of its work come along?"""


ROLES: Mapping[str, WorkerRole] = {
    "host": WorkerRole(body="rota.resources.node.host:be_host"),
    "task": WorkerRole(body="rota.resources.node.alone:be_alone", about="rota.resources.node.task_lines:of_worker"),
    "stream": WorkerRole(
        body="rota.streams.node.worker:be_stream",
        about="rota.resources.node.task_lines:of_worker",
        prepare="rota.streams.node.worker:preload",
    ),
    "service": WorkerRole(
        body="rota.services.node.worker:be_service_worker", about="rota.services.node.worker:lines_of"
    ),
    "executor": WorkerRole(body="rota.jobs.node.executor:be_executor", keeps_lines=False, has_page=True),
    "run": WorkerRole(body="rota.jobs.node.executor:be_run", keeps_lines=False, has_page=True),
    PROGRAM: WorkerRole(
        body="rota.jobs.node.program:become_program", keeps_lines=False, has_hooks=False, has_page=True
    ),
}


def role_of(brief: Brief) -> WorkerRole:
    """The role of the worker that a brief describes."""
    is_program = brief.attempt is not None and bool(brief.attempt.argv)
    return ROLES[PROGRAM if is_program else brief.role]


def import_all() -> None:
    """Import what any role needs."""
    for role in ROLES.values():
        for name in (role.body, role.about, role.prepare):
            if name:
                named(name)


def prepare(app: App) -> None:
    """Import what the roles need for this app."""
    for role in ROLES.values():
        if role.prepare:
            named(role.prepare)(app)


def named(name: str) -> Any:
    """The function of this name."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)
