"""Opening a source by URL.

The adapter is imported when its scheme is used, so that a driver is needed only where it is used. To add a source: a
module that is an `Adapter`, and a line here; or one in a package of its own (docs/howto/write-a-source.md).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol, cast

from rota.model import adapters
from rota.model.errors import Invalid
from rota.sources import url as urls
from rota.sources.port import Source

if TYPE_CHECKING:
    from rota.sources.log.layout import LogFolder
    from rota.sources.log.log import Log

ADAPTERS = {
    "kafka": "rota.sources.kafka",
    "log": "rota.sources.log.source",
    "memory": "rota.sources.memory",
}
EXTRAS = {"kafka": "kafka"}
"""Which extra brings an adapter's driver."""


@asynccontextmanager
async def open_source(text: str) -> AsyncIterator[Source]:
    """The source at a URL, reached once and ready; closed in the end."""
    url = urls.parse(text)
    source = await _adapter(url).open(url)
    try:
        yield source
    finally:
        await source.close()


def preload(text: str) -> None:
    """Import the adapter of a source before forking, so that forked processes need not."""
    _adapter(urls.parse(text))


def open_log(text: str) -> "Log":
    """The embedded log at a URL, to append to; a context manager. NotFound if it does not exist."""
    from rota.sources.log import log, settings  # noqa: PLC0415  # nobody needs it who only reads from Kafka

    return log.Log(settings.read(_log_url(text)))


def log_place(text: str) -> "LogFolder":
    """The place of an embedded log, to make one there or to give it more partitions."""
    from rota.sources.log import layout, settings  # noqa: PLC0415

    read = settings.read(_log_url(text))
    return layout.LogFolder(read.folder, read.shown)


def _log_url(text: str) -> urls.SourceUrl:
    url = urls.parse(text, "log:///var/lib/rota/clicks")
    if url.scheme != "log":
        raise Invalid(f"source {url}: only a log is made and appended to from here; write log:///path/to/log")
    return url


class Adapter(Protocol):
    """What an adapter's module offers."""

    async def open(self, url: urls.SourceUrl) -> Source:
        """A source that has been reached once; the error has the server's reason."""


def _adapter(url: urls.SourceUrl) -> Adapter:
    return cast(Adapter, adapters.adapter(f"source {url}", url.scheme, ADAPTERS, EXTRAS, adapters.SOURCES))
