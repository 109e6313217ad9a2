"""`make show-leaders`: leaders of real fleets are killed and frozen, again and again, on every store."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from shows.report import Line, show
from shows.stores import places
from tests.kit.harness import EtcdHarness, MysqlHarness, PostgresHarness, SqliteHarness
from tests.kit.trials import freeze_the_leader, kill_the_leader

ROUNDS = 10
TTL = 2.0


def leaders_are_killed() -> Iterator[Line]:
    """Another must lead each time."""
    for store, url in stores():
        took = []
        for number in range(ROUNDS):
            with tempfile.TemporaryDirectory(prefix="rota-chaos-") as folder:
                took.append(asyncio.run(kill_the_leader(url(f"kill{number}"), Path(folder), f"{TTL:g}s")).seconds)
        figure = f"{ROUNDS} rounds, median {sorted(took)[ROUNDS // 2]:.2f} s, worst {max(took):.2f} s, ttl {TTL:g} s"
        yield Line(max(took) <= TTL + 1, f"{store}: another leads within ttl + 1 s", figure)


def leaders_are_frozen() -> Iterator[Line]:
    """No write of theirs may be accepted once they are deposed."""
    for store, url in stores():
        accepted = refused = 0
        for number in range(ROUNDS):
            with tempfile.TemporaryDirectory(prefix="rota-chaos-") as folder:
                thaw = asyncio.run(freeze_the_leader(url(f"freeze{number}"), Path(folder), f"{TTL:g}s"))
            accepted, refused = accepted + thaw.accepted, refused + thaw.refused
        yield Line(accepted == 0, f"{store}: {ROUNDS} frozen leaders", f"{accepted} writes accepted, {refused} refused")


def stores() -> Iterator[tuple[str, Callable[[str], str]]]:
    """Each store, and fresh URLs on it."""
    for harness, _ in places(SqliteHarness, EtcdHarness, PostgresHarness, MysqlHarness):
        yield harness.name, lambda beside, harness=harness: harness.url(beside=beside)


if __name__ == "__main__":
    show([leaders_are_killed, leaders_are_frozen])
