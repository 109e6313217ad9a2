"""Contexts: the fleets that this user has logged in to, each a server and its token, under a name.

They are one file for its owner alone, `contexts.json` beside the user's `rota.toml`, written whole or not at all, by
one command at a time (`changing`). A token is shown by no command. It is sent to another machine over TLS alone, unless
the user says that this network may read it.
"""

import fcntl
import os
import re
import stat
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from rota.cli.reach.targets import TOKEN, ServerTarget
from rota.kit.files import write_secret
from rota.model.config import is_loopback
from rota.model.errors import Denied, Invalid, NotFound

FILE = "contexts.json"
LOCK = "contexts.lock"
INSECURE = "ROTA_INSECURE"
"""The variable of the setting `insecure`: this network may read tokens."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class Context(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fleet."""

    server: str
    token: str
    ca: str | None = None
    insecure: bool = False
    """May the token pass in the clear to another machine?"""


class Contexts(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that are known, and the one that commands use."""

    current: str | None = None
    contexts: dict[str, Context] = {}


def read(environ: Mapping[str, str] = os.environ) -> Contexts:
    """What the user's file has; Invalid or Denied says what is wrong with it."""
    path = file(environ)
    if path is None:
        return Contexts()
    try:
        with path.open("rb") as content:
            mode, found = stat.S_IMODE(os.fstat(content.fileno()).st_mode), content.read()
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    except OSError as error:
        raise Denied(f"{path}: {error.strerror}; make it readable for this user alone") from error
    if mode & 0o077:
        raise Denied(f"{path} has tokens and may be read by others (mode {mode:04o}); run: chmod 600 {path}")
    try:
        return msgspec.json.decode(found, type=Contexts)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} is not understood: {error}; remove it and log in again with: rota login URL") from None


@contextmanager
def changing(environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Hold the lock of the user's file: other commands that change it wait."""
    path = file(environ)
    if path is None:
        raise Invalid("there is no place for contexts; set HOME or XDG_CONFIG_HOME to a folder")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path.with_name(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Denied(f"{path.parent}: {error.strerror}; make it writable for this user") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write(contexts: Contexts, environ: Mapping[str, str] = os.environ) -> None:
    """Replace the user's file, inside of `changing`."""
    path = file(environ)
    assert path is not None, "`changing` has refused this"
    try:
        write_secret(path, msgspec.json.format(msgspec.json.encode(contexts), indent=2).decode())
    except OSError as error:
        raise Denied(f"{path}: {error.strerror}; make it writable for this user") from error


def file(environ: Mapping[str, str]) -> Path | None:
    """Where the contexts are kept; None if the user has no place for settings."""
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", ""), ".config")
    path = Path(home) / "rota" / FILE
    return path if path.is_absolute() else None


def get(name: str, environ: Mapping[str, str] = os.environ) -> ServerTarget:
    """The server of a context; NotFound names those there are."""
    return server_of(known(read(environ), name))


def known(found: Contexts, name: str) -> Context:
    """One of the contexts; NotFound names those there are."""
    if name not in found.contexts:
        there = f"there are {', '.join(sorted(found.contexts))}" if found.contexts else "there are none"
        raise NotFound(f'there is no context "{name}"; {there}; make one with: rota login URL --name {name}')
    return found.contexts[name]


def current(environ: Mapping[str, str] = os.environ) -> tuple[str, ServerTarget] | None:
    """The context that commands use, by name; None if there is none."""
    found = read(environ)
    return (found.current, server_of(found.contexts[found.current])) if found.current in found.contexts else None


def server(url: str, reference: str, environ: Mapping[str, str] = os.environ) -> ServerTarget:
    """A server that was named; its token is where `reference` says, in ROTA_TOKEN, or in the context of that URL."""
    address = normal(url)
    ca = environ.get("ROTA_CA") or None
    if reference or environ.get(TOKEN):
        check_private(address, is_insecure=environ.get(INSECURE) == "true")
        # A node has a reference there, other tools have the token itself.
        told = environ.get(TOKEN, "")
        is_reference = told.startswith(("file:", "env:"))
        return ServerTarget(address, token(reference or (told if is_reference else f"env:{TOKEN}"), environ), ca)
    for context in read(environ).contexts.values():
        if context.server == address:
            return server_of(context, ca)
    raise Denied(
        f"{address} asks for a token; use --token file:PATH, set {TOKEN}, or log in with: rota login {address}"
    )


def token(reference: str, environ: Mapping[str, str]) -> str:
    """The token in a file or a variable."""
    from rota.fleet.access.tokens import find  # noqa: PLC0415
    from rota.model.config import TokenReference  # noqa: PLC0415

    own: MutableMapping[str, str] = dict(environ)
    written = reference if reference.startswith(("file:", "env:")) else f"file:{reference}"
    return find(TokenReference(written), Path(), own).text


def normal(url: str) -> str:
    """The URL of a server as it is kept: scheme, host and port; Invalid says how to write one."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good or parts.username or parts.query or parts.fragment or parts.path.strip("/"):
        raise Invalid(f'server "{url}" is not the address of a node; write one like http://127.0.0.1:7700')
    return f"{parts.scheme}://{parts.netloc}"


def check_name(name: str) -> str:
    """A name for a context; Invalid says what it may have."""
    if not _NAME.fullmatch(name):
        raise Invalid(f'"{name}" is no name for a context; use letters, digits, ".", "_" and "-", at most 63')
    return name


def check_private(address: str, *, is_insecure: bool) -> None:
    """Invalid if a token would pass in the clear to another machine, and nobody said that it may."""
    parts = urlsplit(address)
    if parts.scheme == "https" or is_insecure or is_loopback(parts.hostname or ""):
        return
    raise Invalid(
        f"server {address} is another machine, and without TLS the token would pass in the clear; "
        f"write https://{parts.netloc}, or use http://127.0.0.1:{parts.port or 80} with a tunnel. "
        f"If you trust everybody on that network: rota login --insecure {address}, or {INSECURE}=true"
    )


def server_of(context: Context, ca: str | None = None) -> ServerTarget:
    """The server of a context."""
    check_private(context.server, is_insecure=context.insecure)
    return ServerTarget(context.server, context.token, ca or context.ca)
