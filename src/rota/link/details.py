"""The code of an error over gRPC: a `google.rpc.Status` with an `ErrorInfo`, in the trailer `grpc-status-details-bin`.

Every gRPC library reads that trailer. The two messages are small and frozen by their contract, so they are written here
by hand: their package is a dependency of nothing else in Rota. Pure.
"""

from rota.model.problems import DOMAIN

TRAILER = "grpc-status-details-bin"
_ERROR_INFO = b"type.googleapis.com/google.rpc.ErrorInfo"


def details(status: int, sentence: str, code: str) -> tuple[str, bytes]:
    """The trailer of a call that ended with this status and sentence."""
    info = _field(1, code.encode()) + _field(2, DOMAIN.encode())
    packed = _field(1, _ERROR_INFO) + _field(2, info)
    return TRAILER, b"\x08" + _varint(status) + _field(2, sentence.encode(errors="replace")) + _field(3, packed)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
