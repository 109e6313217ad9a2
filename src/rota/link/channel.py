"""A plain gRPC channel to the API at another node's door."""

from typing import TYPE_CHECKING

from rota.link.settings import TlsFiles

if TYPE_CHECKING:
    import grpc


def open_channel(address: str, tls: TlsFiles | None) -> "grpc.aio.Channel":
    """A channel to `host:port`, which the caller closes; gRPC is an extra, and imported here."""
    import grpc  # noqa: PLC0415

    if tls is None:
        return grpc.aio.insecure_channel(address)
    from rota.link.grpc import options  # noqa: PLC0415

    return grpc.aio.secure_channel(address, options.link_credentials(tls))
