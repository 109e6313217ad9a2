"""Which module opens a URL, by its scheme.

An adapter's module is imported when its scheme is used, so that a driver is needed only where it is used. Other
packages may offer adapters, as entry points whose name is the scheme: sinks in the group `rota.sinks`, sources in
`rota.sources`. Rota's own come first, and cannot be replaced.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from rota.model.errors import Invalid

SINKS, SOURCES = "rota.sinks", "rota.sources"
"""The groups of entry points in which packages offer adapters."""

OTHERWISE = {
    "postgres": ("postgresql",),
    "pg": ("postgresql",),
    "mariadb": ("mysql",),
    "sqlite3": ("sqlite",),
    "rabbitmq": ("amqp",),
    "rabbit": ("amqp",),
}
"""What other programs call a scheme."""


def adapter(
    shown: str, scheme: str, adapters: Mapping[str, str], extras: Mapping[str, str], group: str | None = None
) -> Any:
    """What opens a scheme; Invalid names the schemes there are, or the extra that brings the driver.

    `shown` says what is opened, as in "store sqlite:///rota.db". `adapters`: scheme → module. `extras`: scheme → extra.
    `group`: where packages may offer more.
    """
    name = adapters.get(scheme)
    if name is None:
        return _offered(shown, scheme, adapters, group)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("rota") or scheme not in extras:
            raise
        raise Invalid(
            f"{shown} needs {error.name}, which is not installed; pip install 'rota[{extras[scheme]}]'"
        ) from error


def offered(group: str) -> dict[str, EntryPoint]:
    """What the packages that are installed here offer, by scheme."""
    return {point.name: point for point in entry_points(group=group)}


def _meant(scheme: str, known: Sequence[str]) -> str:
    """A question that names the scheme that was probably meant; empty if there is none."""
    near = [other for other in OTHERWISE.get(scheme, ()) if other in known] or get_close_matches(scheme, known, 1)
    return f" (did you mean {near[0]}://?)" if near else ""


def _offered(shown: str, scheme: str, adapters: Mapping[str, str], group: str | None) -> Any:
    others = offered(group) if group else {}
    if scheme not in others:
        known = (*adapters, *sorted(others))
        all_known = ", ".join(f"{each}://" for each in known)
        raise Invalid(f"{shown}: unknown scheme {scheme}{_meant(scheme, known)}; Rota speaks {all_known}")
    who = f"{others[scheme].value}, which offers {scheme}://,"
    try:
        found = others[scheme].load()
    except Exception as error:  # any error that a third-party module raises
        raise Invalid(f"{shown}: {who} cannot be loaded: {type(error).__name__}: {error}") from None
    if not callable(getattr(found, "open", None)):
        raise Invalid(f"{shown}: {who} has no function open; it must have one")
    return found
