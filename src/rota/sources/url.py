"""Source URLs: `kafka://host,host/topic`, `log:///path/name`, `memory://name`.

A password in the URL is visible to everyone who can read the app. Better: `?password_file=PATH` or `?password_env=NAME`
(`model.secrets`). It never shows in errors and logs (`model.url`).
"""

from rota.model import secrets
from rota.model import url as urls
from rota.model.secrets import Password
from rota.model.url import Url as SourceUrl

__all__ = ["Options", "Password", "SourceUrl", "parse"]


def parse(text: str, like: str = "kafka://host:9092/topic or log:///var/lib/rota/clicks") -> SourceUrl:
    """The parts of `text`; Invalid says how to write a URL: as in `like`."""
    return urls.parse(text, "source", like)


class Options(urls.Options):
    """The options of a source's URL."""

    def password(self) -> Password:
        """From `password_file` or `password_env`, else from the URL."""
        return secrets.password(self._url, self)
