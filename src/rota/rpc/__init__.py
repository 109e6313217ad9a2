"""The node link: what nodes say to each other. Links and doors are opened by address."""

from rota.rpc.open import open_link, serve_link
from rota.rpc.port import LinkServer, NodeHandler, NodeLink, NotMe
from rota.rpc.settings import LinkSettings, TlsFiles

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
