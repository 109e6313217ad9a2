"""`rota config`: the settings in effect, and their origins."""

from pathlib import Path
from typing import Any

import click
import msgspec

from rota.cli import options, settings
from rota.cli.options import Shape
from rota.cli.terminal import tables
from rota.cli.verbs import Verbs
from rota.model.config import SECTIONS


@click.group(cls=Verbs)
def command() -> None:
    """Show the settings that count here."""


@command.command()
@settings.config_file
@click.option("--origin", is_flag=True, help="Show where each value came from.")
@options.output(Shape.OBJECT)
def view(config: Path | None, origin: bool) -> None:
    """Show every setting as a node started here would have it.

    Passwords are not shown.

    Example: rota config view --origin
    """
    found = [setting for section in SECTIONS for setting in settings.look_up(section, {"config": config}).values()]
    tables.answer(_tables(found))
    tables.say("\n".join(_lines(found, origin=origin)))


@command.command()
@settings.config_file
@options.output(Shape.OBJECT)
def check(config: Path | None) -> None:
    """Check whether a node could be started with these settings.

    Whether a resource fits its kind is checked later, when the fleet has that kind.

    Example: rota config check --config rota.toml
    """
    given = {"config": config}
    for section in SECTIONS:
        settings.resolve(section, given)
    declared = settings.resources(given)
    tables.answer({"ok": True, "resources": None if declared is None else len(declared)})
    tables.say(
        "no file, and nothing wrong" if declared is None else f"nothing wrong; {len(declared)} resources declared"
    )


def _tables(found: list[settings.Setting]) -> dict[str, dict[str, dict[str, Any]]]:
    """Each section, and in it each key with its value and origin."""
    sections: dict[str, dict[str, dict[str, Any]]] = {}
    for setting in found:
        option = setting.option
        sections.setdefault(option.section.table, {})[option.name] = {
            "value": _plain(setting),
            "origin": setting.origin,
        }
    return sections


def _plain(setting: settings.Setting) -> Any:
    """A value as JSON has it: numbers and labels as they are, the rest as people write it."""
    option, value = setting.option, setting.value
    if value is None or option.kind in (int, bool) or isinstance(value, dict):
        return value
    return option.render(value)


def _lines(found: list[settings.Setting], *, origin: bool) -> list[str]:
    """The settings as a file would have them, so that lines can be copied into one."""
    lines: list[str] = []
    table = ""
    for setting in found:
        if setting.option.section.table != table:
            table = setting.option.section.table
            lines += [*([""] if lines else []), f"[{table}]"]
        line = _line(setting)
        lines.append(f"{line:<40}  # {setting.origin}" if origin else line)
    return lines


def _line(setting: settings.Setting) -> str:
    """`slots = 100`, or a comment where there is nothing to write."""
    option, value = setting.option, setting.value
    if value is None:
        return f'{option.name} = "off"' if option.can_be_off else f"# {option.name} ="
    return f"{option.name} = {_toml(option, value)}"


def _toml(option: settings.SettingOption, value: Any) -> str:
    if option.kind in (int, bool):
        return option.render(value)
    if isinstance(value, dict):
        pairs = ", ".join(f"{_quoted(name)} = {_quoted(each)}" for name, each in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    return _quoted(option.render(value))


def _quoted(text: str) -> str:
    """A text as TOML writes it: its basic strings are those of JSON."""
    return msgspec.json.encode(text).decode()
