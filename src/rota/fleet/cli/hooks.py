"""`rota hooks`: what the fleet does when something happens."""

import click

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach import names
from rota.cli.reach.fleet import ask
from rota.cli.reach.targets import FleetTarget
from rota.cli.terminal import tables
from rota.cli.verbs import ListingGroup
from rota.fleet.doors import hooks as operations
from rota.fleet.doors.hooks import HookView
from rota.kit.time.clock import SYSTEM
from rota.model.errors import Unavailable

HEADINGS = "HOOK", "ON", "EVENTS", "DOES", "WAITING", "DELIVERED", "FAILED", "LAST ERROR"
name_argument = click.argument("name", metavar="NAME", shell_complete=names.hooks)


@click.group(cls=ListingGroup)
def command() -> None:
    """Say what the fleet does when something happens: call a URL, or run a command.

    `rota hooks` alone is `rota hooks ls`.
    """


@command.command()
@options.fleet
@options.output(Shape.LIST)
def ls(fleet: FleetTarget) -> None:
    """List the hooks and the results of their deliveries.

    Example: rota hooks --store sqlite:///rota.db
    """
    tables.listed(ask(fleet, operations.list_hooks), HEADINGS, _row, "no hooks; make one with: rota hooks add NAME …")


@command.command(context_settings={"ignore_unknown_options": True})
@name_argument
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.option("--on", "events", multiple=True, metavar="EVENT", required=True, help="A kind of events, such as node.*.")
@click.option("--url", metavar="URL", help="What to call, with POST.")
@click.option("--timeout", default="10s", show_default=True, metavar="DURATION", help="How long one attempt may take.")
@click.option("--retries", type=int, default=5, show_default=True, metavar="COUNT", help="How many retries.")
@click.option(
    "--per-minute",
    type=int,
    default=60,
    show_default=True,
    metavar="COUNT",
    help="Events it gets in a minute; further events wait.",
)
@options.fleet
@options.output(Shape.OBJECT)
def add(
    name: str,
    words: tuple[str, ...],
    events: tuple[str, ...],
    url: str | None,
    timeout: str,
    retries: int,
    per_minute: int,
    fleet: FleetTarget,
) -> None:
    """Call a URL, or run a command, for each event of some kinds.

    The command runs on the node that delivers the event, with the event as JSON on stdin.

    Example: rota hooks add pager --on node.offline --on node.online --url https://example.com/rota
    """
    fields = {
        "name": name,
        "events": list(events),
        "url": url,
        "command": list(words) or None,
        "timeout": timeout,
        "retries": retries,
        "per_minute": per_minute,
    }
    tables.answer(ask(fleet, operations.create_hook, SYSTEM, fields))
    tables.say(f"added hook {name}")


@command.command()
@name_argument
@options.fleet
@options.output(Shape.OBJECT)
def rm(name: str, fleet: FleetTarget) -> None:
    """Remove a hook; events that wait for it are dropped.

    Example: rota hooks rm pager
    """
    ask(fleet, operations.delete_hook, name)
    tables.answer(tables.deleted(name))
    tables.say(f"deleted hook {name}")


@command.command()
@name_argument
@options.fleet
@options.output(Shape.OBJECT)
def enable(name: str, fleet: FleetTarget) -> None:
    """Enable a hook.

    Example: rota hooks enable pager
    """
    ask(fleet, operations.enable_hook, name, True)
    tables.answer({"name": name, "enabled": True})
    tables.say(f"hook {name} is enabled")


@command.command()
@name_argument
@options.fleet
@options.output(Shape.OBJECT)
def disable(name: str, fleet: FleetTarget) -> None:
    """Disable a hook; it does not get events from while it is disabled.

    Example: rota hooks disable pager
    """
    ask(fleet, operations.enable_hook, name, False)
    tables.answer({"name": name, "enabled": False})
    tables.say(f"hook {name} is disabled")


@command.command()
@name_argument
@options.fleet
@options.output(Shape.OBJECT)
def test(name: str, fleet: FleetTarget) -> None:
    """Deliver a test event to a hook, and report the result; at least one node must be up.

    Example: rota hooks test pager
    """
    trial = ask(fleet, operations.try_hook, SYSTEM, name)
    tables.answer(trial)
    if trial.error:
        raise Unavailable(f"hook {name} failed: {operations.joined(trial.error, trial.output)}")
    tables.say(f"hook {name} got event {trial.event}")


def _row(hook: HookView) -> tuple[str, ...]:
    status = hook.status
    does = f"POST {hook.url}" if hook.url else " ".join(hook.command)
    is_on = "yes" if hook.enabled else "no"
    counts = str(hook.waiting), str(status.delivered), str(status.failed)
    return hook.name, is_on, ",".join(hook.events), does, *counts, operations.joined(status.error, status.output)
