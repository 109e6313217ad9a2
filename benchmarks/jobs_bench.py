"""Jobs that do nothing: what two worker processes do in a second, and how long a task waits, beside other queues.

In each round every contender is started afresh, one after the other; the servers run all the while and are idle for
whoever does not use them. *End to end*: tasks are enqueued while workers work, so enqueuing is often what bounds it.
*Drained*: the workers stand still until all is enqueued, then do it. *Enqueue to start*: at one task every 10 ms (every
100 ms where each has a process of its own).

Durability is not the same everywhere, and stands in each row: what is in Redis here is lost with its process, RabbitMQ
writes durable messages without waiting for the disk, PostgreSQL syncs each commit. Only rows of the last kind pay for
what Rota's pay for.
"""

import math
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure
from benchmarks.measure import Goal, Row
from benchmarks.queues import (
    OTHERS,
    OURS,
    DramatiqRabbit,
    Procrastinate,
    Queue,
    Rota,
    RotaOneByOne,
    RotaProcess,
    Rq,
    Servers,
    obtain_peers,
)
from tests.kit.servers import Postgres, RabbitMQ, Redis

PACED = 300
"""Tasks whose latency is taken."""

AHEAD = Goal(at=1, short=0)
SAME_DURABILITY = Goal(at=10, short=5)
P99 = Goal(at=1, short=1)
PER_PROCESS = Goal(at=3, short=math.nextafter(3, 0))


@dataclass(frozen=True)
class Figures:
    """What came of one turn."""

    end_to_end: float
    drained: float
    p50: float
    p99: float


Turns = dict[type[Queue], list[Figures]]


def rows(rounds: int, contenders: Sequence[type[Queue]] = (*OURS, *OTHERS)) -> list[Row]:
    """Every figure of jobs."""
    obtain_peers()
    turns: Turns = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder, ExitStack() as stack:
        base = Path(folder)
        base.chmod(0o755)  # PostgreSQL runs as a user of its own
        servers = Servers(
            stack.enter_context(Redis(_made(base / "redis"))),
            stack.enter_context(RabbitMQ(_made(base / "rabbitmq"))),
            stack.enter_context(Postgres(_made(base / "postgres"))),
        )
        for number in range(rounds):
            for kind in contenders[:: -1 if number % 2 else 1]:
                if number < kind.rounds:
                    turns[kind].append(_play(kind(_made(base / f"{kind.__name__}-{number}"), servers)))
    return [*_compared(turns), *(row for kind in turns for row in _alone(kind, turns[kind]))]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _play(queue: Queue) -> Figures:
    """One contender's turn."""
    with queue.working():
        queue.forget()
        queue.enqueue(queue.count, 0)
        seen = queue.until_done(queue.count)
        end_to_end = queue.count / (max(began for _, began in seen) - min(enqueued for enqueued, _ in seen))
        drained = _drain(queue) if queue.can_drain else 0.0
        queue.forget()
        paced = PACED if queue.pace < 0.1 else PACED // 5
        queue.enqueue(paced, queue.pace)
        waited = [began - enqueued for enqueued, began in queue.until_done(paced)]
    return Figures(end_to_end, drained, measure.percentile(50)(waited), measure.percentile(99)(waited))


def _drain(queue: Queue) -> float:
    queue.forget()
    with queue.frozen():
        queue.enqueue(queue.count, 0)
        already = len(queue.seen())
    began = sorted(each for _, each in queue.until_done(queue.count))[already:]
    return (len(began) - 1) / (began[-1] - began[0])


def _compared(turns: Turns) -> Iterator[Row]:
    """Ours beside others, in the rounds that both had."""
    for other in (kind for kind in OTHERS if kind in turns and Rota in turns and kind.can_drain):
        goal = SAME_DURABILITY if other is Procrastinate else AHEAD
        if other is not Rq:
            yield _beside(turns, Rota, other, "drained", "/s", goal)
    for other in (DramatiqRabbit, Procrastinate):
        if other in turns and RotaOneByOne in turns:
            yield _beside(turns, RotaOneByOne, other, "p99", "ms", P99)
    if Rq in turns and RotaProcess in turns:
        yield _beside(turns, RotaProcess, Rq, "end_to_end", "/s", PER_PROCESS)


NAMES = {
    "drained": "drained",
    "p50": "enqueue to start, p50",
    "p99": "enqueue to start, p99",
    "end_to_end": "end to end",
}


def _beside(turns: Turns, ours: type[Queue], other: type[Queue], figure: str, unit: str, goal: Goal) -> Row:
    both = list(zip(turns[ours], turns[other], strict=False))
    return measure.compare(
        f"jobs: {ours.name}, {NAMES[figure]}",
        unit,
        other.name,
        [getattr(theirs, figure) for _, theirs in both],
        [getattr(mine, figure) for mine, _ in both],
        goal,
    )


def _alone(kind: type[Queue], figures: Sequence[Figures]) -> Iterator[Row]:
    for figure, unit in (("end_to_end", "/s"), ("drained", "/s"), ("p50", "ms"), ("p99", "ms")):
        if figure != "drained" or kind.can_drain:
            name = f"jobs: {kind.name} (survives {kind.durability}), {NAMES[figure]}"
            yield measure.alone(name, unit, [getattr(each, figure) for each in figures])
