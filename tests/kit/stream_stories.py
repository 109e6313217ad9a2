"""Stories about one stream on simulated nodes."""

import asyncio
from collections.abc import Awaitable, Callable

from rota.model import codec, keys
from rota.store import Store
from rota.streams.core.records import StreamRecord
from tests.kit.elections import play
from tests.kit.stream_trial import Node, Trial


def run(story: Callable[[Trial, Node], Awaitable[None]], *, is_led: bool = True) -> Trial:
    """A story about one stream on a fleet of one node that leads."""
    kept: list[Trial] = []

    async def whole(store: Store, node: Node) -> None:
        trial = Trial(store)
        kept.append(trial)
        working = asyncio.create_task(trial.work())
        if is_led:
            node("a", trial.lead)
        await story(trial, node)
        working.cancel()

    play(whole)
    return kept[0]


async def backfills(trial: Trial) -> list[StreamRecord]:
    """The streams that fill gaps."""
    entries = (await trial.store.scan(f"{keys.STREAMS}{trial.name}~")).entries
    return [codec.decode(StreamRecord, entry.value) for entry in entries]
