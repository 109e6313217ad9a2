"""Names: the completions for a job, a node or another thing that a command is about.

Offers come from the fleet that the command line, as far as it is typed, would use: through the doors of a node or from
the store. The caller is at a keyboard, so there is no offer where anything goes wrong, and after `LIMIT` this process
ends without one, whatever it is waiting for. Nothing is imported before an offer is asked for.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from rota.cli.reach.fleet import FleetClient

LIMIT = 1.0
"""Seconds that looking for names may take."""

MOST = 200
"""Names that are offered at most."""

Given = Mapping[str, Any]
"""The parameters that are typed so far."""

Find = Callable[[Given, str], Awaitable[Iterable[str]]]
"""The names there are, given what is typed of one."""

Offer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def offer(find: Find) -> Offer:
    """What click asks for the names that `find` finds."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        names = found_in_time(find, ctx.params, incomplete)
        fitting = sorted({name for name in names if name.startswith(incomplete)})
        return [CompletionItem(name) for name in fitting[:MOST]]

    return complete


def found_in_time(find: Find, given: Given, incomplete: str) -> Iterable[str]:
    """The names; none if they are not available. When `LIMIT` has passed, this process ends instead."""
    logging.disable(logging.CRITICAL)  # a log line would stand in the middle of what is being typed
    limit = threading.Timer(LIMIT, os._exit, (0,))
    limit.daemon = True
    limit.start()

    async def look() -> Iterable[str]:
        return await find(given, incomplete)

    try:
        return asyncio.run(look())
    except Exception:  # no offer is better than a traceback at a prompt
        return ()
    finally:
        limit.cancel()


def _of_fleet(find: Callable[["FleetClient", str], Awaitable[Iterable[str]]]) -> Find:
    """Names from the fleet that the command line would use."""

    async def found(given: Given, incomplete: str) -> Iterable[str]:
        from rota.cli.reach import targets  # noqa: PLC0415
        from rota.cli.reach.fleet import opened  # noqa: PLC0415

        async with opened(targets.find(given)) as fleet:
            return await find(fleet, incomplete)

    return found


async def _jobs(fleet: "FleetClient", incomplete: str) -> Iterable[str]:
    from rota.jobs.doors.operations import list_jobs  # noqa: PLC0415

    return [job.name for job in (await fleet.do(list_jobs, prefix=incomplete, limit=MOST)).jobs]


async def _nodes(fleet: "FleetClient", incomplete: str) -> Iterable[str]:
    from rota.fleet.doors.nodes.operations import list_nodes  # noqa: PLC0415

    return [node.id for node in (await fleet.do(list_nodes)).nodes]


async def _kinds(fleet: "FleetClient", incomplete: str) -> Iterable[str]:
    from rota.fleet.doors.nodes.operations import list_nodes  # noqa: PLC0415

    return [kind for node in (await fleet.do(list_nodes)).nodes for kind in node.kinds]


async def _runs(fleet: "FleetClient", incomplete: str) -> Iterable[str]:
    from rota.jobs.doors.run_operations import list_runs  # noqa: PLC0415

    job, slash, _ = incomplete.partition("/")
    return [run.id for run in (await fleet.do(list_runs, job=job if slash else None, limit=MOST)).runs]


async def _resources(fleet: "FleetClient", incomplete: str) -> Iterable[str]:
    from rota.resources.doors.operations import list_resources  # noqa: PLC0415
    from rota.streams.core.records import KIND as STREAM  # noqa: PLC0415

    kind, slash, id = incomplete.partition("/")
    page = await fleet.do(list_resources, kind=kind if slash else None, prefix=id if slash else "", limit=MOST)
    return [view.name for view in page.resources if not view.name.startswith(STREAM)]  # those are the streams' own


async def _streams(fleet: "FleetClient", incomplete: str) -> Iterable[str]:
    from rota.streams.doors.operations import list_streams  # noqa: PLC0415

    return [view.name for view in (await fleet.do(list_streams, prefix=incomplete, limit=MOST)).streams]


async def _hooks(fleet: "FleetClient", incomplete: str) -> Iterable[str]:
    from rota.fleet.doors.hooks import list_hooks  # noqa: PLC0415

    return [hook.name for hook in await fleet.do(list_hooks)]


async def _tokens(fleet: "FleetClient", incomplete: str) -> Iterable[str]:
    from rota.fleet.doors.tokens import list_tokens  # noqa: PLC0415
    from rota.kit.time.clock import SYSTEM  # noqa: PLC0415

    return [token.name for token in await fleet.do(list_tokens, SYSTEM)]


async def _services(given: Given, incomplete: str) -> Iterable[str]:
    """Those of the nodes that the command line means, on this machine or elsewhere."""
    from rota.cli.reach import steer  # noqa: PLC0415

    async with steer.reached(steer.found(given)) as nodes:
        return [each["service"] for node in nodes.names for each in await nodes.call(node, "services", LIMIT)]


async def _contexts(given: Given, incomplete: str) -> Iterable[str]:
    from rota.cli.reach import contexts  # noqa: PLC0415

    return contexts.read().contexts


AFTER = {"run": _runs, "job": _jobs, "stream": _streams, "source": _kinds}
"""The words of `rota why` that a name follows, and which names those are."""


async def _things(given: Given, incomplete: str) -> Iterable[str]:
    """What `rota why` explains: resources, nodes, and the words that names follow."""

    async def both(fleet: "FleetClient", incomplete: str) -> Iterable[str]:
        return [*await _nodes(fleet, incomplete), *await _resources(fleet, incomplete)]

    return [*AFTER, *await _of_fleet(both)(given, incomplete)]


async def _printing(fleet: "FleetClient", incomplete: str) -> Iterable[str]:
    """What `rota logs` shows; services are known to nodes alone, so there is only the word."""
    streams = [f"stream/{name}" for name in await _streams(fleet, incomplete.partition("/")[2])]
    return ["service/", "worker/", *streams, *await _resources(fleet, incomplete), *await _runs(fleet, incomplete)]


async def _named(given: Given, incomplete: str) -> Iterable[str]:
    """What may follow such a word."""
    return await _of_fleet(AFTER[given["thing"]])(given, incomplete)


jobs, runs, streams = offer(_of_fleet(_jobs)), offer(_of_fleet(_runs)), offer(_of_fleet(_streams))
nodes, kinds, resources = offer(_of_fleet(_nodes)), offer(_of_fleet(_kinds)), offer(_of_fleet(_resources))
hooks, tokens = offer(_of_fleet(_hooks)), offer(_of_fleet(_tokens))
services, contexts = offer(_services), offer(_contexts)
printing = offer(_of_fleet(_printing))
things, named = offer(_things), offer(_named)
