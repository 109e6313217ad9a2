"""Requests: what a service answers with two workers, 100 bytes there and back, beside burst.

In each round every contender is started afresh and asked by 16 and by 64 connections; then the next one. Nobody else is
running meanwhile. Ratios are taken within a round. Strict means that a request goes to an idle worker only, which is
what burst does; with concurrency=16 a worker may have 16 at a time, if its handler is async.

gunicorn, uvicorn and grpc.aio are of another trade: each answers in the very process that accepts, so there is no
proxy, no queue, no idle worker to find. Their figures say where the machine stands; nothing is judged by them.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import measure
from benchmarks.contenders import PEERS, RIVALS, Contender, Figures, Original, Strict, Wide
from benchmarks.measure import Goal, Row

CONNECTIONS = (16, 64)
SECONDS = 2.0
WARM_UP = 0.5

RATES: Mapping[type[Contender], Goal] = {Strict: Goal(at=10, short=6), Wide: Goal(at=20, short=12)}
P99 = Goal(at=0.333, short=0.333)

Turns = dict[tuple[type[Contender], int], list[Figures]]
"""Each round's figures, by who was asked and by how many connections."""


def rows(rounds: int, contenders: Sequence[type[Contender]] = (*RIVALS, *PEERS)) -> list[Row]:
    """Every figure of services."""
    turns: Turns = {(kind, connections): [] for kind in contenders for connections in CONNECTIONS}
    for number in range(rounds):
        for kind in contenders[:: -1 if number % 2 else 1]:
            _play(kind, turns)
    ours = [kind for kind in contenders if kind in RATES]
    others = [kind for kind in contenders if kind not in RATES and not (ours and kind is Original)]
    return [
        *(row for kind in ours for connections in CONNECTIONS for row in _beside_burst(kind, connections, turns)),
        *(row for kind in others for connections in CONNECTIONS for row in _alone(kind, connections, turns)),
    ]


def _play(kind: type[Contender], turns: Turns) -> None:
    """One contender's turn in a round."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        contender = kind(Path(folder))
        with contender.serving():
            contender.ask(CONNECTIONS[0], WARM_UP)
            for connections in CONNECTIONS:
                turns[kind, connections].append(contender.ask(connections, SECONDS))


def _beside_burst(kind: type[Contender], connections: int, turns: Turns) -> list[Row]:
    """Ours against burst's, round by round."""
    ours, theirs = turns[kind, connections], turns[Original, connections]
    what, against = f"services: {kind.name}, {connections} connections", Original.name

    def compared(name: str, unit: str, figure: Callable[[Figures], float], goal: Goal | None) -> Row:
        return measure.compare(
            f"{what}, {name}", unit, against, [figure(each) for each in theirs], [figure(each) for each in ours], goal
        )

    return [
        compared("requests", "/s", lambda each: each.per_second, RATES[kind]),
        compared("p50", "µs", lambda each: each.p50_us, None),
        compared("p99", "µs", lambda each: each.p99_us, P99),
        compared("proxy's CPU per request", "µs", lambda each: each.cpu_us.get("proxy", 0.0), None),
        compared("workers' CPU per request", "µs", lambda each: each.cpu_us.get("worker", 0.0), None),
    ]


def _alone(kind: type[Contender], connections: int, turns: Turns) -> list[Row]:
    """The figures of somebody else."""
    figures, what = turns[kind, connections], f"services: {kind.name}, {connections} connections"
    return [
        measure.alone(f"{what}, requests", "/s", [each.per_second for each in figures]),
        measure.alone(f"{what}, p99", "µs", [each.p99_us for each in figures]),
        measure.alone(f"{what}, CPU per request", "µs", [sum(each.cpu_us.values()) for each in figures]),
    ]
