"""Reading a kept log piece by piece."""

from rota.model.link import AttemptId, LogPiece
from rota.store.logs.port import CHUNK, Logs


async def read_piece(kept: Logs, attempt: AttemptId, offset: int) -> LogPiece:
    """What is kept of a log from `offset` on, and whether the log ends with it."""
    is_whole = await kept.is_whole(attempt.run, attempt.number)  # asked first: the log may grow in between
    data = await kept.read(attempt.run, attempt.number, offset)
    return LogPiece(data, is_whole and len(data) < CHUNK)
