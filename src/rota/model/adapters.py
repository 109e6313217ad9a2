"""Finding an adapter by the scheme of a URL.

An adapter's module is imported when its scheme is asked for, so that nobody needs a driver who does not use it.
"""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from rota.model.errors import Invalid


def adapter(shown: str, scheme: str, adapters: Mapping[str, str], extras: Mapping[str, str]) -> ModuleType:
    """The module for a scheme; Invalid names the schemes there are, or the extra that brings the driver.

    `shown` says what is opened, as in "store sqlite:///rota.db". `adapters`: scheme → module. `extras`: scheme → extra.
    """
    name = adapters.get(scheme)
    if name is None:
        known = ", ".join(f"{each}://" for each in adapters)
        raise Invalid(f"{shown}: unknown scheme {scheme}; Rota speaks {known}")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("rota") or scheme not in extras:
            raise
        raise Invalid(
            f"{shown} needs {error.name}, which is not installed; pip install 'rota[{extras[scheme]}]'"
        ) from error
