"""`rota services`: look at the services of nodes, and steer them, on this machine or anywhere in the fleet."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from datetime import timedelta
from itertools import count as counting
from typing import Any

import click
import msgspec

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach import names, steer
from rota.cli.reach.steer import Meant, Reached
from rota.cli.terminal import tables
from rota.cli.verbs import Verbs
from rota.fleet.cli.reload import command as reload
from rota.fleet.cli.rollback import command as rollback
from rota.fleet.cli.stop import command as stop
from rota.kit.time import durations
from rota.model.errors import NotFound, RotaError
from rota.services.cli.rates import per_second
from rota.services.core.records import Latency, ServiceStat

PATIENCE = 15.0
"""Seconds that a node may take to answer; its proxies must answer within 5."""

PACE = 1.0
"""Seconds between two samples."""

name_argument = click.argument("name", metavar="[NAME]", required=False, shell_complete=names.services)


@click.group(cls=Verbs)
def command() -> None:
    """Look at the services of nodes, and steer them.

    They are those of this machine, or with --server, --context, --node or --all-nodes those of a fleet. NAME may be
    left out where an app has one service.
    """


command.add_command(reload, "reload")
command.add_command(rollback, "rollback")
command.add_command(stop, "stop")


@command.command()
@steer.meant()
@options.output(Shape.LIST)
def ls(meant: Meant) -> None:
    """List the services: their addresses and their load.

    Example: rota services ls
    """
    found: list[dict[str, Any]] = []

    async def look() -> None:
        async with steer.reached(meant) as nodes:
            for node in nodes.names:
                try:
                    services = await nodes.call(node, "services", PATIENCE)
                except RotaError as error:
                    if error.exit_code != NotFound.exit_code:
                        raise
                    services = []  # it has none
                found.extend({"node": node, **each} for each in services)

    asyncio.run(look())
    headings = "NODE", "SERVICE", "LISTENING", "ADMIN", "CLIENTS", "WORKERS", "BUSY", "PENDING"
    tables.listed(found, headings, _row, "no services")


@command.command()
@name_argument
@click.option(
    "--loop",
    type=click.IntRange(min=0),
    is_flag=False,
    flag_value=0,
    metavar="[COUNT]",
    help="This many samples, a second apart; without a number, or with 0, until interrupted.  [default: one]",
)
@click.option("--diff", is_flag=True, help="Show the change per second, from one sample to the next.")
@steer.meant()
@options.output(Shape.LIST, lines_with="--loop")
def stat(name: str | None, loop: int | None, diff: bool, meant: Meant) -> None:
    """Show the figures of a service: its groups, how long requests take, and what failed.

    Percentiles are those since the proxy started.

    Example: rota services stat logic --loop 10 --diff
    """
    times = 1 if loop is None else loop

    found: list[dict[str, Any]] = []

    async def show() -> None:
        async with steer.reached(meant) as nodes, aclosing(_samples(nodes, name, times, diff)) as samples:
            async for node, sample in samples:
                if found:
                    tables.say("")
                found.append({"node": node, **msgspec.to_builtins(sample)})
                if loop is not None:
                    tables.line(found.pop())
                _print_sample(node, sample, diff)

    asyncio.run(show())
    if loop is None:
        tables.answer(found)


@command.command()
@name_argument
@click.option("--group", "groups", type=int, multiple=True, metavar="GROUP", help="Only this group; may be repeated.")
@click.option("--all", "is_all", is_flag=True, help="Every group.")
@steer.meant(("--all-nodes",))
@options.output(Shape.LIST)
def clear(name: str | None, groups: tuple[int, ...], is_all: bool, meant: Meant) -> None:
    """Drop the requests that wait for a worker; those that a worker has are finished.

    Example: rota services clear logic --group 2
    """
    if is_all == bool(groups):
        raise click.UsageError("say what to clear: --group GROUP, which may be repeated, or --all")

    def say(node: str, done: dict[str, Any]) -> None:
        dropped = done["dropped"]
        each = ", ".join(f"{count} of group {group}" for group, count in sorted(dropped.items(), key=_by_number))
        tables.say(f"node {node}: {done['service']}: dropped {each}")

    steer.ask(
        meant,
        "service.clear",
        PATIENCE,
        say,
        service=name,
        groups=None if is_all else list(dict.fromkeys(groups)),
        changes=True,
    )


@command.command()
@click.argument("name", metavar="NAME", shell_complete=names.services)
@click.argument("group", type=int, metavar="GROUP")
@click.argument("count", type=click.IntRange(min=1), metavar="COUNT")
@steer.meant()
@options.output(Shape.LIST)
def resize(name: str, group: int, count: int, meant: Meant) -> None:
    """Set the number of workers of a group, until the next reload restores the count in the code.

    Example: rota services resize logic 2 16
    """

    def say(node: str, done: dict[str, Any]) -> None:
        was = f"{done['before']} before"
        tables.say(f"node {node}: {done['service']}: group {group} has {done['count']} workers, {was}")

    steer.ask(meant, "service.resize", PATIENCE, say, service=name, group=group, count=count, changes=True)


@command.command()
@steer.meant()
@options.output(Shape.LIST)
def version(meant: Meant) -> None:
    """Show the nodes' version of Rota, and the generation of their app.

    Example: rota services version
    """

    def say(node: str, status: dict[str, Any]) -> None:
        work = status["work"]
        app = f", {work['app']} generation {work['generation']}" if work else ""
        tables.say(f"node {node}: rota {status['version']}{app}")

    steer.ask(meant, "status", PATIENCE, say)


async def _samples(
    nodes: Reached, service: str | None, times: int, diff: bool
) -> AsyncGenerator[tuple[str, ServiceStat], None]:
    """The samples to show, node by node and time after time; with 0 times, until stopped. A difference needs one sample
    more."""
    before: dict[str, tuple[float, ServiceStat]] = {}
    for look in counting():
        began = time.monotonic()
        for node in nodes.names:
            answer = await nodes.call(node, "service.stat", PATIENCE, service=service)
            now, seen = time.monotonic(), msgspec.convert(answer, ServiceStat)
            if not diff:
                yield node, seen
            elif node in before:
                then, old = before[node]
                yield node, per_second(old, seen, now - then)
            before[node] = now, seen
        if times and look + 1 >= times + diff:
            return
        await asyncio.sleep(max(0.0, began + PACE - time.monotonic()))


def _row(each: dict[str, Any]) -> tuple[str, ...]:
    """One row of the list of services."""
    admin = (each["admin"] or "") if not each["admin_closed"] else f"closed: {each['admin_closed']}"
    if each["stat"] is None:
        return each["node"], each["service"], each["error"], admin, "", "", "", ""
    stat = msgspec.convert(each["stat"], ServiceStat)
    figures = stat.clients, _sum(stat.workers), _sum(stat.busy_workers), _sum(stat.pending_tasks)
    return each["node"], stat.service, _where(stat), admin, *map(str, figures)


def _print_sample(node: str, stat: ServiceStat, is_rate: bool) -> None:
    """Print one sample."""
    up = durations.render(timedelta(seconds=round(stat.uptime_s)))
    cpu = f"{stat.cpu_s:.0%} CPU" if is_rate else f"{stat.cpu_s:.1f} s CPU"
    proxies = "1 proxy" if stat.proxies == 1 else f"{stat.proxies} proxies"
    unit = " per second" if is_rate else ""
    tables.say(
        f"{stat.service} on node {node}: {_where(stat)}; generation {stat.generation}, up {up}, {proxies}, {cpu}"
    )
    clients = "1 client" if stat.clients == 1 else f"{stat.clients} clients"
    tables.say(f"{clients}; {stat.client_req} requests and {stat.client_rsp} answers{unit}")
    tables.show(GROUPS, list(_groups(stat)), "")
    if stat.cmds:
        rows = [(cmd, str(latency.count), *_percentiles(latency)) for cmd, latency in _sorted(stat.cmds)]
        tables.show(("CMD", "DONE", "P50 MS", "P90 MS", "P99 MS"), rows, "")
    for title, counts in (("failures", stat.failures), ("drops", stat.drops)):
        if any(counts.values()):
            each = ", ".join(f"{reason} {count}" for reason, count in counts.items() if count)
            tables.say(f"{title}{unit}: {each}")
    for slow in stat.slow:
        draining = ", which should have ended" if slow.is_draining else ""
        worker = f"worker pid {slow.pid} of generation {slow.generation}{draining}"
        tables.say(f"slow: a request of group {slow.group} (cmd {slow.cmd}) for {slow.age_s:g} s in {worker}")
    if any(stat.tasks_time.values()):
        each = ", ".join(f"{_bound(bound)} {count}" for bound, count in _sorted(stat.tasks_time) if count)
        tables.say(f"took{unit}: {each}")


GROUPS = (
    "GROUP", "WORKERS", "BUSY", "IDLE", "PENDING", "IN FLIGHT", "REQUESTS", "ANSWERS", "DISCARDED", "P50 MS", "P90 MS",
    "P99 MS",
)  # fmt: skip


def _groups(stat: ServiceStat) -> Iterator[tuple[str, ...]]:
    """One row per group, after a row for all groups if there are several."""
    columns = (
        stat.workers, stat.busy_workers, stat.idle_workers, stat.pending_tasks, stat.in_flight, stat.worker_req,
        stat.worker_rsp, stat.discard_tasks,
    )  # fmt: skip
    groups = sorted({group for column in columns for group in column}, key=int)
    if len(groups) > 1:
        yield "all", *(str(_sum(column)) for column in columns), "", "", ""
    for group in groups:
        yield group, *(str(column.get(group, 0)) for column in columns), *_percentiles(stat.groups.get(group))


def _percentiles(latency: Latency | None) -> tuple[str, str, str]:
    if latency is None:
        return "", "", ""
    return f"{latency.p50_ms:.1f}", f"{latency.p90_ms:.1f}", f"{latency.p99_ms:.1f}"


def _where(stat: ServiceStat) -> str:
    """The addresses where the service listens, or why it does not listen."""
    return f"not listening: {stat.not_listening}" if stat.not_listening else ", ".join(stat.listening)


def _bound(bound: str) -> str:
    return bound if bound == "more" else f"<{bound} ms"


def _sorted(counts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(counts.items(), key=_by_number)


def _by_number(item: tuple[str, Any]) -> float:
    """Sort keys that are numbers by value; `more` counts as the greatest."""
    return float("inf") if item[0] == "more" else int(item[0])


def _sum(counts: Mapping[str, int]) -> int:
    return sum(counts.values())
