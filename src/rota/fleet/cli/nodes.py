"""`rota nodes`: what the nodes offer, what of it is taken and how busy they are; cordon, drain, slots, labels."""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from datetime import timedelta

import click
import msgspec

from rota.cli import options
from rota.cli.options import Shape
from rota.cli.reach import names
from rota.cli.reach.fleet import FleetClient, ask, on_fleet
from rota.cli.reach.targets import FleetTarget
from rota.cli.terminal import tables
from rota.cli.terminal.progress import ProgressLine
from rota.cli.verbs import ListingGroup
from rota.doors import limits
from rota.fleet.doors.nodes import operations as node_operations
from rota.fleet.doors.nodes.answers import NodeView
from rota.fleet.doors.nodes.labels import label_node
from rota.kit.time import durations
from rota.kit.time.clock import SYSTEM
from rota.model.errors import RotaError
from rota.model.node import NodeLoad
from rota.resources.core.records import Drain, ResourceStatus
from rota.resources.doors import operations as resource_operations

LOOK = 0.5
"""Seconds between looks at how far a drain has come."""

LOOKS = 5
"""Checks of an empty node before a task that no other node runs counts as stopped."""

AHEAD = timedelta(minutes=1)
"""How far the leader's clock, by which a drain is over, may be ahead of ours."""

SHOWN = 5
"""The most reasons shown for tasks that cannot move."""

HEADINGS = (
    *("NODE", "ROLE", "UP", "STANDING"),
    *("LOAD", "CPU", "MEM", "EXECUTORS"),
    *("SLOTS", "TASKS", "CLOSED", "KINDS", "LABELS"),
)


@click.group(cls=ListingGroup)
def command() -> None:
    """Show the nodes, and say which of them get new tasks.

    `rota nodes` alone is `rota nodes ls`.
    """


@command.command()
@options.fleet
@options.output(Shape.LIST)
def ls(fleet: FleetTarget) -> None:
    """List the nodes: their capacity, what is used of it, their load, and which are cordoned.

    STANDING is the verdict of the other nodes: online, suspect or offline. LOAD is from 0, idle, to 100, busy.

    Example: rota nodes --store sqlite:///rota.db
    """
    found = ask(fleet, node_operations.list_nodes).nodes
    tables.listed(found, HEADINGS, _row, "no nodes; start one with: rota node --store …")


@command.command()
@options.fleet
@options.output(Shape.OBJECT)
def idlest(fleet: FleetTarget) -> None:
    """Show the node with the lowest load, of those that may get work and are reached.

    Example: rota nodes idlest
    """
    found = ask(fleet, node_operations.idlest_node)
    tables.answer(found)
    tables.say(f"{found.node} has load {found.score:.2f} and {found.executors_free} free executors")


@command.command()
@click.argument("node", metavar="NODE", shell_complete=names.nodes)
@click.option("--why", metavar="TEXT", default="", help="The reason, shown to others.")
@options.fleet
@options.output(Shape.OBJECT)
def cordon(node: str, why: str, fleet: FleetTarget) -> None:
    """Place no new tasks on a node; it keeps those it has.

    Example: rota nodes cordon n1 --why 'disk is full'
    """
    done = ask(fleet, node_operations.cordon_node, SYSTEM, node, why)
    tables.answer(done)
    tables.say(f"node {node} is cordoned since {done.since:%Y-%m-%d %H:%M:%S} UTC")


@command.command()
@click.argument("node", metavar="NODE", shell_complete=names.nodes)
@options.fleet
@options.output(Shape.OBJECT)
def uncordon(node: str, fleet: FleetTarget) -> None:
    """Allow new tasks on a node again.

    Example: rota nodes uncordon n1
    """
    had_one = ask(fleet, node_operations.uncordon_node, node)
    tables.answer({"node": node, "was_cordoned": had_one})
    tables.say(f"node {node} is not cordoned any more" if had_one else f"node {node} was not cordoned")


@command.command()
@click.argument("node", metavar="NODE", shell_complete=names.nodes)
@click.option("--deadline", type=options.Duration(), help="Stop remaining tasks at this time; default: never.")
@click.option("--why", metavar="TEXT", default="", help="The reason, shown to others.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the last task has gone.")
@options.fleet
@options.output(Shape.OBJECT)
def drain(node: str, deadline: timedelta | None, why: str, no_wait: bool, fleet: FleetTarget) -> None:
    """Move all tasks of a node to other nodes, and place no new ones on it.

    Each task is started on another node first, and stops on this one when it runs there; exclusive tasks stop first.
    The exit code is 0 when the node has no task left, and 1 if the deadline came first and the rest was stopped.

    Example: rota nodes drain n1 --deadline 10m --why 'new kernel'
    """
    on_fleet(fleet, lambda open: _drain(open, node, deadline, why, no_wait))


async def _drain(fleet: FleetClient, node: str, deadline: timedelta | None, why: str, no_wait: bool) -> None:
    # Without a deadline of ours there may be one of an earlier drain.
    before = _Before() if no_wait else await _Before.of(fleet, node)
    begun = await fleet.do(node_operations.drain_node, node, why=why, deadline=deadline)
    if no_wait:
        tables.answer(begun)
        tables.say(f"node {node} is drained; it had {begun.tasks} tasks")
        return
    progress = ProgressLine(f"draining {node}", begun.tasks)
    async with progress.turning() if progress.is_live else nullcontext():
        await _until_it_is_empty(fleet, node, begun, before, progress)
    tables.answer(begun)
    tables.say(f"node {node} is drained: {begun.tasks} of {begun.tasks} tasks have moved")


class _Before(msgspec.Struct, frozen=True):
    """The tasks of a node before its drain, and how their resources were covered."""

    tasks: frozenset[str] = frozenset()
    assigned: Mapping[str, int] = msgspec.field(default_factory=dict)

    @classmethod
    async def of(cls, fleet: FleetClient, node: str) -> "_Before":
        tasks = frozenset(await fleet.do(node_operations.list_tasks, node))
        wanted = {_resource(task) for task in tasks}
        return cls(tasks, {name: each.assigned for name, each in (await _statuses(fleet)).items() if name in wanted})

    async def missed(self, fleet: FleetClient, there: Collection[str]) -> set[str]:
        """Tasks that were stopped: they have left the node, and no other node runs them."""
        gone = self.tasks - set(there)
        now = await _statuses(fleet) if gone else {}
        return {
            task
            for task in gone
            if (status := now.get(name := _resource(task)))
            and status.assigned < min(status.replicas, self.assigned.get(name, 0))
        }


async def _until_it_is_empty(
    fleet: FleetClient, node: str, begun: Drain, before: _Before, progress: ProgressLine
) -> None:
    """Return when the last task has gone; RotaError if the deadline came first, or the node was undrained."""
    shown, stuck, looks = (-1, ""), "", 0
    while True:
        there = await fleet.do(node_operations.list_tasks, node)
        to_go = begun.deadline - await fleet.now() if begun.deadline is not None else timedelta.max
        is_over = to_go <= timedelta()
        # The leader may find that it is over before we do. But an exclusive task is missed for a moment when it moves.
        late = await before.missed(fleet, there) if is_over or (not there and to_go < AHEAD) else set()
        looks += bool(late)
        if (is_over and (there or late)) or looks > LOOKS:
            stuck = await _stuck(fleet, node) or stuck
            count = len({*there, *late})
            raise RotaError(f"node {node}: {count} tasks were there at the deadline, and are stopped{stuck}")
        if not there and not late:
            return
        left = len(there)
        # All resources are read for this: only when it has come to a stop.
        stuck = await _stuck(fleet, node) if left == shown[0] else ""
        if progress.is_live:
            progress.at(begun.tasks - left, note=stuck.removeprefix("; "))
        elif (left, stuck) != shown:
            tables.say(f"{begun.tasks - left} of {begun.tasks} tasks have moved{stuck}")
        shown = left, stuck
        if not any(each.id == node and each.drain for each in (await fleet.do(node_operations.list_nodes)).nodes):
            raise RotaError(f"node {node} is not drained any more: it was undrained; {left} tasks are there")
        await asyncio.sleep(LOOK)


def _resource(task: str) -> str:
    return task.rpartition("#")[0]


async def _statuses(fleet: FleetClient) -> dict[str, ResourceStatus]:
    """How each resource is covered."""
    found: dict[str, ResourceStatus] = {}
    token: str | None = None
    while True:
        page = await fleet.do(resource_operations.list_resources, limit=limits.MAX_PAGE, token=token)
        found |= {view.name: view.status for view in page.resources if view.status}
        token = page.next
        if token is None:
            return found


async def _stuck(fleet: FleetClient, node: str) -> str:
    """Why tasks cannot leave a node, with how many, as the end of a sentence."""
    counts: Counter[str] = Counter()
    begins = f"{node} is drained, and no other node takes it: "
    for status in (await _statuses(fleet)).values():
        if status.moving.startswith(begins):
            counts[status.moving.removeprefix(begins)] += 1
    return "".join(f"; {count} cannot: {why}" for why, count in counts.most_common(SHOWN))


@command.command()
@click.argument("node", metavar="NODE", shell_complete=names.nodes)
@options.fleet
@options.output(Shape.OBJECT)
def undrain(node: str, fleet: FleetTarget) -> None:
    """End a node's drain: it keeps its remaining tasks and gets new ones.

    Example: rota nodes undrain n1
    """
    had_one = ask(fleet, node_operations.undrain_node, node)
    tables.answer({"node": node, "was_drained": had_one})
    tables.say(f"node {node} is not drained any more" if had_one else f"node {node} was not drained")


@command.command(context_settings={"ignore_unknown_options": True})  # so that -5 is a number, and refused as one
@click.argument("node", metavar="NODE", shell_complete=names.nodes)
@click.argument("count", metavar="[COUNT]", type=int, required=False)
@click.option("--reset", is_flag=True, help="Back to the number in its settings.")
@options.fleet
@options.output(Shape.OBJECT)
def slots(node: str, count: int | None, reset: bool, fleet: FleetTarget) -> None:
    """Set a node's number of slots, in place of its settings.

    If that is less than its tasks take, the newest ones and those of low priority move away, some at a time.

    Example: rota nodes slots n1 20
    """
    if (count is None) != reset:
        raise click.UsageError("give COUNT, or --reset for as many as its settings say")
    given = ask(fleet, node_operations.set_slots, SYSTEM, node, count)
    tables.answer({"node": node, "slots": given.slots if given else None})
    tables.say(f"node {node} has {given.slots} slots" if given else f"node {node} has the slots that its settings say")


@command.command()
@click.argument("node", metavar="NODE", shell_complete=names.nodes)
@click.argument("changes", metavar="[NAME=VALUE|NAME-]...", nargs=-1)
@click.option("--reset", is_flag=True, help="First undo all labels that were set: back to the settings.")
@options.fleet
@options.output(Shape.OBJECT)
def label(node: str, changes: tuple[str, ...], reset: bool, fleet: FleetTarget) -> None:
    """Set a node's labels, or remove some with a trailing minus; this overrides its settings.

    New work is placed by these labels at once; tasks that the node already has stay. They survive restarts of the node.

    Example: rota nodes label n1 zone=b gpu-
    """
    if not changes and not reset:
        raise click.UsageError("say what to change, like zone=b or gpu-, or --reset for what its settings say")
    done = ask(fleet, label_node, SYSTEM, node, _changes(changes), reset=reset)
    tables.answer(done)
    has = tables.pairs(done.labels) or "no labels"
    tables.say(f"node {node} has {has}{'' if done.labels_set else ', as its settings say'}")


def _changes(texts: tuple[str, ...]) -> dict[str, str | None]:
    """The labels to set, and with null those to take away."""
    found: dict[str, str | None] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals and not name.endswith("-"):
            raise click.UsageError(f'"{text}" changes no label; write NAME=VALUE to set one, or NAME- to take it away')
        found[name if equals else name[:-1]] = value if equals else None
    return found


def _row(node: NodeView) -> tuple[str, ...]:
    name = f"{node.id} *" if node.leads else node.id
    up = "gone" if not node.is_up else "?" if node.age_s is None else durations.render(timedelta(seconds=node.age_s))
    closed = ", ".join(
        f"{word}: {mark.why}" if mark.why else word
        for word, mark in (("drained", node.drain), ("cordoned", node.cordon))
        if mark
    )
    slots = f"{node.used}/{node.slots}" if node.role else str(node.used)
    if node.slots_set:
        slots += " set"
    role = "not understood" if node.not_understood else node.role or ""
    kinds, labels = ",".join(node.kinds), tables.pairs(node.labels)
    if node.labels_set:
        labels += " set"
    return name, role, up, node.standing, *_load(node.load), slots, str(node.tasks), closed, kinds, labels


def _load(load: NodeLoad | None) -> tuple[str, str, str, str]:
    """Score, processors, memory and executors."""
    if load is None:
        return "", "", "", ""
    return f"{load.score:.2f}", f"{load.cpu:.0%}", f"{load.memory:.0%}", f"{load.executors_used}/{load.executors}"
