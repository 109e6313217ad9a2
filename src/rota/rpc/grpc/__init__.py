"""The node link on gRPC; `rpc.open` opens it by `grpc://host:port`."""

from rota.rpc.grpc.link import open
from rota.rpc.grpc.server import serve

__all__ = ["open", "serve"]
