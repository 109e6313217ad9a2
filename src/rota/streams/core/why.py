"""Why a stream is behind, or does not read, from the statuses that its leader and its tasks wrote.

Pure: nothing here asks the store.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from rota.resources.core.records import ResourceStatus
from rota.streams.core.records import StreamState, StreamStatus, StreamTaskStatus, StreamWishes

SHOWN = 10
"""Tasks and groups that are named one by one."""

QUIET = timedelta(seconds=30)
"""A task that has reported nothing for this long may be gone."""


def held(
    wishes: StreamWishes,
    status: StreamStatus | None,
    tasks: Sequence[StreamTaskStatus],
    placed: Mapping[str, ResourceStatus],
    now: datetime,
    *,
    is_led: bool,
) -> Iterator[str]:
    """Each thing that holds a stream back; `placed` are the resources that its tasks are placed by, by name."""
    if not is_led:
        yield "no node leads, so the stream is not managed"
    if wishes.is_terminated:
        yield "it was terminated; it reads nothing more"
    elif wishes.is_suspended:
        yield f"it is suspended{f' by {wishes.by}' if wishes.by else ''}; go on with: rota streams resume"
    if wishes.reset is not None:
        yield "its offsets are being set; the groups that read end first"
    if status is None:
        yield "no leader has looked at it yet"
        return
    if status.waits:
        yield status.waits
    if status.state in (StreamState.UNHEALTHY_SUPERVISOR, StreamState.UNHEALTHY_TASKS):
        yield f"{status.state}{f': {status.errors[-1].why}' if status.errors else ''}"
    if status.detail:
        yield status.detail
    short = [(name, each) for name, each in sorted(placed.items()) if each.assigned < each.replicas]
    for name, each in short[:SHOWN]:
        yield f"group {name} has {each.assigned} of {each.replicas} tasks placed: {each.pending}"
    yield from _of_tasks(tasks, now)
    if status.lag and (unpublished := _unpublished(status, tasks)):
        yield f"{unpublished} of its {status.lag} records are read, and wait for the next publish"


def _of_tasks(tasks: Sequence[StreamTaskStatus], now: datetime) -> Iterator[str]:
    ill = [task for task in tasks if task.error or task.trouble]
    for task in ill[:SHOWN]:
        yield f"task {task.slot} of group {task.group} on {task.node}: {task.error or task.trouble}"
    quiet = [task for task in tasks if now - task.at >= QUIET]
    for task in quiet[:SHOWN]:
        since = f"{(now - task.at).total_seconds():.0f} s"
        yield f"task {task.slot} of group {task.group} on {task.node} has said nothing for {since}"
    if asked := [task for task in tasks if task.wants_checkpoint]:
        yield f"{len(asked)} tasks wait for a checkpoint: {asked[0].wants_checkpoint}"


def _unpublished(status: StreamStatus, tasks: Sequence[StreamTaskStatus]) -> int:
    """Records that tasks have read and that are not in the output yet."""
    read: dict[int, int] = {}
    for task in tasks:
        for partition, offset in task.offsets.items():
            read[partition] = max(offset, read.get(partition, 0))
    return sum(max(0, offset - status.committed.get(partition, offset)) for partition, offset in read.items())
