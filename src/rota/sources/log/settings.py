"""What a log's URL says: `log:///path/name[?option=value&…]`.

fsync=always        when what is appended must be on disk: always, never, or after a duration such as 1s
poll=250ms          how long a reader at the end waits at most before it looks again
"""

from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import msgspec

from rota.kit.time import durations
from rota.sources.log.writer import ALWAYS, NEVER, Fsync
from rota.sources.url import Options, SourceUrl

POLL = timedelta(milliseconds=250)


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a log is, and how it is used."""

    folder: Path
    shown: str
    fsync: Fsync = ALWAYS
    poll: timedelta = POLL


def read(url: SourceUrl) -> LogSettings:
    """What the URL says; Invalid names what is wrong with it."""
    options = Options(url)
    if url.hosts or not url.path.strip("/"):
        raise options.wrong("it names no folder; write log:///path/to/log")
    settings = LogSettings(
        folder=Path(url.path), shown=str(url), fsync=_fsync(options), poll=options.duration("poll", POLL)
    )
    options.done()
    return settings


def _fsync(options: Options) -> Fsync:
    text = options.text("fsync") or ALWAYS
    if text in (ALWAYS, NEVER):
        return ALWAYS if text == ALWAYS else NEVER
    with suppress(ValueError):
        if period := durations.parse(text):
            return period
    raise options.wrong(f"fsync={text} is unknown; write always, never or a duration such as 1s")
