"""`rota completion`: have the shell complete commands, options and names."""

import click
from click.shell_completion import get_completion_class

VARIABLE = "_ROTA_COMPLETE"
"""The variable with which the shell asks this program for completions."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), metavar="SHELL")
def command(shell: str) -> None:
    """Print a script with which SHELL (bash, zsh or fish) completes commands, options and names of rota.

    Names of jobs, nodes and so on come from the fleet that the command line would use; if that takes longer than a
    second, no names are offered.

    For the current shell: eval "$(rota completion bash)". For every new shell write it to the shell's folder for such
    scripts: ~/.local/share/bash-completion/completions/rota, _rota in a folder of zsh's fpath, or
    ~/.config/fish/completions/rota.fish.

    Example: rota completion bash > ~/.local/share/bash-completion/completions/rota
    """
    found = get_completion_class(shell)
    assert found is not None, f"click knows {shell}"
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, "rota", VARIABLE).source())
