"""The node link on gRPC; `link.open` opens it by `grpc://host:port`."""

from rota.link.grpc.link import open
from rota.link.grpc.server import serve

__all__ = ["open", "serve"]
