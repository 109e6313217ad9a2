"""Sink URLs: `amqp://user@host/vhost?exchange=rota`, `kafka://host,host/topic`, `file:///path`, `stdout://`.

A password in the URL is visible to everyone who can read the app. Better: `?password_file=PATH` or `?password_env=NAME`
(`model.secrets`). It never shows in errors and logs (`model.url`).
"""

from rota.kit.record import replace
from rota.model import secrets
from rota.model import url as urls
from rota.model.secrets import Password
from rota.model.url import Url as SinkUrl

__all__ = ["DEFAULT_WINDOW", "Options", "Password", "SinkUrl", "at_node", "parse"]

DEFAULT_WINDOW = 4096
"""How many messages may be under way unless the URL says otherwise."""


def parse(text: str) -> SinkUrl:
    """The parts of `text`; Invalid says how to write a URL."""
    return urls.parse(text, "sink", "amqp://user@host/vhost?exchange=rota or file:///var/lib/messages.jsonl")


def at_node(url: SinkUrl, node: str) -> SinkUrl:
    """The URL of a file with the node's name for {node} in its path; any other is as it was."""
    return replace(url, path=url.path.replace("{node}", node)) if url.scheme == "file" and node else url


class Options(urls.Options):
    """The options of a sink's URL."""

    def window(self) -> int:
        """How many messages may be under way."""
        return self.number("window", DEFAULT_WINDOW, least=1)

    def password(self, default: str = "") -> Password:
        """From `password_file` or `password_env`, else from the URL."""
        return secrets.password(self._url, self, default)
