"""Asking a source for its list: yielded or returned, async or not.

A resource that is listed twice the same way counts once; listed in two ways, the list is refused, since one of them
must be wrong.
"""

from collections.abc import AsyncIterable, Callable, Iterable
from inspect import isawaitable

from rota.model.errors import Invalid
from rota.resources.core.spec import Resource


async def collect(function: Callable[[], object], accept: Callable[[object], Resource], name: str) -> list[Resource]:
    """The resources that `function` lists, each passed through `accept`; Invalid if it lists anything else."""
    listed = function()
    if isawaitable(listed):
        listed = await listed
    found: dict[str, Resource] = {}
    if isinstance(listed, AsyncIterable):
        async for item in listed:
            _add(found, accept(item))
    elif isinstance(listed, Iterable) and not isinstance(listed, str | bytes):
        for item in listed:
            _add(found, accept(item))
    else:
        raise Invalid(f'source of resource "{name}": it gives {listed!r}; yield resources, or return a list of them')
    return list(found.values())


def _add(found: dict[str, Resource], resource: Resource) -> None:
    if found.setdefault(resource.id, resource) != resource:
        raise Invalid(
            f'source of resource "{resource.kind}": it lists "{resource.id}" twice, and differently; list it once'
        )
