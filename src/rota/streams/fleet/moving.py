"""Setting the offsets of a stream as an operator asked: resolving a wish to offsets, and having the output set them.

The output keeps what it set, by id. If the leader dies before it has taken the wish out, the next one asks for the same
moves, and gets their results. Offsets alone do not show them, because tasks that publish may have reached the same
ones. A wish is one move, or several where a stream has more partitions than a store takes writes in one commit; each of
them is made once, and all of them before the wish is removed.
"""

import secrets
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby

from rota.model.errors import Conflict, RotaError
from rota.outputs.port import Committer
from rota.streams.core.records import MoveRecord, Reset
from rota.streams.core.where import targets
from rota.streams.fleet.outside import Outside

TOGETHER = 90
"""Partitions whose offsets are set together: a commit takes a hundred writes."""


class NotMade(RotaError):
    """No offset was set: the requested place could not be resolved to offsets."""


def new_id(now: datetime) -> str:
    """An id for the moves of a wish; it begins with the time, so that ids sort by it."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%S%f}-{secrets.token_hex(4)}"


async def wanted(outside: Outside, committed: dict[int, int], reset: Reset, among: Iterable[int]) -> dict[int, int]:
    """Where a wish wants those of these partitions to go on that the source has and the stream reads."""
    known = [each for each in among if each in committed and each in outside.bounds]
    return {each: await outside.offset(each, where) for each, where in targets(reset, known).items()}


async def make(
    output: Committer, outside: Outside, stream: str, reset: Reset, now: datetime
) -> list[MoveRecord] | None:
    """Set offsets as a wish says; returns what was set, now or earlier. None: a task has published meanwhile, try
    again.

    Raises NotMade if the wish cannot be resolved to offsets; then none was set.
    """
    committed = await output.committed()
    portions = dict(_portions(reset.move, committed))
    made = {id: done for id in portions if (done := await output.moved(id)) is not None}
    try:
        left = {id: await wanted(outside, committed, reset, some) for id, some in portions.items() if id not in made}
    except RotaError as error:
        if made:
            raise
        raise NotMade(str(error)) from error
    for id, after in left.items():
        if after:
            before = {partition: committed[partition] for partition in after}
            move = MoveRecord(id=id, stream=stream, before=before, after=after, by=reset.by, why=reset.why, at=now)
            try:
                made[id] = await output.move(move)
            except Conflict:
                return None
    return list(made.values())


def _portions(id: str, committed: Iterable[int]) -> Iterator[tuple[str, list[int]]]:
    """The partitions in portions; every leader makes the same portions."""
    for number, some in groupby(sorted(committed), key=lambda partition: partition // TOGETHER):
        yield f"{id}-{number}", list(some)
