"""Hand-over: which host worker runs which task of this node.

An order is a task this node should run; a `Copy` is a task as one worker runs it. `plan` starts what is missing on the
host with the fewest tasks, stops what is not ordered, and moves tasks off leaving hosts: first the successor runs, then
the old copy is stopped, so that a task always has a successor before it ends. Both copies have the same task id, slot
and epoch.

Pure: the node's shell (`resources.node.tasks`) carries the moves out.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum

import msgspec

from rota.kit.time.instant import Instant
from rota.runtime.core.restart import Falls, RestartPolicy


class CopyPhase(StrEnum):
    """Where a copy stands."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class Copy(msgspec.Struct, frozen=True):
    """A task in one worker."""

    task: str
    epoch: int
    worker: int
    phase: CopyPhase


class StartCopy(msgspec.Struct, frozen=True):
    """Run a task in a worker."""

    task: str
    worker: int


class StopCopy(msgspec.Struct, frozen=True):
    """End a task in a worker."""

    task: str
    epoch: int
    worker: int
    why: str


Move = StartCopy | StopCopy


def plan(
    orders: Mapping[str, int],
    copies: Collection[Copy],
    hosts: Collection[int],
    falls: Mapping[str, Falls],
    policy: RestartPolicy,
    now: Instant,
    apart: Mapping[str, Collection[int]] | None = None,
) -> tuple[list[Move], Instant | None]:
    """Moves towards `orders` (task → epoch) on `hosts`, and when to look again.

    `apart` names the hosts of tasks that may be on no others, which are none of `hosts`.
    """
    apart = apart or {}
    by_task: dict[str, list[Copy]] = defaultdict(list)
    for copy in copies:
        by_task[copy.task].append(copy)
    moves: list[Move] = list(_stops(orders, by_task, hosts, apart))
    load = Counter(dict.fromkeys([*hosts, *(each for some in apart.values() for each in some)], 0))
    load.update(copy.worker for copy in copies if copy.worker in load)
    waits: list[Instant] = []
    for task, epoch in orders.items():
        places = apart.get(task, hosts)
        if not places or _is_placed(by_task[task], epoch, places):
            continue
        start_at = falls.get(task, Falls()).start_at(policy)
        if start_at > now and not by_task[task]:  # while it runs on a leaving host, a successor cannot wait
            waits.append(start_at)
            continue
        host = min(places, key=lambda host: (load[host], host))
        load[host] += 1
        moves.append(StartCopy(task, host))
    return moves, min(waits, default=None)


def _stops(
    orders: Mapping[str, int],
    by_task: Mapping[str, list[Copy]],
    hosts: Collection[int],
    apart: Mapping[str, Collection[int]],
) -> Iterator[StopCopy]:
    for task, copies in by_task.items():
        places = apart.get(task, hosts)
        successor = any(_runs(copy, orders.get(task), places) for copy in copies)
        for copy in copies:
            if copy.phase == CopyPhase.STOPPING:
                continue
            if task not in orders:
                yield StopCopy(task, copy.epoch, copy.worker, "not assigned any more")
            elif copy.epoch != orders[task]:
                yield StopCopy(task, copy.epoch, copy.worker, f"epoch {orders[task]} took its place")
            elif copy.worker not in places and successor:
                yield StopCopy(task, copy.epoch, copy.worker, "handed over")


def _runs(copy: Copy, epoch: int | None, hosts: Collection[int]) -> bool:
    return copy.epoch == epoch and copy.worker in hosts and copy.phase == CopyPhase.RUNNING


def _is_placed(copies: Collection[Copy], epoch: int, hosts: Collection[int]) -> bool:
    """Is there a copy that can stay, or one that must end first: of another epoch, or stopping where the task should
    run?"""
    return any(copy.epoch != epoch or copy.worker in hosts for copy in copies)
