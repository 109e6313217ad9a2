"""URLs of committers: `parquet:///data/clicks?by=day&time=ts`, `postgresql://user@host/shop?table=clicks`.

A password in the URL is visible to everyone who can read the app. Better: `?password_file=PATH` or
`?password_env=NAME`. It never shows in errors and logs (`model.url`).
"""

from rota.model import url as urls
from rota.model.url import Url as CommitterUrl

__all__ = ["CommitterUrl", "parse"]


def parse(text: str) -> CommitterUrl:
    """The parts of `text`; Invalid says how to write a URL."""
    return urls.parse(text, "output", "parquet:///data/clicks or postgresql://user@host/shop?table=clicks")
