"""Nodes whose tasks emit, and what arrived where they emit to."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rota.model import codec, keys
from rota.relay.core.records import RelayStatus
from rota.sinks import Message
from rota.store import Put, Store
from tests.kit.fleet import resource
from tests.kit.node import NodeUnderTest

EMITTERS = """
import asyncio, os, time
import rota

app = rota.App("emitters")
HERE = os.path.dirname(__file__)
SINK = os.environ.get("SINK") or None
RATE = 40


def note(*words):
    with open(os.path.join(HERE, "notes"), "a") as file:
        file.write(" ".join(map(str, words)) + "\\n")


@app.resource(replicas=2, sink=SINK, start_within="1h", silent_after="1h")
async def ticker(task: rota.Task) -> None:
    '''The same messages in each replica: the ticks of a clock, beginning with those of the second before.'''
    note("start", task.id, task.epoch, os.getpid())
    last = int((time.time() - 1) * RATE)
    while True:
        await asyncio.sleep(0.02)
        while last < int(time.time() * RATE):
            last += 1
            await task.emit(f"tick {last}", key=last)


@app.resource(sink=SINK, start_within="1h", silent_after="1h")
async def counter(task: rota.Task) -> None:
    '''So many messages, as fast as it can, beginning after the last that it knows of.'''
    note("start", task.id, task.epoch, os.getpid())
    for number in range(task.saved.get("next", 0), task.spec["count"]):
        await task.emit(b"%d" % number, key=number)
        if number % 500 == 499:
            note("at", task.id, number)
            await asyncio.sleep(task.spec.get("pause", 0.0))
    note("done", task.id)
    await task.save({"next": task.spec["count"]})
    await asyncio.Event().wait()


@app.resource(sink=SINK, start_within="1h", silent_after="1h")
async def careful(task: rota.Task) -> None:
    '''Goes on when each message is safe.'''
    for number in range(task.spec["count"]):
        await task.emit(b"%d" % number, key=number, confirm=True)
        note("safe", task.id, number)
    await asyncio.Event().wait()


@app.resource(sink=SINK, start_within="1h", silent_after="1h")
def plain(task: rota.Task) -> None:
    '''Not async.'''
    for number in range(task.spec["count"]):
        task.emit(b"%d" % number, key=number, confirm=number % 50 == 0)
    task.emit_many([rota.Message(b"more", key="a"), rota.Message(b"more", key="b")], confirm=True)
    note("done", task.id)
    task.stopping.wait()


@app.resource(exclusive=True, sink=SINK, start_within="1h", silent_after="1h")
async def single(task: rota.Task) -> None:
    '''Its messages carry its epoch.'''
    note("start", task.id, task.epoch, os.getpid())
    number = 0
    while True:
        await task.emit(f"{task.epoch}", key=f"{task.epoch}.{number}")
        number += 1
        await asyncio.sleep(0.01)


@app.resource(start_within="1h", silent_after="1h")
async def homeless(task: rota.Task) -> None:
    '''Has no sink of its own.'''
    try:
        await task.emit("x", confirm=True)
        note("sent", task.id)
    except rota.Invalid as error:
        note("refused", error)
    await asyncio.Event().wait()
"""


def emitting(
    folder: Path,
    kinds_sink: str,
    *flags: object,
    name: str = "a",
    store: str = "",
    ttl: str = "10s",
    drain: str = "20s",
    **settings: str,
) -> NodeUnderTest:
    """A node of a fleet that runs those, with a lease of `ttl`; `settings` are those of [relay]."""
    environ = {f"ROTA_RELAY_{key.upper()}": value for key, value in settings.items()}
    usual = ("--role", "both", "--lease-ttl", ttl, "--drain", drain)
    return NodeUnderTest(
        folder, *usual, *flags, name=name, app=EMITTERS, environ={"SINK": kinds_sink, **environ}, store=store
    )


async def emit_from(store: Store, kind: str, ids: Iterable[str], **spec: object) -> None:
    """Have resources whose tasks emit."""
    await store.commit(*(Put(keys.resource(kind, id), codec.encode(resource(kind, id, spec=spec))) for id in ids))


async def relays(store: Store) -> dict[str, RelayStatus]:
    """Node → what its relay says of itself."""
    entries = (await store.scan(keys.RELAY_STATUS)).entries
    return {entry.key.removeprefix(keys.RELAY_STATUS): codec.decode(RelayStatus, entry.value) for entry in entries}


def numbers_of(some: Sequence[Message], resource_id: str) -> list[int]:
    """The numbers of a resource's messages, in the order they came."""
    return [int(one.key) for one in some if one.resource == resource_id]


def gaps(numbers: Iterable[int]) -> list[int]:
    """Those missing between the first and the last."""
    found = set(numbers)
    return sorted(set(range(min(found), max(found) + 1)) - found)
