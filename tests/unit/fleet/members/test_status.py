"""What a node writes about itself and its app."""

import asyncio
from contextlib import suppress

from rota.fleet.members.session import NodeSession, in_session
from rota.fleet.members.status import DECLARATIONS, publish_streams
from rota.kit.time import virtual
from rota.model import codec, keys
from rota.model.ids import NodeId
from rota.store import Store, open_store
from rota.streams.core.records import Declaration, StreamRecord
from rota.streams.core.spec import StreamSpec, declared
from tests.kit.identities import identity
from tests.kit.virtual_trials import CLOCK


def record(tasks: int) -> StreamRecord:
    spec = StreamSpec.parse(name="s", source="log:///in", sink="parquet:///out", tasks=tasks, is_async=False)
    return declared("shop", spec)


async def history(store: Store) -> list[Declaration]:
    return [codec.decode(Declaration, entry.value) for entry in (await store.scan(keys.STREAM_HISTORY)).entries]


def test_each_declaration_of_a_stream_is_put_on_record_once_and_the_oldest_go() -> None:
    async def story() -> None:
        async with open_store("memory://s", clock=CLOCK) as store:
            now = [record(1)]

            async def body(session: NodeSession) -> None:
                async with asyncio.TaskGroup() as parts:
                    parts.create_task(publish_streams(store, session, lambda: list(now)))
                    await asyncio.sleep(3)
                    assert [(each.record, each.node) for each in await history(store)] == [(record(1), NodeId("a"))]
                    for tasks in range(2, DECLARATIONS + 5):
                        now[0] = record(tasks)
                        await asyncio.sleep(2)
                    kept = [each.record for each in await history(store)]
                    assert kept == [record(tasks) for tasks in range(5, DECLARATIONS + 5)]
                    raise asyncio.CancelledError

            with suppress(asyncio.CancelledError):
                await in_session(store, identity("a"), CLOCK, body)

    virtual.run(story())
