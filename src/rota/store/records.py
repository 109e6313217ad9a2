"""Records that a newer Rota may have written: understood, or left alone.

Two neighbouring versions share a fleet, so whoever reads many records must not fall over one of them. Who cannot do
without a record decodes it (`model.codec`) and lets the error tell.
"""

import logging
from typing import TypeVar

from rota.model import codec
from rota.model.errors import Invalid
from rota.store.port import Entry

T = TypeVar("T")


def understood(kind: type[T], entry: Entry | None, log: logging.Logger | None = None) -> T | None:
    """The record; None if there is none, or none that this Rota understands, which is then told to `log`."""
    if entry is None:
        return None
    try:
        return codec.decode(kind, entry.value)
    except Invalid as error:
        if log is not None:
            log.warning("record not understood", extra={"key": entry.key, "why": str(error)})
        return None
