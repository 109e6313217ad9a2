"""Reading a kept log piece by piece."""

from rota.jobs.logs.port import CHUNK, Logs
from rota.link.records import AttemptId, LogPiece

FAR = 2**53
"""An offset beyond any log. Databases and file systems accept little more."""


async def read_piece(kept: Logs, attempt: AttemptId, offset: int) -> LogPiece:
    """What is kept of a log from `offset` on, and whether the log ends with it."""
    run, number = attempt.run, attempt.number
    is_whole = await kept.is_whole(run, number)  # checked first: the log may grow in between
    data = await kept.read(run, number, offset) if offset < FAR else b""
    is_last = is_whole and len(data) < CHUNK
    # Checked again: if the log was deleted meanwhile, or begun anew, this is not its end.
    return LogPiece(data, is_last and await kept.is_whole(run, number))
