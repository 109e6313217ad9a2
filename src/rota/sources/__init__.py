"""The reading port of streams: partitions of records, read from offsets. Adapters are opened by URL."""

from rota.sources.open import log_place, open_log, open_source
from rota.sources.port import Batch, Bounds, Gap, NewRecord, Reader, Record, Source, Vanished

__all__ = [
    "Batch",
    "Bounds",
    "Gap",
    "NewRecord",
    "Reader",
    "Record",
    "Source",
    "Vanished",
    "log_place",
    "open_log",
    "open_source",
]
