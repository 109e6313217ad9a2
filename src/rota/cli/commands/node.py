"""`rota node`: one member of a fleet."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import click

from rota.cli import settings
from rota.cli.terminal import own_log
from rota.kit import collector
from rota.kit.record import replace
from rota.model.config import (
    CommandsConfig,
    EventsConfig,
    JobsConfig,
    LogConfig,
    NodeConfig,
    PeersConfig,
    RelayConfig,
    RetentionConfig,
    RuntimeConfig,
    SupervisorConfig,
)
from rota.model.errors import Invalid


@click.command()
@click.argument("app", required=False, type=click.Path())
@settings.options(
    NodeConfig,
    only=(
        "store",
        "id",
        "data",
        "fleet",
        "role",
        "lease_ttl",
        "http",
        "grpc",
        "advertise",
        "token",
        "tls",
        "insecure",
        "slots",
    ),
)
@click.option(
    "--label", multiple=True, metavar="NAME=VALUE", help="A label of the node, for placement; may be repeated."
)
@settings.options(RuntimeConfig)
@settings.options(LogConfig)
@settings.config_file
def command(app: str | None, label: tuple[str, ...], config: Path | None, **flags: Any) -> None:
    """Run one node of a fleet.

    APP is the program whose work it runs: a file or a module, with :name if it has several apps. Without an app the
    node joins, and leads if it is elected, but runs no work.

    TERM finishes what runs and stops; INT, or a second TERM, stops at once; HUP reloads the app
    and reads the resources in rota.toml again.

    Example: rota node --store sqlite:///rota.db --id a app.py
    """
    from rota.compose import NodeSettings, run_node  # noqa: PLC0415  # not needed for --help
    from rota.doors import telemetry  # noqa: PLC0415
    from rota.fleet.members.reach import reachable  # noqa: PLC0415
    from rota.runtime import manager  # noqa: PLC0415

    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the node handles it
    given = {**flags, "app": app, "config": config, "labels": _labels(label) if label else None}
    log = settings.resolve(LogConfig, given).config
    own_log.to_stderr(log.level, log.format)
    node = settings.resolve(NodeConfig, given)
    sockets = _sockets_of_the_one_who_started_us()
    is_default = {node.origins["http"], node.origins["grpc"]} == {settings.DEFAULT}
    made = NodeSettings(
        changed=lambda: settings.changed(replace(made, node=node.config).sections, given),
        node=node.config if sockets is not None else reachable(node.config, is_default=is_default),
        runtime=settings.resolve(RuntimeConfig, given).config,
        commands=settings.resolve(CommandsConfig, given).config,
        events=settings.resolve(EventsConfig, given).config,
        retention=settings.resolve(RetentionConfig, given).config,
        log=log,
        relay=settings.resolve(RelayConfig, given).config,
        supervisor=settings.resolve(SupervisorConfig, given).config,
        supervisor_again=lambda: settings.resolve(SupervisorConfig, given).config,
        peers=settings.resolve(PeersConfig, given).config,
        jobs=settings.resolve(JobsConfig, given).config,
        resources=lambda: settings.resources(given),
        declared_jobs=lambda: settings.jobs(given),
        telemetry=telemetry.wanted(os.environ),
        manager=manager.from_environ(os.environ, os.getpid()),
        sockets=sockets,
        may_move=is_default,
    )
    _hold_on_to_the_one_who_started_us()
    collector.look_rarely(collector.BIG)
    asyncio.run(_run(made, run_node))


async def _run(made: Any, run_node: Any) -> None:
    from rota.compose import Stop  # noqa: PLC0415

    stop, loop = Stop(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, _terminate, stop)
    loop.add_signal_handler(signal.SIGINT, _interrupt, stop)
    await run_node(made, stop)


def _terminate(stop: Any) -> None:
    """Finish and stop; asked again, stop at once."""
    if stop.asked.is_set():
        _interrupt(stop)
    stop.ask()


def _interrupt(stop: Any) -> None:
    """Stop at once; at the second signal do not even leave the fleet. Workers die with their lifelines, and the lease
    expires."""
    if stop.now.is_set():
        os._exit(130)
    stop.ask(now=True)


def _hold_on_to_the_one_who_started_us() -> None:
    """`rota up` hands down a lifeline: this node ends when that process does."""
    if lifeline := os.environ.pop("ROTA_LIFELINE", None):
        from rota.runtime.system import kernel  # noqa: PLC0415

        kernel.die_with(int(lifeline))


def _sockets_of_the_one_who_started_us() -> int | None:
    """`rota up` hands down a channel over which its nodes borrow the sockets that they share."""
    from rota.services.node import shared_sockets  # noqa: PLC0415

    number = os.environ.pop(shared_sockets.ENVIRON, None)
    if number is None:
        return None
    os.set_inheritable(int(number), False)
    return int(number)


def _labels(pairs: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise Invalid(f'--label "{pair}" is not a pair; write --label zone=a')
        found[name] = value
    return found
