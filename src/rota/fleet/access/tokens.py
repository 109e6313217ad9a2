"""The token that a node's doors ask for: its own, made at the first start, or one that it is pointed to.

The nodes of a fleet that are to speak to each other need the same token, so a setting names it by reference:
`file:PATH` or `env:NAME`. Without one, a node makes a token of its own in its data folder.

A file is read again when it changes (`keep_fresh`), so the token of a fleet is rotated without a restart.

A token is never an argument, a setting or a line of a log; only its place is named. A file that others than its owner
may read is refused. A variable is taken out of the environment, so that the app's processes do not inherit it.
"""

import asyncio
import logging
import os
import re
import secrets
import shlex
import stat
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

from rota.kit.files import write_secret
from rota.model.config import TokenReference, split_reference
from rota.model.errors import Denied, Invalid

log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds between looks at the file."""

FILE = "token"
PREFIX = "rota_"
"""So that people, and programs that look for leaked secrets, know one when they see it."""

BYTES = 32
_TOKEN = re.compile(r"[!-~]{20,500}")


@dataclass(frozen=True)
class Token:
    """A token, and where it came from."""

    text: str = field(repr=False)
    file: Path | None = None
    """The file that it was read from; None: a variable, which is read once."""

    stamp: tuple[int, ...] = ()
    """What `_stamp` said of the file when it was read."""


def find(reference: TokenReference | None, folder: Path, environ: MutableMapping[str, str] = os.environ) -> Token:
    """The token that a setting points to, or the folder's own; Invalid or Denied says what is wrong with it."""
    if reference is None:
        return _in_file(folder / FILE)
    kind, name = split_reference(reference)
    return _in_file(Path(name)) if kind == "file" else _in_variable(name, environ)


class TokenHolder:
    """The token that a node has now; calling the holder returns its text."""

    def __init__(self, found: Token) -> None:
        self.found = found

    def __call__(self) -> str:
        return self.found.text


async def keep_fresh(held: TokenHolder, changed: Callable[[], None]) -> None:
    """Read the token's file again when it changes, until cancelled; `changed` is called when there is another token.

    If the file is missing or broken the previous token is kept, and the log says why.
    """
    file = held.found.file
    if file is None:
        return
    seen = before = held.found.stamp
    while True:
        await asyncio.sleep(LOOK)
        stamp = await asyncio.to_thread(_stamp, file)
        is_still, before = stamp == before, stamp
        if stamp == seen or not is_still:  # one that is being written is read at the next look
            continue
        seen = stamp
        try:
            found = await asyncio.to_thread(_in_file, file)
        except (Denied, Invalid) as error:
            log.warning("token not read again", extra={"file": str(file), "why": str(error)})
            continue
        if found.text != held.found.text:
            held.found = found
            log.info("token changed", extra={"file": str(file)})
            changed()


def _stamp(file: Path) -> tuple[int, ...]:
    """Something that changes when the file does; nothing if there is none."""
    try:
        return _stamp_of(file.stat())
    except OSError:
        return ()


def _stamp_of(found: os.stat_result) -> tuple[int, ...]:
    return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size


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
            found = os.fstat(content.fileno())
            mode = stat.S_IMODE(found.st_mode)
            text = content.read(1000).strip()
    except FileNotFoundError:
        raise Invalid(f"token {path}: there is no such file; write a token into it, or correct token") from None
    except OSError as error:
        raise Denied(f"token {path}: {error.strerror}; make it readable for this user alone") from error
    if mode & 0o077:
        raise Denied(f"token {path} may be read by others (mode {mode:04o}); run: chmod 600 {shlex.quote(str(path))}")
    return Token(_checked(text, str(path)), path, _stamp_of(found))


def _in_variable(name: str, environ: MutableMapping[str, str]) -> Token:
    text = environ.pop(name, "").strip()
    if not text:
        raise Invalid(f"token env:{name}: the variable is not set; set it, or correct token")
    return Token(_checked(text, f"env:{name}"))


def _checked(text: str, place: str) -> str:
    if not _TOKEN.fullmatch(text):
        raise Invalid(
            f"token {place}: a token is 20 to 500 letters, digits and signs without a blank; "
            f"""make one with: python3 -c 'import secrets; print("{PREFIX}" + secrets.token_urlsafe({BYTES}))'"""
        )
    return text
