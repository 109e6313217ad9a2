"""The token that a node's doors ask for: its own, made at the first start, or one that it is pointed to.

The nodes of a fleet that are to speak to each other need the same token, so a setting names it by reference:
`file:PATH` or `env:NAME`. Without one, a node makes a token of its own in its data folder.

A token is never an argument, a setting or a line of a log; only its place is told. A file that others than its owner
may read is refused. A variable is taken out of the environment, so that the app's processes do not inherit it.
"""

import os
import re
import secrets
import shlex
import stat
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

from rota.kit.files import write_secret
from rota.model.config import TokenReference, split_reference
from rota.model.errors import Denied, Invalid

FILE = "token"
PREFIX = "rota_"
"""So that people, and programs that look for leaked secrets, know one when they see it."""

BYTES = 32
_TOKEN = re.compile(r"[!-~]{20,500}")


@dataclass(frozen=True)
class Token:
    """A token, and where it came from."""

    text: str = field(repr=False)
    where: str
    """Where somebody finds it, as the end of a sentence."""


def find(reference: TokenReference | None, folder: Path, environ: MutableMapping[str, str] = os.environ) -> Token:
    """The token that a setting points to, or the folder's own; Invalid or Denied says what is wrong with it."""
    if reference is None:
        return _in_file(folder / FILE)
    kind, name = split_reference(reference)
    return _in_file(Path(name)) if kind == "file" else _in_variable(name, environ)


def make(folder: Path) -> Path | None:
    """Give the folder a token of its own; where it is, or None if there was one."""
    file = folder / FILE
    if file.exists():
        return None
    try:
        write_secret(file, f"{PREFIX}{secrets.token_urlsafe(BYTES)}")
    except OSError as error:
        raise Denied(f"token {file}: {error.strerror}; choose another data folder with --data") from error
    return file


def _in_file(file: Path) -> Token:
    path = file.absolute()
    try:
        with path.open(errors="replace") as content:
            mode = stat.S_IMODE(os.fstat(content.fileno()).st_mode)
            text = content.read(1000).strip()
    except FileNotFoundError:
        raise Invalid(f"token {path}: there is no such file; write a token into it, or correct token") from None
    except OSError as error:
        raise Denied(f"token {path}: {error.strerror}; make it readable for this user alone") from error
    if mode & 0o077:
        raise Denied(f"token {path} may be read by others (mode {mode:04o}); run: chmod 600 {shlex.quote(str(path))}")
    return Token(_checked(text, str(path)), f"see: cat {shlex.quote(str(path))}")


def _in_variable(name: str, environ: MutableMapping[str, str]) -> Token:
    text = environ.pop(name, "").strip()
    if not text:
        raise Invalid(f"token env:{name}: the variable is not set; set it, or correct token")
    return Token(_checked(text, f"env:{name}"), f"which the node was given in its variable {name}")


def _checked(text: str, place: str) -> str:
    if not _TOKEN.fullmatch(text):
        raise Invalid(
            f"token {place}: a token is 20 to 500 letters, digits and signs without a blank; "
            f"""make one with: python3 -c 'import secrets; print("{PREFIX}" + secrets.token_urlsafe({BYTES}))'"""
        )
    return text
