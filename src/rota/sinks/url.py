"""Sink URLs: `amqp://user@host/vhost?exchange=rota`, `kafka://host,host/topic`, `file:///path`, `stdout://`.

A password in the URL is visible to whoever can read the app. Better: `?password_file=PATH` or `?password_env=NAME`.
Both are read at each connection, so that a changed password needs no restart. It never shows in errors and logs
(`model.url`).
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from rota.model import url as urls
from rota.model.url import Url as SinkUrl

__all__ = ["DEFAULT_WINDOW", "Options", "Password", "SinkUrl", "parse"]

DEFAULT_WINDOW = 4096
"""How many messages may be under way unless the URL says otherwise."""

Password: TypeAlias = Callable[[], str]
"""Gives the password as it is now; Invalid if it cannot be had."""


def parse(text: str) -> SinkUrl:
    """The parts of `text`; Invalid says how to write a URL."""
    return urls.parse(text, "sink", "amqp://user@host/vhost?exchange=rota or file:///var/lib/messages.jsonl")


class Options(urls.Options):
    """The options of a sink's URL."""

    def window(self) -> int:
        """How many messages may be under way."""
        return self.number("window", DEFAULT_WINDOW, least=1)

    def password(self, default: str = "") -> Password:
        """From `password_file` or `password_env`, else from the URL."""
        file, name = self.text("password_file"), self.text("password_env")
        if file and name:
            raise self.wrong("password_file= and password_env=; give one of them")
        if file:
            return lambda: _from_file(self, Path(file))
        if name:
            return lambda: _from_environment(self, name)
        given = self._url.password or default
        return lambda: given


def _from_file(options: Options, path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError as error:
        raise options.wrong(f"cannot read password_file {path}: {error.strerror}") from None


def _from_environment(options: Options, name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise options.wrong(f"there is no variable {name}, which password_env names; set it")
    return value
