"""`make chaos MINUTES=n STORE=postgresql SEED=n`: a fleet with all four kinds, and everything that can happen to it.

Three servers and four nodes; their processes are killed and frozen, their connections cut, their disks filled. In the
end a ledger says what became of every message, request, run and record. The seed decides what happens in which order.
"""

import asyncio
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from rota.model.errors import Unavailable
from shows.report import Line, show
from tests.kit.chaos import grounds
from tests.kit.chaos.faults import Faults, impossible
from tests.kit.chaos.fleet import NAMES, arena, running
from tests.kit.chaos.ledger import Ledger, reckon
from tests.kit.chaos.processors import MUCH
from tests.kit.harness import EtcdHarness, MysqlHarness, PostgresHarness, StoreHarness
from tests.kit.process import ROOT

STORES: dict[str, type[StoreHarness]] = {
    "etcd": EtcdHarness,
    "postgresql": PostgresHarness,
    "mariadb": MysqlHarness,
}


FEW = 0.01
"""The part of due times that may be late: several faults at a time, all of which hit the same job."""


async def chaos(minutes: float, *, seed: int, store: str = "postgresql") -> Ledger:
    """So many minutes of it, and the ledger; what happens is told on the error output as it comes."""
    with _folder(seed) as base:
        async with arena(base, STORES[store]) as found:
            faults = Faults(found, seed, say=lambda text: _tell(text, base / "tale"))
            async with running(found.producing.run(), found.vitals.run(), found.processors.run(), faults.tend()):
                asking = [asyncio.create_task(client.run()) for client in found.clients]
                await faults.rage(60 * minutes)
                for client in found.clients:
                    client.stop()
                await asyncio.gather(*asking)
            ledger = await reckon(found, faults.damage)
        if not all(line.is_ok for line in lines(ledger)):
            _keep(base, seed)
        return ledger


@contextmanager
def _folder(seed: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rota-chaos-") as folder:
        base = Path(folder)
        base.chmod(0o755)  # PostgreSQL runs as a user of its own
        try:
            yield base
        except BaseException:
            _keep(base, seed)
            raise


def _keep(base: Path, seed: int) -> None:
    """Keep logs and notes of a run that went wrong, so that somebody can look into it."""
    place = ROOT / ".rota" / f"chaos-{seed}"
    for path in (*base.glob("*"), *base.glob("*/*")):
        if path.is_file():
            target = place / path.relative_to(base)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    print(f"logs and notes are in {place.relative_to(ROOT)}", file=sys.stderr, flush=True)


def _tell(text: str, tale: Path) -> None:
    print(text, file=sys.stderr, flush=True)
    with tale.open("a") as file:
        file.write(text + "\n")


def lines(ledger: Ledger) -> Iterator[Line]:
    """The ledger, item by item."""
    yield from _messages(ledger)
    yield from _requests(ledger)
    yield from _runs(ledger)
    yield from _records(ledger)
    yield Line(
        ledger.acts > 0 and not ledger.late_acts,
        "exclusive tasks: none acted after a later one had begun",
        f"{len(ledger.late_acts)} of {ledger.acts:,} acts{_some(ledger.late_acts)}",
    )
    yield from _fleet(ledger)


def _messages(ledger: Ledger) -> Iterator[Line]:
    found = ledger.messages
    yield Line(
        found["lost"] == 0 < found["heard"],
        "messages: all that a replica got and lived 1 s longer is in RabbitMQ",
        f"{found['lost']} lost of {found['heard']:,} ({found['sent']:,} sent, {found['arrived']:,} arrived)",
    )
    yield Line(
        found["repeats"] <= ledger.repeats and found["renamed"] == 0,
        "messages: repeats within what the windows allow, with equal ids",
        f"{found['repeats']} repeats of at most {ledger.repeats:,}, {found['renamed']} under another id, "
        f"{found['disordered']} out of order",
    )


def _requests(ledger: Ledger) -> Iterator[Line]:
    found = ledger.requests
    yield Line(
        found.done > 0 and not found.lost and not found.wrong,
        "requests: each is answered, unless its proxy was killed",
        f"{found.sent:,} sent, {found.done:,} done, {found.refused} refused, {found.excused} lost with a killed proxy, "
        f"{len(found.lost)} lost otherwise, {len(found.wrong)} answered wrongly{_some((*found.lost, *found.wrong))}",
    )
    yield Line(not found.doubled, "requests: none ran twice", f"{len(found.doubled)} did{_some(found.doubled)}")


def _runs(ledger: Ledger) -> Iterator[Line]:
    found = ledger.runs
    when = found.missed_when
    span = f" (due from {min(when):%H:%M:%S} to {max(when):%H:%M:%S})" if when else ""
    yield Line(
        found.is_right,
        "runs: each due time ran once, or was late by 30 s and is listed as missed",
        f"{found.due:,} due, {found.once:,} ran under one token, {found.again} once more because their node was lost, "
        f"{found.missed} listed as missed{span}, {len(found.hasty)} of them too early, "
        f"{len(found.unaccounted)} without account, {len(found.doubled)} doubled"
        f"{_some((*found.unaccounted, *found.doubled, *found.hasty))}",
    )
    yield Line(
        found.missed <= FEW * found.due,
        "runs: faults are got over before due times are late",
        f"{found.missed} of {found.due:,} were late, {ledger.crowded} of them when other machines took more than "
        f"{MUCH:.0%} of the processors' time in the minute before and after",
    )


def _records(ledger: Ledger) -> Iterator[Line]:
    same = sum(ledger.published.get(partition) == each for partition, each in ledger.produced.items())
    produced, published = (sum(count for count, _ in each.values()) for each in (ledger.produced, ledger.published))
    yield Line(
        ledger.published == ledger.produced and produced > 0,
        "records: published rows equal produced records",
        f"{published:,} rows of {produced:,} records, {same} of {len(ledger.produced)} partitions with equal count and "
        "checksum",
    )


def _fleet(ledger: Ledger) -> Iterator[Line]:
    damage = ledger.damage
    took, what = damage.slowest
    yield Line(
        not damage.stuck,
        "the fleet: whole again after each fault",
        f"{took:.1f} s at worst, after {what}{_some(damage.stuck)}",
    )
    ended = [f"{name} with {code}" for name, code in damage.ended if code != Unavailable.exit_code]
    yield Line(
        not ended,
        "nodes: none ended by itself, unless it did not find the store when it started (systemd starts it again)",
        f"{len(ended)} did; {len(damage.ended) - len(ended)} did not find it{_some(ended)}",
    )
    orphans = (*damage.orphans, *ledger.left)
    yield Line(not orphans, "orphans: none of killed agents, none after the stop", f"{len(orphans)}{_some(orphans)}")
    for each in ledger.growth:
        is_flat = each.is_flat or not each.is_judged
        remark = "" if each.is_judged else " (too short to judge)"
        yield Line(
            is_flat,
            f"agent of {each.node}, {each.minutes:.1f} min: memory and open files are flat",
            f"{each.memory[0]:.1f} → {each.memory[1]:.1f} MiB ({each.memory_slope:+.0f} KiB/min), "
            f"{each.files[0]:.0f} → {each.files[1]:.0f} files{remark}",
        )


def _some(things: tuple[str, ...] | list[str]) -> str:
    """The first of them, to be looked at."""
    return f": {'; '.join(things[:3])}" if things else ""


def told(ledger: Ledger) -> str:
    """What was done, in one line."""
    count = Counter(
        f"{fault.victim} {fault.harm}" if fault.victim not in NAMES else str(fault.harm)
        for fault in ledger.damage.faults
    )
    return ", ".join(f"{number} × {what}" for what, number in sorted(count.items()))


def everything_holds(minutes: float, *, seed: int, store: str = "postgresql") -> Iterator[Line]:
    """Chaos, and the lines of its ledger; which seed it was, and what cannot be done here, is said first."""
    left_out = ", ".join(sorted(impossible())) or "nothing"
    print(f"seed {seed}, {minutes:g} minutes on {store}, {len(NAMES)} nodes; left out: {left_out}", flush=True)
    ledger = asyncio.run(chaos(minutes, seed=seed, store=store))
    print(f"{len(ledger.damage.faults)} faults: {told(ledger)}", flush=True)
    yield from lines(ledger)


@click.command()
@click.option("--minutes", type=float, default=3.0, show_default=True)
@click.option("--store", type=click.Choice(list(STORES)), default="postgresql", show_default=True)
@click.option("--seed", type=int, help="Which faults come in which order; any if none is given.")
def main(minutes: float, store: str, seed: int | None) -> None:
    """Chaos on a fleet of real processes with all four kinds."""
    grounds.enter()
    os.chdir(ROOT)
    chosen = random.randrange(1_000_000) if seed is None else seed

    def the_ledger_is_right() -> Iterator[Line]:
        yield from everything_holds(minutes, seed=chosen, store=store)

    show([the_ledger_is_right])


if __name__ == "__main__":
    main()
