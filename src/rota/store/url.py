"""Store URLs: `sqlite:///path`, `etcd://user@host:2379,host:2379/prefix?timeout=2s`, `memory://name`.

A password in the URL is visible to every user that can list processes. Better: `?password_file=PATH`, or the variable
ROTA_STORE_PASSWORD. It never shows in errors and logs (`model.url`).
"""

import os
from datetime import timedelta

from rota.model import url as urls
from rota.model.url import Url as StoreUrl

__all__ = ["DEFAULT_TIMEOUT", "PASSWORD_VARIABLE", "Options", "StoreUrl", "parse"]

PASSWORD_VARIABLE = "ROTA_STORE_PASSWORD"
DEFAULT_TIMEOUT = timedelta(seconds=5)


def parse(text: str) -> StoreUrl:
    """The parts of `text`; Invalid says how to write a URL."""
    return urls.parse(text, "store", "sqlite:///rota.db or etcd://127.0.0.1:2379")


class Options(urls.Options):
    """The options of a store's URL."""

    def timeout(self) -> timedelta:
        """How long one call to the store may take."""
        return self.duration("timeout", DEFAULT_TIMEOUT)

    def password(self) -> str | None:
        """From `password_file`, else from the URL, else from the environment."""
        secret = self.file("password_file")
        if secret is not None:
            return secret.decode(errors="replace").strip()
        return self._url.password or os.environ.get(PASSWORD_VARIABLE)
