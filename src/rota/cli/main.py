"""`rota`: the command line.

Each noun or verb has a file of its own and imports what it needs when it runs, so that `rota --help` is quick. An
error of Rota's becomes one line on stderr and the exit code of its family; a bug shows its traceback.
"""

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from rota import __version__
from rota.kit import standard_streams
from rota.kit.text.plain import plain
from rota.model.errors import RotaError
from rota.model.url import without_passwords

COMMANDS: Mapping[str, tuple[str, str]] = {
    "audit": ("fleet.cli", "Show who changed what, and verify the audit trail."),
    "completion": ("cli.commands", "Set up shell completion of commands, options and names."),
    "config": ("cli.commands", "Show and check the settings in effect."),
    "context": ("cli.commands", "Show the fleets saved by rota login, and choose one."),
    "events": ("fleet.cli", "Show what happened in the fleet."),
    "hooks": ("fleet.cli", "Manage hooks: URLs and commands called for events."),
    "init": ("cli.commands", "Write a small app to start from."),
    "jobs": ("jobs.cli", "Add, run and inspect jobs."),
    "join": ("fleet.cli", "Make this machine a node of a fleet, with a ticket."),
    "log": ("streams.cli", "Create, fill and read logs for streams."),
    "login": ("cli.commands", "Save a fleet by a node's address, and use it."),
    "logs": ("cli.commands", "Print what resources, services, streams and runs print."),
    "node": ("cli.commands", "Run one node of a fleet."),
    "nodes": ("fleet.cli", "Show, cordon, drain and label nodes."),
    "plan": ("placement.cli", "Show what the leader would change now."),
    "relay": ("relay.cli", "Show the relays and sinks of messages, and wait until all are published."),
    "reload": ("fleet.cli", "Reload the app's code on nodes."),
    "resources": ("resources.cli", "Add, change and inspect resources."),
    "rollback": ("fleet.cli", "Go back to the previous code on nodes."),
    "runs": ("jobs.cli", "Inspect runs and their output, stop and repeat them."),
    "services": ("services.cli", "Inspect and control the services of nodes."),
    "simulate": ("cli.commands", "Simulate a fleet in virtual time, with faults, from seed numbers."),
    "status": ("fleet.cli", "Show who leads, which nodes there are and what they run."),
    "stop": ("fleet.cli", "Stop nodes on this machine."),
    "store": ("cli.commands", "Check, dump, load and compact a fleet's store."),
    "streams": ("streams.cli", "Inspect, stop and resume streams, and set their offsets."),
    "ticket": ("fleet.cli", "Make, list and revoke tickets for new machines."),
    "tls": ("fleet.cli", "Make, renew and revoke certificates for nodes and clients."),
    "token": ("fleet.cli", "Make, list, rotate and revoke tokens."),
    "up": ("cli.commands", "Run an app on a fleet on this machine."),
    "why": ("fleet.cli", "Explain why a resource is on its nodes, or what delays a run, job or stream."),
}
"""By name: the package its module is in, below `rota`, and what it does. A kind's commands are in the kind's folder."""


ALIASES = {
    "cancel": ["runs", "interrupt"],
    "describe": ["why"],
    "list": ["status"],
    "ps": ["status"],
    "top": ["nodes", "ls"],
}
"""Words of other tools, and what they are here."""


class LazyGroup(click.Group):
    """Commands by name, imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        home, _ = COMMANDS[cmd_name]
        module = import_module(f"rota.{home}.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] == "version":
            click.echo(f"rota {__version__}")
            ctx.exit()
        if args[0] == "help":
            if not args[1:]:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [*args[1:], "--help"]
        args = [*ALIASES.get(args[0], [args[0]]), *args[1:]]
        if args[0] not in COMMANDS:
            from rota.cli.verbs import suggestion  # noqa: PLC0415  # completion imports no command

            ctx.fail(f"No such command '{args[0]}'.{suggestion(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The possible completions; no command is imported for them, as the user is waiting."""
        names = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(COMMANDS.items())])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="rota %(version)s")
def cli() -> None:
    """Rota keeps Python work running on a fleet of machines.

    Try `rota up app.py --nodes 3` in one terminal, and `rota status` in another.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    standard_streams.fill_in()
    hide_passwords(sys.argv)
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # the library's own lines on stderr have another form than our log
    try:
        code: Any = cli.main(args=arguments, prog_name="rota", standalone_mode=False)
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except RotaError as error:
        code = report(error)
    except BaseExceptionGroup as group:
        cause = single_cause(group)
        if cause is None:
            raise
        code = report(cause)
    sys.exit(code)


def hide_passwords(argv: list[str]) -> None:
    """Have process lists show this process without passwords in URLs; for a moment they stood there all the same."""
    shown = [without_passwords(word) for word in argv]
    if shown != argv:
        import setproctitle  # noqa: PLC0415  # which no other command needs

        setproctitle.setproctitle(" ".join(shown))


def report(error: RotaError) -> int:
    """One line about an error; its exit code."""
    click.echo(plain(f"rota: {error}", keep="\n"), err=True)
    return error.exit_code


def single_cause(group: BaseExceptionGroup[BaseException]) -> RotaError | None:
    """The first of Rota's errors in a group that holds nothing else."""
    expected, bugs = group.split(RotaError)
    if bugs is not None or expected is None:
        return None
    cause: BaseException = expected
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause if isinstance(cause, RotaError) else None
