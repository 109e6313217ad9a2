"""URLs of stores and sinks: `sqlite:///path`, `etcd://user@host:2379,host:2379/prefix?timeout=2s`, `amqp://host/vhost`.

`parse` splits one and knows no adapter; `Options` reads the part after the `?` and, in the end, refuses options that
were not read. A password never shows: `str(url)` leaves it out, and errors and logs use that.

`store.url` and `sinks.url` say which of the two is meant, and where else a password may come from.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from rota.kit.time import durations
from rota.model.errors import Invalid

_PASSWORD = re.compile(r"(://[^/@:\s\"]*:)[^/\s\"]+@")
"""The password in a URL, and what stands before it; it goes up to the last @, as `parse` reads it."""


SECRETS = ("password", "secret", "passphrase", "key.pem")
"""How names of options end that hold a secret itself; others name the file or the variable that does."""


def without_passwords(text: str) -> str:
    """A text without the passwords of the URLs in it."""
    return _PASSWORD.sub(r"\1…@", text)


@dataclass(frozen=True, kw_only=True)
class Url:
    """The parts of a URL."""

    scheme: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    hosts: tuple[str, ...] = ()
    path: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    what: str = "store"
    """What it leads to, for messages."""

    @property
    def secret_option(self) -> str | None:
        """The first option that holds a secret, which `without_passwords` would leave; None: none does."""
        return next((name for name in self.options if name.endswith(SECRETS)), None)

    def host_and_port(self, default: int) -> tuple[str, int]:
        """The first host; an IPv6 address stands in brackets."""
        return self.addresses(default)[0]

    def addresses(self, default: int) -> list[tuple[str, int]]:
        """Every host with its port."""
        return [self._address(host, default) for host in self.hosts]

    def _address(self, text: str, default: int) -> tuple[str, int]:
        host, colon, port = text.rpartition(":")
        if not colon or host.count("[") != host.count("]"):
            host, port = text, str(default)
        if not port.isdigit() or not 0 < int(port) < 65536:
            raise Invalid(f"{self.what} {self}: {port} is not a port; write host:{default}")
        return host.strip("[]"), int(port)

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        return f"{self.scheme}://{user}{','.join(self.hosts)}{self.path}"


def parse(text: str, what: str, example: str) -> Url:
    """The parts of `text`; Invalid says how to write a URL, with an example."""
    scheme, colon, rest = text.partition("://")
    if not colon or not scheme:
        shown = f"…@{text.rpartition('@')[2]}" if "@" in text else text  # before it there may be a password
        raise Invalid(f'{what} "{shown}" is not a URL; write one like {example}')
    _check_password(f"{what} {scheme}", rest)
    rest, _, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    credentials, _, hosts = authority.rpartition("@")
    user, _, password = credentials.partition(":")
    return Url(
        scheme=scheme,
        user=unquote(user) or None,
        password=unquote(password) or None,
        hosts=tuple(host for host in hosts.split(",") if host),
        path=slash + unquote(path),
        options=_options(f"{what} {scheme}", query),
        what=what,
    )


def _check_password(shown: str, rest: str) -> None:
    """Refuse, without showing it, a password that would be taken for a path."""
    authority = re.split("[/?]", rest, maxsplit=1)[0]
    if "@" in rest and "@" not in authority and ":" in authority and not authority.rpartition(":")[2].isdigit():
        raise Invalid(f"{shown}://…: write / as %2F, ? as %3F and @ as %40 in a user or password")


def _options(shown: str, query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise Invalid(f'{shown}://…: "?{query}" is not a list of options; write ?name=value&…') from None
    return dict(pairs)


class Options:
    """The options of one URL, each read by name; `done` refuses the rest."""

    def __init__(self, url: Url) -> None:
        self._url = url
        self._left = dict(url.options)
        self._known: list[str] = []

    def text(self, name: str) -> str | None:
        """The option as written, or None."""
        self._known.append(name)
        return self._left.pop(name, None)

    def beginning(self, prefix: str) -> dict[str, str]:
        """The options whose names begin so, without that beginning."""
        self._known.append(f"{prefix}…")
        found = [name for name in self._left if name.startswith(prefix)]
        return {name.removeprefix(prefix): self._left.pop(name) for name in found}

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        """One of `allowed`; the first is the default."""
        value = self.text(name)
        if value is None:
            return allowed[0]
        if value not in allowed:
            raise self.wrong(f"{name}={value} is unknown; choose {' or '.join(allowed)}")
        return value

    def number(self, name: str, default: int, *, least: int = 0) -> int:
        """A whole number."""
        value = self.text(name)
        if value is None:
            return default
        if not value.isdigit() or int(value) < least:
            raise self.wrong(f"{name}={value}; it must be a whole number from {least}")
        return int(value)

    def duration(self, name: str, default: timedelta) -> timedelta:
        """A duration above zero."""
        value = self.text(name)
        if value is None:
            return default
        try:
            duration = durations.parse(value)
        except ValueError as error:
            raise self.wrong(f"{name}: {error}") from None
        if duration <= timedelta():
            raise self.wrong(f"{name}={value}; it must be above zero")
        return duration

    def file(self, name: str) -> bytes | None:
        """The content of a file named by an option."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return Path(value).read_bytes()
        except OSError as error:
            raise self.wrong(f"cannot read {name} {value}: {error.strerror}") from None

    def tls_files(self) -> dict[str, str] | None:
        """The files that `ca`, `cert` and `key` name, for a driver that reads them itself; None: no TLS.

        It is on by itself when one of them is named, and otherwise by `tls=on`.
        """
        given = {name: value for name in ("ca", "cert", "key") if (value := self.text(name))}
        is_on = self.choice("tls", ("on", "off") if given else ("off", "on")) == "on"
        return given if is_on else None

    def wrong(self, why: str) -> Invalid:
        """The error to raise about this URL."""
        return Invalid(f"{self._url.what} {self._url}: {why}")

    def done(self) -> None:
        """Invalid if the URL has an unknown option."""
        if self._left:
            unknown, known = ", ".join(sorted(self._left)), ", ".join(sorted(self._known))
            raise self.wrong(f"unknown option {unknown}; known are {known}")
