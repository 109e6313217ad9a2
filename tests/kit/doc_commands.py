"""Commands that pages show, parsed as the program would parse them."""

import click

from rota.cli.main import cli


def parse(arguments: list[str]) -> None:
    """Parse as the program would, down to the command; click's error says what is wrong."""
    context = cli.make_context("rota", list(arguments))
    command: click.Command = cli
    # click keeps the rest of a group's line in a private place, and has no public way to parse without running.
    while isinstance(command, click.Group) and (rest := [*context._protected_args, *context.args]):
        found, inner, rest = command.resolve_command(context, rest)
        assert inner is not None
        context, command = inner.make_context(found, rest, parent=context), inner
