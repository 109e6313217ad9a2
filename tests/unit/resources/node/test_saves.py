"""What tasks save is written under their epoch, and cannot hurt the node."""

import asyncio
from collections.abc import Iterable

import pytest

from rota.kit.time import virtual
from rota.kit.time.clock import SYSTEM
from rota.model import codec, keys
from rota.model.errors import Invalid, Unavailable
from rota.model.ids import NodeId, Revision
from rota.relay.node.emitting import Emitter
from rota.resources.core.assignment import Assignment
from rota.resources.core.records import SavedState
from rota.resources.node.run_task import LARGEST, Life, TaskEnvironment, WorkerDoor
from rota.resources.node.saves import Saves
from rota.resources.pipe import Save
from rota.runtime.pipes.brief import Emitting, Order
from rota.store import Put, open_store
from rota.store.port import Expect, Write

NODE = NodeId("a")


def said(saves: Saves, task: str, epoch: int, state: bytes) -> None:
    saves.said(None, Save(task, epoch, state))  # type: ignore[arg-type]  # who said it does not matter


def test_only_the_present_epoch_is_written_and_nothing_breaks_when_tasks_leave() -> None:
    async def story() -> None:
        saves = Saves()
        async with open_store("memory://") as store:
            record = codec.encode(Assignment(kind="room", resource="1", slot=0))
            epoch = await store.commit(Put(keys.assignment(NODE, "room/1#0"), record))
            said(saves, "room/1#0", epoch, b'{"n":1}')
            said(saves, "room/2#0", 7, b'{"n":2}')
            writing = asyncio.create_task(saves.flush(store, NODE))
            saves.forget_all_but(set())  # both were taken away meanwhile
            await writing
            entry = await store.get(keys.SAVED + "room/1#0")
            assert entry is not None
            assert codec.decode(SavedState, entry.value).state == {"n": 1}
            assert await store.get(keys.SAVED + "room/2#0") is None, "it was placed elsewhere"
            assert saves.newest("room/1#0", epoch) == b'{"n":1}'
            saves.forget_all_but(set())
            assert saves.newest("room/1#0", epoch) is None

    virtual.run(story())


@pytest.mark.parametrize("is_answered", [True, False])
def test_what_is_being_written_is_unwritten_until_the_store_has_answered(is_answered: bool) -> None:
    async def story() -> None:
        saves, asked, answer = Saves(), asyncio.Event(), asyncio.Event()
        async with open_store("memory://") as store:
            commit = store.commit

            async def slowly(*writes: Write, expect: Iterable[Expect] = ()) -> Revision:
                asked.set()
                await answer.wait()
                if not is_answered:
                    raise Unavailable("away")
                return await commit(*writes, expect=expect)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(store, "commit", slowly)
                said(saves, "room/1#0", 7, b'{"n":1}')
                writing = asyncio.create_task(saves.flush(store, NODE))
                await asked.wait()
                assert saves.has_unwritten("room/1#0"), "else its assignment is given back, and the write refused"
                saves.forget_all_but(set())
                answer.set()
                await writing
            assert saves.has_unwritten("room/1#0") is not is_answered
            await saves.flush(store, NODE)
            assert not saves.has_unwritten("room/1#0")

    virtual.run(story())


def test_a_state_that_no_commit_takes_is_refused_where_it_is_saved() -> None:
    offer = TaskEnvironment(
        life=Life(lambda: 0.0),
        save=lambda state: pytest.fail("it was handed on"),
        way_out=Emitter(Emitting(), lambda: None),
        node=NODE,
        sink="",
        clock=SYSTEM,
    )
    door = WorkerDoor(Order("room/1#0", 1, "room", "1", 0), None, offer)
    with pytest.raises(Invalid, match="save less"):
        asyncio.run(door.save({"text": "x" * LARGEST}))
