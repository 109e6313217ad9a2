"""Nodes that are asked one by one for what only they can answer: reload, rollback, services.

On this machine they are asked through their control sockets, elsewhere through the doors of any node, which passes the
request on. `--data` and `--id` mean this machine. `--server` and `--context`, or their variables, mean the doors; so do
`--node` and `--all-nodes` where a context is known. What changes something through the doors must say which nodes are
meant.

Nodes are asked in the order of their names, and the first that refuses ends it: a bad reload stays on one node.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import quote

import click
import msgspec

from rota.cli import options
from rota.cli.reach import local, names, targets
from rota.cli.reach.targets import NOWHERE, ServerTarget
from rota.cli.terminal import tables
from rota.cli.terminal.progress import ProgressLine
from rota.model.errors import Invalid, NotFound, RotaError, Unavailable
from rota.runtime import control_socket

ONE_MACHINE = ("sqlite:", "memory:")
"""Stores whose fleets are on one machine."""

F = TypeVar("F", bound=Callable[..., Any])


class Meant(msgspec.Struct, frozen=True):
    """Which nodes a command means."""

    folders: tuple[Path, ...] = ()
    names: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    is_all: bool = False
    server: ServerTarget | None = None
    """The doors to ask at; None: this machine."""


class Reached(Protocol):
    """The nodes that are meant."""

    @property
    def names(self) -> list[str]:
        """In the order of their names."""

    async def call(self, node: str, do: str, timeout: float, **arguments: Any) -> Any:
        """What a node answers; its own error if it refuses."""


def meant(all_names: Iterable[str] = ("--all", "--all-nodes")) -> Callable[[F], F]:
    """The options that say which nodes are meant; the command is given a `Meant`."""

    def decorate(command: F) -> F:
        @wraps(command)
        def run(*args: Any, folders: Any, names: Any, nodes: Any, all_nodes: bool, **given: Any) -> Any:
            named = {name: given.pop(name) for name in ("server", "token", "context")}
            which = {"folders": folders, "names": names, "nodes": nodes, "all_nodes": all_nodes}
            return command(*args, meant=found(named | which), **given)

        decorated = cast(F, run)
        for option in reversed(
            (
                click.option(
                    "--node",
                    "nodes",
                    multiple=True,
                    metavar="ID",
                    shell_complete=names.nodes,
                    help="This node of the fleet; may be repeated.",
                ),
                click.option(
                    *all_names, "all_nodes", is_flag=True, help="All nodes of the fleet, one after the other."
                ),
                *options.SERVER,
                local.data,
                local.node_id,
            )
        ):
            decorated = option(decorated)
        return decorated

    return decorate


def found(given: Mapping[str, Any]) -> Meant:
    """The nodes that these options mean, by their names."""
    folders, names, nodes, is_all = (given[name] for name in ("folders", "names", "nodes", "all_nodes"))
    named = {name: given[name] for name in ("server", "token", "context")}
    server = _server(named, folders or names, nodes or is_all, is_all=is_all)
    return Meant(folders, names, nodes, is_all, server)


def _server(named: dict[str, Any], is_local: object, is_named: object, *, is_all: bool) -> ServerTarget | None:
    """The doors that are meant; None for this machine."""
    if is_local:
        if any(named.values()) or is_named:
            raise click.UsageError("--data and --id are for nodes on this machine; leave them out, or the others")
        return None
    if any(named.values()) or any(os.environ.get(name) for name in (targets.SERVER, targets.CONTEXT)):
        return targets.find(named).server
    if not is_named:
        return None
    try:
        found = targets.find({})
    except Invalid as error:
        if str(error) == NOWHERE:
            return None
        raise
    if is_all and found.store is not None and not found.store.startswith(ONE_MACHINE):
        raise Invalid(
            f"all nodes of the fleet on {found} ({found.origin}) are also those of other machines, which are reached "
            "over a node's API: use --server URL; or leave out --all, for those of this folder"
        )
    return found.server


@asynccontextmanager
async def reached(meant: Meant, *, changes: bool = False) -> AsyncIterator[Reached]:
    """The nodes, to be asked inside; Unavailable if there are none, NotFound if one that was named is not there."""
    if meant.server is None:
        yield Local(await local.nodes(meant.folders, meant.names or meant.nodes))
        return
    if changes and not meant.nodes and not meant.is_all:
        raise click.UsageError("say which nodes of the fleet: --node ID, which may be repeated, or --all-nodes")
    from rota.cli.reach.remote import DoorFleet  # noqa: PLC0415
    from rota.fleet.doors.nodes.operations import list_nodes  # noqa: PLC0415

    async with DoorFleet(meant.server) as fleet:
        there = sorted(view.id for view in (await fleet.do(list_nodes)).nodes if view.is_up and view.app)
        if missing := [node for node in meant.nodes if node not in there]:
            raise NotFound(f'there is no node "{missing[0]}" with an app; there are: {", ".join(there) or "none"}')
        if not there:
            raise Unavailable(f"no node of {meant.server.url} runs an app; see: rota nodes ls")
        yield Elsewhere(fleet, [node for node in there if not meant.nodes or node in meant.nodes])


class Local:
    """Nodes of this machine."""

    def __init__(self, nodes: list[tuple[str, Path]]) -> None:
        self._places = dict(nodes)

    @property
    def names(self) -> list[str]:
        """In the order of their names."""
        return list(self._places)

    async def call(self, node: str, do: str, timeout: float, **arguments: Any) -> Any:
        """What a node answers."""
        return await control_socket.call(self._places[node], do, timeout, **arguments)


class Elsewhere:
    """Nodes behind the doors of one of them."""

    def __init__(self, fleet: Any, names: list[str]) -> None:
        self._fleet, self._names = fleet, names

    @property
    def names(self) -> list[str]:
        """In the order of their names."""
        return self._names

    async def call(self, node: str, do: str, timeout: float, **arguments: Any) -> Any:
        """What a node answers; Unavailable if it takes too long, though it goes on."""
        try:
            async with asyncio.timeout(timeout):
                return await self._asked(node, do, **arguments)
        except TimeoutError:
            raise Unavailable(f"node {node} did not answer within {timeout:g} s; it may still do it") from None

    async def _asked(self, node: str, do: str, **arguments: Any) -> Any:
        match do:
            case "reload" | "rollback":
                return await self._fleet.steer(node, "POST", do, {})
            case "services":
                return (await self._fleet.steer(node, "GET", "services"))["services"]
            case "service.stat":
                found = await self._service(node, arguments["service"])
                if found["stat"] is None:
                    raise Unavailable(f"node {node}: {found['error']}")
                return found["stat"]
            case "service.clear" | "service.resize":
                name = arguments.pop("service") or (await self._service(node, None))["service"]
                path = f"services/{quote(name, safe='')}/{do.removeprefix('service.')}"
                return await self._fleet.steer(node, "POST", path, arguments)
            case _:
                return await self._status(node)

    async def _service(self, node: str, name: str | None) -> dict[str, Any]:
        found: list[dict[str, Any]] = (await self._fleet.steer(node, "GET", "services"))["services"]
        known = [each["service"] for each in found]
        if name is None and len(found) > 1:
            raise Invalid(f"there are several services; name one of {', '.join(known)}")
        chosen = next((each for each in found if name in (None, each["service"])), None)
        if chosen is None:
            raise NotFound(f'node {node} has no service "{name}"; there are {", ".join(known)}')
        return chosen

    async def _status(self, node: str) -> dict[str, Any]:
        from rota.views.fleet_status import fleet_status  # noqa: PLC0415

        seen = next(each for each in (await self._fleet.do(fleet_status))["nodes"] if each["id"] == node)
        work = seen["work"]
        return {
            "version": seen["version"],
            "work": {"app": work.app, "generation": work.generation} if work else None,
        }


def ask(
    meant: Meant,
    do: str,
    timeout: float,
    say: Callable[[str, Any], None],
    *,
    doing: str = "",
    changes: bool = False,
    **arguments: Any,
) -> None:
    """Ask one node after the other, and answer what each has done; the first that refuses ends it.

    `doing`: what is shown meanwhile, like "reloading"; nothing if it does not take long. `changes`: does it do more
    than look?
    """

    async def each(done: list[object]) -> None:
        async with reached(meant, changes=changes) as nodes:
            for count, name in enumerate(nodes.names):
                progress = ProgressLine(f"{doing} {name}", len(nodes.names))
                progress.at(count)
                async with progress.turning() if doing else nullcontext():
                    with _placed(nodes.names, count):
                        answer = await nodes.call(name, do, timeout, **arguments)
                done.append({"node": name, **answer})
                say(name, answer)

    with tables.answering() as done:
        asyncio.run(each(done))


@contextmanager
def _placed(names: list[str], count: int) -> Iterator[None]:
    """An error of one of several nodes names that node, and says which were done before and which were not asked."""
    try:
        yield
    except RotaError as error:
        if len(names) > 1:
            done, left = ", ".join(names[:count]) or "none", ", ".join(names[count + 1 :]) or "none"
            # The same error: scripts depend on its exit code.
            error.args = (f"failed at node {names[count]} (done: {done}; not asked: {left}): {error}",)
        raise
