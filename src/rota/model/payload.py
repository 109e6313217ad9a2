"""Payloads: what users hand over as bytes, text or plain data, as bytes."""

import msgspec

from rota.model.errors import Invalid

_JSON = msgspec.json.Encoder()


def payload_bytes(payload: object) -> bytes:
    """Bytes as they are, a str as UTF-8, anything else as JSON; Invalid if JSON cannot hold it."""
    match payload:
        case bytes() | bytearray() | memoryview():
            return bytes(payload)
        case str():
            return payload.encode()
        case None:
            raise Invalid("the payload is None; send bytes, a str, or something JSON can hold")
    try:
        return _JSON.encode(payload)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise Invalid(
            f"the payload is {shown(payload)}, which JSON cannot hold ({error}); send bytes or a str"
        ) from None


def shown(value: object) -> str:
    """A value in an error message: as Python writes it, or its type if that is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
