"""The node link: calls between nodes. Links and doors are opened by address."""

from rota.link.open import open_link, serve_link
from rota.link.port import LinkServer, NodeHandler, NodeLink, NotMe
from rota.link.settings import LinkSettings, TlsFiles

__all__ = [
    "LinkServer",
    "LinkSettings",
    "NodeHandler",
    "NodeLink",
    "NotMe",
    "TlsFiles",
    "open_link",
    "serve_link",
]
