"""A trial of many large saved states on one node: reload, rollback and kill −9 of the host start all tasks at once.

`keep_states` asks whether each of them starts again with the state that it saved last, and returns how long that took,
so that a test can call it with few tasks and a show with a thousand.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable

from rota.model import codec, keys
from rota.resources.core.records import SavedState
from rota.store import Store, open_store
from tests.kit.node import NodeUnderTest, workers
from tests.kit.waiting import eventually

KIND = "keeper"

KEEPING = """
import asyncio, os
import rota

app = rota.App("trial")
HERE = os.path.dirname(__file__)


@app.resource(start_within="1h", silent_after="1h")
async def keeper(task: rota.Task) -> None:
    life = task.saved.get("life", 0)
    with open(os.path.join(HERE, "notes"), "a") as file:
        file.write(f"start {task.resource} {life} {len(task.saved.get('text', ''))}\\n")
    await task.save({"life": life + 1, "text": "x" * task.spec["size"]})
    await asyncio.Event().wait()
"""
"""An app whose tasks count their lives in a state of any size."""


async def keep_states(node: NodeUnderTest, count: int, size: int, within: float = 120.0) -> dict[str, float]:
    """Run `count` tasks that save `size` bytes each through every way of starting all at once; seconds of each."""
    names = [str(number) for number in range(count)]
    ways: dict[str, Callable[[], Awaitable[None]]] = {
        "start": lambda: node.assign(KIND, names, size=size),
        "reload": lambda: _command(node, "reload"),
        "rollback": lambda: _command(node, "rollback"),
        "kill -9 of the host": lambda: _kill_host(node),
    }
    took = {}
    async with open_store(node.store) as store:
        for life, (way, act) in enumerate(ways.items()):
            began = time.monotonic()
            await act()
            await eventually(lambda life=life: _started(node, life, size if life else 0) >= {*names}, within=within)
            await node.until(lambda now: now["work"]["tasks_running"] == count, within=within)
            took[way] = time.monotonic() - began
            for name in names:  # also proof that the node has it: the next life begins with it
                await eventually(lambda name=name, life=life: _has_saved(store, name, life + 1), within=within)
    return took


def _started(node: NodeUnderTest, life: int, size: int) -> set[str]:
    """Tasks that began with what they saved in the life before this one."""
    return {words[1] for words in node.notes() if words[0] == "start" and words[2:] == [str(life), str(size)]}


async def _has_saved(store: Store, name: str, life: int) -> bool:
    entry = await store.get(f"{keys.SAVED}{KIND}/{name}#0")
    return entry is not None and codec.decode(SavedState, entry.value).state["life"] >= life


async def _command(node: NodeUnderTest, command: str) -> None:
    answer = await asyncio.to_thread(node.rota, command)
    assert answer.code == 0, answer.err


async def _kill_host(node: NodeUnderTest) -> None:
    for pid in workers(await node.status(), "host"):
        os.kill(pid, signal.SIGKILL)
