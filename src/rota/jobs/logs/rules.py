"""What every adapter of run logs refuses in the same words. Pure."""

from collections.abc import Sequence

from rota.jobs.logs.port import CHUNK, LogChunk
from rota.model.errors import Invalid

LONGEST_RUN = 400
"""Bytes of a run's name."""


def filler(size: int) -> bytes:
    """The text that stands in a log in place of bytes that never came."""
    return f"\n[rota: {size} bytes are missing here]\n".encode()[:size].rjust(size)


def check(chunks: Sequence[LogChunk]) -> None:
    """Raises Invalid unless all of these chunks can be kept."""
    for chunk in chunks:
        what = f"log of run {chunk.run}, attempt {chunk.attempt}"
        if len(chunk.data) > CHUNK:
            raise Invalid(f"{what}: a chunk of {len(chunk.data)} bytes; {CHUNK} is the most, cut it")
        if chunk.offset < 0:
            raise Invalid(f"{what}: a chunk at {chunk.offset}; offsets begin at 0")
        if not 0 < len(chunk.run.encode()) <= LONGEST_RUN:
            raise Invalid(f"{what}: the run's name must have 1 to {LONGEST_RUN} bytes")
