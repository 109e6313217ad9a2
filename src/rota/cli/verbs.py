"""Groups of commands that understand the words of other tools, and suggest nothing that destroys.

An alias stands for a command under the word that people know it by; help and reference have the command alone.
"""

from collections.abc import Iterable
from difflib import get_close_matches

import click

ALIASES = {
    "list": ("ls",),
    "delete": ("rm", "revoke"),
    "remove": ("rm", "revoke"),
    "describe": ("get", "status"),
    "show": ("get", "status"),
    "cancel": ("interrupt",),
    "create": ("add",),
    "scale": ("resize",),
    "top": ("ls", "stat"),
}
"""Words for commands of a group, each with what it may be called there."""

DESTRUCTIVE = frozenset(
    {"clear", "compact", "disable", "drain", "interrupt", "load", "reset", "reset-offsets", "revoke", "rm", "rollback"}
    | {"rotate", "stop", "suspend", "terminate", "truncate"}
)
"""Commands that nobody should run because a word looks like them."""


def suggestion(word: str, known: Iterable[str]) -> str:
    """What was probably meant, as the end of a sentence; nothing that takes something away."""
    close = get_close_matches(word, [name for name in known if name not in DESTRUCTIVE], 1)
    return f" Did you mean '{close[0]}'?" if close else ""


class Verbs(click.Group):
    """A group whose commands have aliases, and whose suggestions are harmless."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known:
            meant = next((name for name in ALIASES.get(args[0], ()) if name in known), None)
            if meant is None:
                ctx.fail(f"No such command '{args[0]}'.{suggestion(args[0], known)}")
            args = [meant, *args[1:]]
        return super().resolve_command(ctx, args)


class ListingGroup(Verbs):
    """A group whose name alone, or with options, means its `ls`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_bare = not args or (args[0].startswith("-") and args[0] not in ("-h", "--help"))
        return super().parse_args(ctx, ["ls", *args] if is_bare else args)
