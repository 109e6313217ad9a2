"""Confining the app: its processes get no secrets of Rota's, and run as the user and within the limits of the settings.

A loader confines itself before it imports the first line of the app, and workers are its children; so whatever the app
does, it does as the user and within the limits that the settings name. The agent, the proxies and the relay are ours,
and stay as they are.

Commands that came over the API are the choice of a caller with a token for `admin`, not of the machine's owner. A node
that is root runs them as another user, with hardly any of its variables; a node that is not root runs them as its own
user, because it cannot change users.

Every limit is per process, except the limit on processes, which the kernel counts per user. No limit can be raised
again from inside. System calls are not filtered (no seccomp).
"""

import os
import pwd
import resource
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from rota.model import url as urls
from rota.model.config import CommandsConfig, RuntimeConfig, names_in
from rota.model.errors import Denied, Invalid
from rota.runtime.system import kernel
from rota.runtime.system.leftovers import MARK

KEPT = frozenset({"ROTA_PORTABLE"})
"""The only variables of Rota that the app's processes get: the others name stores, tokens and passwords."""

PREFIX = "ROTA_"

STORE_PASSWORD = "ROTA_STORE_PASSWORD"
READ_BY_DRIVERS: Mapping[str, tuple[str, ...]] = {"postgresql": ("PGPASSWORD",)}
"""Variables from which drivers take the password of a store whose URL and settings name none."""

HARMLESS = ("PATH", "TZ", "LANG", "LANGUAGE", "LC_*")
"""The variables that commands of the API get from a node that is root."""

NOBODY = "nobody"


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """The user and the limits of the app's processes; None: no limit."""

    user: str = ""
    """The user that they run as; empty: the agent's own."""

    uid: int = -1
    gid: int = -1
    home: str = ""
    memory: int | None = None
    """Bytes of data per process, by `RLIMIT_DATA`."""

    files: int | None = None
    processes: int | None = None
    """Processes and threads of the user, including those outside of Rota."""

    cpu: int | None = None
    """Seconds of processor time of an attempt that has a process of its own."""

    may_gain_privileges: bool = True


def find(config: RuntimeConfig) -> Confinement:
    """The confinement that the settings describe; Invalid or Denied if this machine or user cannot apply it."""
    limits = Confinement(
        memory=config.max_memory,
        files=config.max_files,
        processes=config.max_processes,
        cpu=None if config.max_cpu is None else max(1, round(config.max_cpu.total_seconds())),
        may_gain_privileges=config.may_gain_privileges,
    )
    if config.user is None:
        return limits
    return _as_user(limits, config.user, "[runtime]")


def _as_user(limits: Confinement, name: str, table: str) -> Confinement:
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise Invalid(f'user "{name}" is not known here; make it, or correct user in {table}') from None
    if os.geteuid() not in (0, found.pw_uid):
        raise Denied(
            f"user in {table} is {name}, and only root can become another; start the node as root, or leave it out"
        )
    return msgspec.structs.replace(limits, user=found.pw_name, uid=found.pw_uid, gid=found.pw_gid, home=found.pw_dir)


class Commands(msgspec.Struct, frozen=True):
    """How commands that came over the API run on this node."""

    confinement: Confinement = msgspec.field(default_factory=Confinement)
    refusal: str = ""
    """Why they do not run here; empty if they do."""

    env: tuple[str, ...] = ()
    """The node's variables that they get; all but Rota's if they run as the node's own user."""

    @property
    def are_others(self) -> bool:
        """Do they run as the user that the settings name, on a node that is root?"""
        return bool(self.confinement.user)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Those of these variables that they get."""
        if not self.are_others:
            return cleaned(environ)
        kept = {name: value for name, value in environ.items() if _matches(name, self.env)}
        return cleaned(kept, self.confinement)


def find_commands(config: CommandsConfig, app: Confinement) -> Commands:
    """How commands that came over the API run on a node whose app is confined in this way."""
    limits = msgspec.structs.replace(app, user="", uid=-1, gid=-1, home="", processes=None, may_gain_privileges=True)
    if os.geteuid() != 0:
        if config.user is not None:
            _as_user(limits, config.user, "[commands]")
        return Commands(limits)
    limits = msgspec.structs.replace(limits, may_gain_privileges=False)
    env = (*HARMLESS, *names_in(config.env))
    if name := config.user or app.user:
        return Commands(_as_user(limits, name, "[commands]"), env=env)
    try:
        return Commands(_as_user(limits, NOBODY, "[commands]"), env=env)
    except Invalid:
        return Commands(
            refusal="commands that came over the API do not run as root, and this machine has no user nobody; "
            "set user in [commands]"
        )


def own_folder(data: Path, name: str, confinement: Confinement) -> Path | None:
    """A folder below the node's data for the app's user, which the app cannot reach by its path; None if it needs none.

    Only the node's user may enter the data folder. So a loader opens this one before it becomes the app's user, and its
    workers use the descriptor.
    """
    if not confinement.user or os.geteuid() != 0 or confinement.uid == 0:
        return None
    folder = data / name
    folder.mkdir(mode=0o700, exist_ok=True)
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)  # never what a link there leads to
    try:
        os.fchown(opened, confinement.uid, confinement.gid)
    finally:
        os.close(opened)
    return folder


def withheld(store: str, sink: str | None, config: RuntimeConfig, environ: Mapping[str, str]) -> Collection[str]:
    """The variables, or patterns of them, that the app must not get.

    An app with a user of its own gets none that name secrets of the node's: those in the URLs of the store and of the
    relay's sink, and those that drivers read for the store. An app that runs as the node's user could read them in
    /proc anyway, so it gets them.
    """
    found = set(names_in(config.env_deny))
    if config.user is not None:
        url = urls.parse(store, "store", "sqlite:///rota.db")
        found |= _named(url)
        if not (url.password or "password_file" in url.options or environ.get(STORE_PASSWORD) or _named(url)):
            found |= set(READ_BY_DRIVERS.get(url.scheme, ()))
        if sink is not None:
            found |= _named(urls.parse(sink, "relay.sink", "amqp://host/vhost"))
    return found - set(names_in(config.env_allow))


def _named(url: urls.Url) -> set[str]:
    """The variables named in the options of a URL."""
    return {value for option, value in url.options.items() if option.endswith("_env")}


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def cleaned(
    environ: Mapping[str, str], confinement: Confinement | None = None, withheld: Collection[str] = ()
) -> dict[str, str]:
    """The app's variables: these, without Rota's settings and secrets, and with its own user's home."""
    kept = {
        name: value
        for name, value in environ.items()
        if (not name.startswith(PREFIX) or name in KEPT) and not _matches(name, withheld)
    }
    if confinement is not None and confinement.user:
        kept |= {"USER": confinement.user, "LOGNAME": confinement.user, "HOME": confinement.home}
    return kept


def confine(confinement: Confinement) -> None:
    """Confine this process and all its children, irrevocably."""
    if confinement.files is not None:
        _limit(resource.RLIMIT_NOFILE, confinement.files)
    if confinement.memory is not None:
        _limit(resource.RLIMIT_DATA, confinement.memory)
    if confinement.processes is not None:
        _limit(resource.RLIMIT_NPROC, confinement.processes)
    if confinement.user:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would show its memory to later processes
    if confinement.user and os.geteuid() == 0:
        os.initgroups(confinement.user, confinement.gid)
        os.setgid(confinement.gid)
        os.setuid(confinement.uid)
    if not confinement.may_gain_privileges:
        kernel.forbid_new_privileges()


def confine_attempt(confinement: Confinement) -> None:
    """Confine this process, which is an attempt's alone, further."""
    if confinement.cpu is not None:
        _limit(resource.RLIMIT_CPU, confinement.cpu, spare=1)  # SIGXCPU names the reason; SIGKILL comes 1 s later


def _limit(what: int, most: int, spare: int = 0) -> None:
    """Set a limit; one that is lower already stays."""
    _, hard = resource.getrlimit(what)
    bound = most + spare if hard == resource.RLIM_INFINITY else min(most + spare, hard)
    resource.setrlimit(what, (min(most, bound), bound))


def become_command(commands: Commands) -> None:
    """Confine this process, which is to become a command of the API, before it runs the program."""
    if not commands.are_others or os.geteuid() != 0:
        return
    variables = commands.environment(os.environ)
    if MARK in os.environ:
        variables[MARK] = os.environ[MARK]
    os.environ.clear()
    os.environ.update(variables)
    os.chdir("/")
    confine(commands.confinement)
