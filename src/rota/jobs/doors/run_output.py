"""Operations on the output of runs."""

import asyncio
from collections.abc import AsyncGenerator

from rota.doors.log_at import LogAt
from rota.doors.verbs import verb
from rota.fleet.core.access.gate import Access
from rota.jobs.core.records import Outcome, RunRecord, RunState
from rota.jobs.doors.answers import LogPart
from rota.jobs.doors.parameters import AttemptNumber, Offset, RunId
from rota.jobs.doors.reading import run_record
from rota.jobs.logs.port import CHUNK, Logs
from rota.jobs.logs.reading import read_piece
from rota.link.records import AttemptId, LogPiece
from rota.model.errors import Invalid, NotFound, Unavailable
from rota.model.ids import NodeId
from rota.store.port import Store

POLL = 0.5
"""Seconds between two reads of a growing log."""

LINGER = 3.0
"""Seconds to wait for the last output of an attempt that is over."""

AWAY = 10.0
"""Seconds for which the node that has a log may be out of reach while the log is followed."""


@verb("GET", "/v1/runs/{job}/{moment}/log", Access.VIEW, rpc="Runs.ReadLog", codes=("not_found",))
async def read_log(
    store: Store,
    logs: Logs,
    run: RunId,
    *,
    attempt: AttemptNumber = None,
    offset: Offset = 0,
    log_at: LogAt | None = None,
) -> LogPart:
    """A piece of the output of an attempt of a run, from an offset on; the newest attempt unless one is named.

    Where nodes do not share the place for logs, it is read at the node that had the attempt.
    """
    if not 0 <= offset < 2**63:
        raise Invalid(f"offset is {offset}; it must not be below zero, nor above 2^63 - 1")
    record = await run_record(store, run)
    number = _attempt(record, attempt)
    size, node = _log_bytes(record, number), _node_of(record, number)
    if log_at is None or logs.is_shared or node is None:
        piece = await read_piece(logs, AttemptId(run, number), offset)
    elif size is not None and offset >= size:
        piece = LogPiece(b"", is_last=True)  # its node need not be there to say so
    else:
        piece = await log_at(node, AttemptId(run, number), offset)
    end = offset + len(piece.data)
    return LogPart(
        run=run,
        attempt=number,
        offset=offset,
        data=piece.data,
        next=end,
        is_whole=len(piece.data) < CHUNK and (piece.is_last or (size is not None and end >= size)),
    )


@verb(
    "GET",
    "/v1/runs/{job}/{moment}/log/follow",
    Access.VIEW,
    rpc="Runs.FollowLog",
    goes_on="Events `output`, with `attempt`, `offset`, `text` and `next`.",
    codes=("not_found",),
)
async def follow_log(
    store: Store,
    logs: Logs,
    run: RunId,
    *,
    attempt: AttemptNumber = None,
    offset: Offset = 0,
    log_at: LogAt | None = None,
) -> AsyncGenerator[LogPart, None]:
    """What an attempt of a run puts out, from an offset on, until it ends.

    After the first answer, an outage of the node that has the log is waited out, and reading continues where it
    stopped.
    """
    quiet, clock = 0, asyncio.get_running_loop().time
    answered = float("-inf")
    while True:
        try:
            part = await read_log(store, logs, run, attempt=attempt, offset=offset, log_at=log_at)
            record = None if part.data or part.is_whole else await run_record(store, run)
        except Unavailable:
            if clock() - answered > AWAY:
                raise
            await asyncio.sleep(POLL)
            continue
        attempt, offset, answered = part.attempt, part.next, clock()
        if part.data:
            quiet = 0
            yield part
            continue
        if record is None:
            return
        # What was under way when the run ended arrives within a second or two, unless its node was killed then.
        if record.is_over or attempt != record.attempt:
            quiet += 1
            if quiet > LINGER / POLL:
                return
        await asyncio.sleep(POLL)


def _attempt(run: RunRecord, attempt: int | None) -> int:
    newest = run.attempt if run.is_bound or run.is_over else max((each.attempt for each in run.earlier), default=1)
    if attempt is None:
        return newest
    if not 1 <= attempt <= max(newest, run.attempt):
        raise NotFound(f"run {run.id} has no attempt {attempt}; it has had {newest}")
    return attempt


def _node_of(run: RunRecord, attempt: int) -> NodeId | None:
    """The node that has or had an attempt; None if there is none, or if its record was dropped."""
    if attempt == run.attempt:
        return run.node
    return next((each.node for each in run.earlier if each.attempt == attempt), None)


def _log_bytes(run: RunRecord, attempt: int) -> int | None:
    """How many bytes of log a finished attempt has at its node; None if it is not over, or if its node was lost."""
    if run.is_over and attempt == run.attempt:
        outcome = run.outcome or Outcome(state=run.state)
    else:
        outcome = next((each.outcome for each in run.earlier if each.attempt == attempt), Outcome(state=RunState.LOST))
    return None if outcome.state is RunState.LOST else outcome.log_bytes
