"""Store URLs: `sqlite:///path`, `etcd://user@host:2379,host:2379/prefix?timeout=2s`, `memory://name`.

`parse` splits one and knows no adapter; `Options` hands out the part behind the `?` and, in the end, complains about
what nobody asked for. A password never shows: `str(url)` leaves it out, and errors and logs use that.

A password in the URL is visible to whoever can list processes. Better: `?password_file=PATH`, or the variable
ROTA_STORE_PASSWORD.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from rota.kit import durations
from rota.model.errors import Invalid

PASSWORD_VARIABLE = "ROTA_STORE_PASSWORD"
DEFAULT_TIMEOUT = timedelta(seconds=5)


@dataclass(frozen=True, kw_only=True)
class StoreUrl:
    """The parts of a store URL."""

    scheme: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    hosts: tuple[str, ...] = ()
    path: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def host_and_port(self, default: int) -> tuple[str, int]:
        """The first host; an IPv6 address stands in brackets."""
        host, colon, port = self.hosts[0].rpartition(":")
        if not colon or host.count("[") != host.count("]"):
            host, port = self.hosts[0], str(default)
        if not port.isdigit() or not 0 < int(port) < 65536:
            raise Invalid(f"store {self}: {port} is not a port; write host:{default}")
        return host.strip("[]"), int(port)

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        return f"{self.scheme}://{user}{','.join(self.hosts)}{self.path}"


def parse(text: str) -> StoreUrl:
    """The parts of `text`; Invalid says how to write a URL."""
    scheme, colon, rest = text.partition("://")
    if not colon or not scheme:
        shown = f"{text[:10]}…" if "@" in text else text  # there may be a password in it
        raise Invalid(f'store "{shown}" is not a URL; write one like sqlite:///rota.db or etcd://127.0.0.1:2379')
    _check_password(scheme, rest)
    rest, _, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    credentials, _, hosts = authority.rpartition("@")
    user, _, password = credentials.partition(":")
    return StoreUrl(
        scheme=scheme,
        user=unquote(user) or None,
        password=unquote(password) or None,
        hosts=tuple(host for host in hosts.split(",") if host),
        path=slash + unquote(path),
        options=_options(scheme, query),
    )


def _check_password(scheme: str, rest: str) -> None:
    """Refuse, without showing it, a password that would be taken for a path."""
    authority = re.split("[/?]", rest, maxsplit=1)[0]
    if "@" in rest and "@" not in authority and ":" in authority and not authority.rpartition(":")[2].isdigit():
        raise Invalid(f"store {scheme}://…: write / as %2F, ? as %3F and @ as %40 in a user or password")


def _options(scheme: str, query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise Invalid(f'store {scheme}://…: "?{query}" is not a list of options; write ?name=value&…') from None
    return dict(pairs)


class Options:
    """The options of one URL, each asked for by name; `done` refuses the rest."""

    def __init__(self, url: StoreUrl) -> None:
        self._url = url
        self._left = dict(url.options)
        self._known: list[str] = []

    def text(self, name: str) -> str | None:
        """The option as written, or None."""
        self._known.append(name)
        return self._left.pop(name, None)

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        """One of `allowed`; the first is the default."""
        value = self.text(name)
        if value is None:
            return allowed[0]
        if value not in allowed:
            raise Invalid(f"store {self._url}: {name}={value} is unknown; choose {' or '.join(allowed)}")
        return value

    def number(self, name: str, default: int, *, least: int = 0) -> int:
        """A whole number."""
        value = self.text(name)
        if value is None:
            return default
        if not value.isdigit() or int(value) < least:
            raise Invalid(f"store {self._url}: {name}={value}; it must be a whole number from {least}")
        return int(value)

    def duration(self, name: str, default: timedelta) -> timedelta:
        """A duration above zero."""
        value = self.text(name)
        if value is None:
            return default
        try:
            duration = durations.parse(value)
        except ValueError as error:
            raise Invalid(f"store {self._url}: {name}: {error}") from None
        if duration <= timedelta():
            raise Invalid(f"store {self._url}: {name}={value}; it must be above zero")
        return duration

    def timeout(self) -> timedelta:
        """How long one call to the store may take."""
        return self.duration("timeout", DEFAULT_TIMEOUT)

    def file(self, name: str) -> bytes | None:
        """The content of a file named by an option."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return Path(value).read_bytes()
        except OSError as error:
            raise Invalid(f"store {self._url}: cannot read {name} {value}: {error.strerror}") from None

    def password(self) -> str | None:
        """From `password_file`, else from the URL, else from the environment."""
        secret = self.file("password_file")
        if secret is not None:
            return secret.decode(errors="replace").strip()
        return self._url.password or os.environ.get(PASSWORD_VARIABLE)

    def done(self) -> None:
        """Invalid if the URL had an option nobody asked for."""
        if self._left:
            unknown, known = ", ".join(sorted(self._left)), ", ".join(sorted(self._known))
            raise Invalid(f"store {self._url}: unknown option {unknown}; known are {known}")
