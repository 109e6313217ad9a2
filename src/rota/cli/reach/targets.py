"""Targets: which fleet a command is about, and how it is reached.

A fleet is reached through the doors of a node (`--server`, with a token: roles, limits and the audit trail apply) or
through its store (`--store`, with the database's credentials). The first of these that names a fleet decides: the
flags; the variables; `rota.toml` of this folder or of the user; `.rota/up` of this folder, where `rota up` runs or ran;
the context that `rota login` made. What is nearer to this folder comes first, so that a command typed beside a trial
fleet never reaches another one by mistake.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from rota.kit.files import write_secret
from rota.model.errors import Denied, Invalid
from rota.model.url import without_passwords

UP = Path(".rota/up")
NAME = "fleet.json"
"""What `rota up` writes about its fleet."""

STORE, SERVER, TOKEN, CONTEXT = "ROTA_STORE", "ROTA_SERVER", "ROTA_TOKEN", "ROTA_CONTEXT"
NOWHERE = (
    "no fleet is named here; use --store URL or --server URL, set ROTA_STORE or ROTA_SERVER, log in once with "
    "rota login URL, or start a fleet in this folder with rota up app.py"
)


@dataclass(frozen=True)
class ServerTarget:
    """The doors of a node."""

    url: str
    token: str = field(repr=False)
    ca: str | None = None
    """A file with the certificates of the server's authorities; None: the system's."""


class FleetTarget(msgspec.Struct, frozen=True):
    """A fleet, as a command reaches it: by its store or by a server, never both."""

    origin: str
    """Who named it, like `flag --store`, `env ROTA_STORE`, `rota.toml:3`, `.rota/up` or `context prod`."""

    store: str | None = None
    server: ServerTarget | None = None

    @property
    def is_implied(self) -> bool:
        """Was it found, and not named with the command?"""
        return not self.origin.startswith("flag ")

    def __str__(self) -> str:
        """Where it is, without passwords."""
        return self.server.url if self.server else without_passwords(self.store or "")


def find(given: Mapping[str, Any], environ: Mapping[str, str] = os.environ, folder: Path | None = None) -> FleetTarget:
    """The fleet that is meant; Invalid if none is named, or two at once. `given`: the flags by name."""
    return (
        _named(given, environ, "flag", {name: f"--{name}" for name in ("store", "server", "token", "context")})
        or _named(environ, environ, "env", {"store": STORE, "server": SERVER, "token": TOKEN, "context": CONTEXT})
        or _in_settings(environ, folder)
        or left_by_up(folder or Path())
        or _logged_in(environ)
        or _nowhere()
    )


def store(given: str | None, environ: Mapping[str, str] = os.environ, folder: Path | None = None) -> str:
    """The store of the fleet that is meant, for what can only be done there."""
    return store_of(FleetTarget(origin="flag --store", store=given) if given else find({}, environ, folder))


def store_of(found: FleetTarget) -> str:
    """The store of a fleet, for what can only be done there; Invalid if only a server is known."""
    if found.store is None:
        raise Invalid(
            f"{found} ({found.origin}) is a server, and this command works on the store itself; "
            "use --store URL, or set ROTA_STORE"
        )
    return found.store


def leave(folder: Path, store: str) -> None:
    """Have the commands of this folder find a fleet that `rota up` starts."""
    try:
        write_secret(folder / NAME, msgspec.json.encode({"store": store}).decode())
    except OSError as error:
        raise Denied(f"{folder / NAME}: {error.strerror}; make the folder writable") from error


def left_by_up(folder: Path) -> FleetTarget | None:
    """The fleet that `rota up` runs or ran in a folder; None if it never did."""
    up = folder / UP
    try:
        content = (up / NAME).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if (up / "rota.db").exists():  # an older Rota wrote no file
            return FleetTarget(origin=str(UP), store=f"sqlite:///{up / 'rota.db'}")
        return None
    except OSError as error:
        raise Denied(f"{up / NAME}: {error.strerror}; make it readable, or use --store URL") from error
    try:
        store = str(msgspec.json.decode(content, type=dict[str, Any])["store"])
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        raise Invalid(f"{up / NAME} does not name a store; use --store URL, or remove the file") from None
    return FleetTarget(origin=str(UP), store=store)


def _named(
    given: Mapping[str, Any], environ: Mapping[str, str], origin: str, names: Mapping[str, str]
) -> FleetTarget | None:
    """What flags or variables name; Invalid if that is two fleets."""
    there = [name for name in ("store", "server", "context") if given.get(_key(names[name]))]
    if len(there) > 1:
        one, other = names[there[0]], names[there[1]]
        raise Invalid(f"{one} and {other} both name a fleet; give one of them")
    token = given.get(_key(names["token"]))
    if not there:
        if token and origin == "flag":
            raise Invalid("--token is for a server; name it with --server URL")
        return None
    name, value = there[0], str(given[_key(names[there[0]])])
    told = f"{origin} {names[name]}"
    if name == "store":
        if token and origin == "flag":
            raise Invalid("--token is for --server, and --store asks for none; leave one out")
        return FleetTarget(origin=told, store=value)
    from rota.cli.reach import contexts  # noqa: PLC0415  # most commands need none

    if name == "context":
        return FleetTarget(origin=told, server=contexts.get(value, environ))
    reference = str(token) if token and origin == "flag" else ""
    return FleetTarget(origin=told, server=contexts.server(value, reference, environ))


def _key(name: str) -> str:
    return name.removeprefix("--")


def _in_settings(environ: Mapping[str, str], folder: Path | None) -> FleetTarget | None:
    from rota.cli import settings  # noqa: PLC0415  # it needs the types of `options`
    from rota.model.config import NodeConfig  # noqa: PLC0415

    found = settings.look_up(NodeConfig, {}, environ=environ, folder=folder)["store"]
    return FleetTarget(origin=found.origin, store=found.value) if found.value else None


def _logged_in(environ: Mapping[str, str]) -> FleetTarget | None:
    from rota.cli.reach import contexts  # noqa: PLC0415

    current = contexts.current(environ)
    return None if current is None else FleetTarget(origin=f"context {current[0]}", server=current[1])


def _nowhere() -> FleetTarget:
    raise Invalid(NOWHERE)
