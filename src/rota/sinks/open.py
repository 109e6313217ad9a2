"""Opening a sink by URL.

The adapter is imported when its scheme is used, so that a driver is needed only where it is used. To add a sink: a
module that is an `Adapter`, and a line here; or one in a package of its own (docs/howto/write-a-sink.md).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, cast

from rota.model import adapters
from rota.model.errors import Invalid
from rota.sinks import url as urls
from rota.sinks.port import Outcomes, Sink

ADAPTERS = {
    "amqp": "rota.sinks.amqp.sink",
    "amqps": "rota.sinks.amqp.sink",
    "kafka": "rota.sinks.kafka",
    "file": "rota.sinks.file",
    "stdout": "rota.sinks.stdout",
    "memory": "rota.sinks.memory",
}
EXTRAS = {"kafka": "kafka"}
"""Which extra brings an adapter's driver."""


@asynccontextmanager
async def open_sink(text: str, outcomes: Outcomes, *, node: str = "") -> AsyncIterator[Sink]:
    """The sink at a URL, reached once and ready; closed in the end, without a flush. `node` is where it is opened."""
    url = urls.at_node(urls.parse(text), node)
    try:
        sink = await _adapter(url).open(url, outcomes)
    except ValueError as error:  # a host or a path that the system does not even look for
        raise Invalid(f"sink {url}: it cannot be opened ({error}); correct its URL") from error
    try:
        yield sink
    finally:
        await sink.close()


class Adapter(Protocol):
    """What an adapter's module offers."""

    async def open(self, url: urls.SinkUrl, outcomes: Outcomes) -> Sink:
        """A sink that has been reached once; the error has the server's reason."""


def _adapter(url: urls.SinkUrl) -> Adapter:
    return cast(Adapter, adapters.adapter(f"sink {url}", url.scheme, ADAPTERS, EXTRAS, adapters.SINKS))
