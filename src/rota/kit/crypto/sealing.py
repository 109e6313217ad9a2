"""Seal a few bytes with a secret that is used once, with nothing but the standard library.

The key stream is SHAKE-256 of the secret, and an HMAC over the result shows whether it was changed. That is sound as
long as a secret seals one text: 32 random bytes, made for it and never used again.
"""

import hashlib
import hmac

SECRET_BYTES = 32
TAG_BYTES = 32


def seal(secret: bytes, text: bytes) -> bytes:
    """The text, readable only with the secret."""
    hidden = _mixed(secret, text)
    return _tag(secret, hidden) + hidden


def unseal(secret: bytes, sealed: bytes) -> bytes:
    """The text; ValueError if it was sealed with another secret, or was changed."""
    tag, hidden = sealed[:TAG_BYTES], sealed[TAG_BYTES:]
    if not hmac.compare_digest(tag, _tag(secret, hidden)):
        raise ValueError("it was sealed with another secret, or was changed")
    return _mixed(secret, hidden)


def _mixed(secret: bytes, text: bytes) -> bytes:
    stream = hashlib.shake_256(b"rota seal stream" + secret).digest(len(text))
    return bytes(one ^ other for one, other in zip(text, stream, strict=True))


def _tag(secret: bytes, hidden: bytes) -> bytes:
    key = hashlib.sha256(b"rota seal tag" + secret).digest()
    return hmac.digest(key, hidden, "sha256")
