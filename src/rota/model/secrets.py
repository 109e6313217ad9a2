"""Passwords by reference: `?password_file=PATH` or `?password_env=NAME` in a URL, else what stands in the URL itself.

Both are read at each connection, so that a changed password needs no restart.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from rota.model.url import Options, Url

Password: TypeAlias = Callable[[], str]
"""Returns the present password; Invalid if it cannot be read."""


def password(url: Url, options: Options, default: str = "") -> Password:
    """The password that a URL means, and how to get at it."""
    file, name = options.text("password_file"), options.text("password_env")
    if file and name:
        raise options.wrong("password_file= and password_env=; give one of them")
    if file:
        return lambda: _from_file(options, Path(file))
    if name:
        return lambda: _from_environment(options, name)
    given = url.password or default
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
