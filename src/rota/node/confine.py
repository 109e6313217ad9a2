"""Confining the app: its processes get no secrets of Rota's, and no more of the machine than they are allowed.

A loader confines itself before it imports the first line of the app, and workers are its children; so whatever the app
does, it does as the user and within the limits that the settings name. The agent, the proxies and the relay are ours,
and stay as they are.

Every limit is for one process. None can be raised again from inside.
"""

import os
import pwd
import resource
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rota.model.config import RuntimeConfig
from rota.model.errors import Denied, Invalid
from rota.node import kernel

KEPT = frozenset({"ROTA_PORTABLE"})
"""The only variables of Rota's that the app's processes get: the others name stores, tokens and passwords."""

PREFIX = "ROTA_"


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """What the app's processes may be and have; what is None is not limited."""

    user: str = ""
    """Who they are; empty: whoever the agent is."""

    uid: int = -1
    gid: int = -1
    home: str = ""
    memory: int | None = None
    """Bytes of data, by `RLIMIT_DATA`."""

    files: int | None = None
    cpu: int | None = None
    """Seconds of processor time of an attempt that has a process of its own."""

    may_gain_privileges: bool = True


def find(config: RuntimeConfig) -> Confinement:
    """The confinement that the settings mean; Invalid or Denied if this machine or user cannot have it."""
    limits = Confinement(
        memory=config.max_memory,
        files=config.max_files,
        cpu=None if config.max_cpu is None else max(1, round(config.max_cpu.total_seconds())),
        may_gain_privileges=config.may_gain_privileges,
    )
    if config.user is None:
        return limits
    try:
        found = pwd.getpwnam(config.user)
    except KeyError:
        raise Invalid(f'user "{config.user}" is not known here; make it, or correct user in [runtime]') from None
    if os.geteuid() not in (0, found.pw_uid):
        raise Denied(
            f"user is {config.user}, and only root can become another; start the node as root, or leave it out"
        )
    return msgspec.structs.replace(limits, user=found.pw_name, uid=found.pw_uid, gid=found.pw_gid, home=found.pw_dir)


def own_folder(data: Path, name: str, confinement: Confinement) -> Path | None:
    """A folder below the node's data for the app's user, which the app cannot reach by its path; None if it needs none.

    Nobody but the node's user may enter the data folder. So a loader opens this one before it becomes the app's user,
    and its workers use the descriptor.
    """
    if not confinement.user or os.geteuid() != 0 or confinement.uid == 0:
        return None
    folder = data / name
    folder.mkdir(mode=0o700, exist_ok=True)
    os.chown(folder, confinement.uid, confinement.gid)
    return folder


def cleaned(environ: Mapping[str, str], confinement: Confinement | None = None) -> dict[str, str]:
    """The variables that the app's processes get: none of Rota's settings and secrets, and their user's own home."""
    kept = {name: value for name, value in environ.items() if not name.startswith(PREFIX) or name in KEPT}
    if confinement is not None and confinement.user:
        kept |= {"USER": confinement.user, "LOGNAME": confinement.user, "HOME": confinement.home}
    return kept


def confine(confinement: Confinement) -> None:
    """Confine this process and all its children, for good."""
    if confinement.files is not None:
        _limit(resource.RLIMIT_NOFILE, confinement.files)
    if confinement.memory is not None:
        _limit(resource.RLIMIT_DATA, confinement.memory)
    if confinement.user and os.geteuid() == 0:
        os.initgroups(confinement.user, confinement.gid)
        os.setgid(confinement.gid)
        os.setuid(confinement.uid)
    if not confinement.may_gain_privileges:
        kernel.forbid_new_privileges()


def confine_attempt(confinement: Confinement) -> None:
    """Confine this process, which is an attempt's alone, further."""
    if confinement.cpu is not None:
        _limit(resource.RLIMIT_CPU, confinement.cpu, spare=1)  # SIGXCPU says what it was; a second later comes SIGKILL


def _limit(what: int, most: int, spare: int = 0) -> None:
    """Set a limit; one that is lower already stays."""
    _, hard = resource.getrlimit(what)
    bound = most + spare if hard == resource.RLIM_INFINITY else min(most + spare, hard)
    resource.setrlimit(what, (min(most, bound), bound))
