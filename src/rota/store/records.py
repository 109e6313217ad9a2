"""Records that a newer Rota may have written: decoded, or skipped.

Two neighbouring versions share a fleet, so a reader of many records must not fail because of one of them. A reader that
needs a record decodes it itself (`model.codec`) and lets the error pass.
"""

import logging
from typing import TypeVar

from rota.model import codec
from rota.model.errors import Invalid
from rota.store.port import Entry

T = TypeVar("T")


def understood(kind: type[T], entry: Entry | None, log: logging.Logger | None = None) -> T | None:
    """The record; None if there is none, or if this Rota cannot decode it, which is then logged."""
    if entry is None:
        return None
    try:
        return codec.decode(kind, entry.value)
    except Invalid as error:
        if log is not None:
            log.warning("record not understood", extra={"key": entry.key, "why": str(error)})
        return None
