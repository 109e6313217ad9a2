"""Resources on a fleet of real processes: covered, kept covered, and moved only for a reason."""

import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from rota.model import codec, keys
from rota.resources.core.records import Cordon, SavedState, Trouble
from rota.store import Delete, Put, open_store
from tests.kit.cli import rota
from tests.kit.fleet import Fleet, moves, resource
from tests.kit.waiting import eventually


@asynccontextmanager
async def fleet(
    folder: Path, names: str = "abc", *flags: object, ttl: str = "20s", environ: Mapping[str, str] | None = None
) -> AsyncIterator[Fleet]:
    """Nodes whose leases outlive what a busy machine does to them; a short ttl is for who kills one."""
    url = f"sqlite:///{folder}/rota.db"
    async with open_store(url) as store:
        with Fleet(folder, url, store, names, "--lease-ttl", ttl, "--drain", "2s", *flags, environ=environ) as found:
            await found.ready()
            yield found
    for node in found.nodes.values():
        await eventually(lambda node=node: not node.leftovers())


async def test_resources_are_spread_and_run_and_leave_when_removed(tmp_path: Path) -> None:
    async with fleet(tmp_path) as found:
        await found.add([f"{number:02}" for number in range(30)])
        await found.until_placed(30, 2)
        assert sorted((await found.spread()).values()) == [20, 20, 20]
        await found.until_running(60)
        await eventually(lambda: _covered(found, "07", 2))
        status = await found.status("07")
        assert status is not None
        assert (status.ID, status.Name, status.replicas, status.assigned, status.pending) == ("room-07", "07", 2, 2, "")
        assert [part.split("|")[0] for part in status.AssignedNode.split(",")] == sorted(
            (await found.placed())["room/07"]
        ) or len(status.AssignedNode.split(",")) == 2
        await found.remove(["07", "08"])
        await found.until_placed(28, 2)
        await found.until_running(56)
        await eventually(lambda: _is_none(found, "07"))


async def _is_none(found: Fleet, id: str) -> bool:
    return await found.status(id) is None


async def test_a_node_that_is_killed_loses_its_tasks_and_nobody_else_does(tmp_path: Path) -> None:
    async with fleet(tmp_path, ttl="5s") as found:
        await found.add([f"{number:02}" for number in range(20)])
        await found.until_placed(20, 2)
        before = await found.placed()
        leader = await found.leader()
        victim = next(name for name in "abc" if name != leader)
        lost = sum(found.nodes[victim].name in nodes for nodes in before.values())
        found.nodes[victim].kill()
        await found.until_placed(20, 2, without=[victim])
        assert moves(before, await found.placed()).moved == lost
        await found.until_running(40)


async def test_a_new_leader_moves_nothing_healthy(tmp_path: Path) -> None:
    async with fleet(tmp_path, "abcd") as found:
        await found.add([f"{number:02}" for number in range(20)])
        await found.until_placed(20, 2)
        before = await found.placed()
        leader = await found.leader()
        gone = found.nodes[leader].name
        os.kill(found.nodes[leader].pid, signal.SIGTERM)
        await found.until_placed(20, 2, without=[leader])
        after = await found.placed()
        assert moves(before, after).moved == sum(gone in nodes for nodes in before.values())
        ids = {(await found.status(name.partition("/")[2])).ID for name in after}  # type: ignore[union-attr]
        assert ids == {f"room-{number:02}" for number in range(20)}


async def test_a_fleet_that_comes_back_waits_for_its_nodes_and_moves_nothing(tmp_path: Path) -> None:
    async with fleet(tmp_path, ttl="5s") as found:
        await found.add([f"{number:02}" for number in range(12)])
        await found.until_placed(12, 2)
        before = await found.placed()
        for node in found.nodes.values():
            node.kill()
        for name in "abc":
            found.nodes[name].start()
            if name == "a":
                await found.nodes[name].ready()
        await found.ready()
        await found.until_running(24)
        assert await found.placed() == before


async def test_what_cannot_be_placed_says_why_and_is_placed_when_it_can(tmp_path: Path) -> None:
    async with fleet(tmp_path, "ab") as found:
        await found.add(["big"], replicas=3)
        await found.add(["picky"], labels={"gpu": "yes"})
        await found.add(["strange"], kind="nothing")
        await eventually(lambda: _covered(found, "big", 2))
        pending = await eventually(lambda: _pending(found, "big"))
        assert (pending.assigned, pending.replicas) == (2, 3)
        picky = await eventually(lambda: _pending(found, "picky"))
        assert "gpu" in picky.pending
        strange = await eventually(lambda: _pending(found, "strange", "nothing"))
        assert strange.pending == 'no node\'s app declares the kind "nothing"'
        found.add_node("c")
        await eventually(lambda: _covered(found, "big", 3), within=30)


async def _pending(found: Fleet, id: str, kind: str = "room"):  # type: ignore[no-untyped-def]
    status = await found.status(id, kind)
    return status if status and status.pending else None


async def _covered(found: Fleet, id: str, replicas: int, kind: str = "room") -> bool:
    status = await found.status(id, kind)
    return status is not None and status.assigned == replicas


async def test_slots_are_never_exceeded(tmp_path: Path) -> None:
    async with fleet(tmp_path, "ab", "--slots", "5") as found:
        await found.add([f"{number}" for number in range(8)])
        await eventually(lambda: _spread_is(found, [5, 5]))
        placed = await found.placed()
        assert sorted(map(len, placed.values())) == [1, 1, 1, 1, 1, 1, 2, 2], "the first task of all before any second"
        found.add_node("c")
        await eventually(lambda: _spread_is(found, [5, 5, 5]), within=30)


async def test_slots_are_changed_while_it_runs(tmp_path: Path) -> None:
    # Without balance, which would take two more: the part of a node with 5 of 105 slots is 2 of the 40 tasks.
    async with fleet(tmp_path, "ab", environ={"ROTA_SUPERVISOR_REBALANCE": "0"}) as found:

        def call(*arguments: object) -> str:
            answer = rota(*arguments, "--store", found.nodes["a"].store, cwd=tmp_path)
            assert (answer.code, answer.err) == (0, "")
            return answer.out

        await found.add([f"{number:02}" for number in range(40)], replicas=1)
        await found.until_placed(40, 1)
        before = await found.placed()
        shares = await found.spread()  # not always 20 and 20: one node may be known before the other
        one, other = sorted((node.name for node in found.nodes.values()), key=lambda name: -shares[name])
        call("nodes", "slots", one, 5)
        await eventually(lambda: _spread_is(found, [5, 35]), within=30)
        await found.until_placed(40, 1)
        assert moves(before, await found.placed()).moved == shares[one] - 5
        assert "(set on" in call("why", one)
        call("nodes", "slots", other, 30)
        await eventually(lambda: _spread_is(found, [5, 30]), within=30)
        call("nodes", "slots", one, "--reset")
        await found.until_placed(40, 1)
        await found.until_running(40)


async def _spread_is(found: Fleet, counts: list[int]) -> bool:
    return sorted((await found.spread()).values()) == counts


async def test_a_cordoned_node_keeps_its_tasks_and_gets_no_new_ones(tmp_path: Path) -> None:
    async with fleet(tmp_path, "ab") as found:
        await found.add(["1", "2"], replicas=1)
        await found.until_placed(2, 1)
        closed = found.nodes["a"].name
        record = Cordon(node=closed, since=resource("room", "x").created, why="old disk")  # type: ignore[arg-type]
        await found.store.commit(Put(keys.CORDONS + closed, codec.encode(record)))
        await found.add([f"{number}" for number in range(3, 9)], replicas=1)
        await found.until_placed(8, 1)
        assert (await found.spread())[closed] == 1
        await found.store.commit(Delete(keys.CORDONS + closed))


async def test_an_exclusive_task_moves_only_when_its_node_has_confirmed(tmp_path: Path) -> None:
    async with fleet(tmp_path, "ab") as found:
        await found.add(["x"], kind="single")
        await found.until_placed(1, 1)
        (first,) = (await found.placed())["single/x"]
        other = next(node.name for node in found.nodes.values() if node.name != first)
        old = next(node for node in found.nodes.values() if node.name == first)
        new = next(node for node in found.nodes.values() if node.name == other)
        await eventually(old.notes)
        entry = await found.store.get(keys.resource("single", "x"))
        assert entry is not None
        await found.store.commit(Put(keys.resource("single", "x"), codec.encode(resource("single", "x", pin=other))))
        await eventually(new.notes)
        last, begin = float(old.notes()[-1][3]), float(new.notes()[0][3])
        assert last < begin, "both acted at the same time"


async def test_a_silent_task_is_placed_elsewhere(tmp_path: Path) -> None:
    async with fleet(tmp_path, "ab") as found:
        await found.add(["q"], kind="quiet")
        nodes = list(found.nodes.values())
        await eventually(
            lambda: all(any(words[1] == "quiet/q#0" for words in node.notes()) for node in nodes), within=30
        )
        trouble = [codec.decode(Trouble, entry.value) for entry in (await found.store.scan(keys.TROUBLE)).entries]
        assert any("no sign of life for" in each.why for each in trouble), trouble


async def test_an_updated_spec_reaches_the_task_where_it_is(tmp_path: Path) -> None:
    async with fleet(tmp_path, "ab") as found:
        await found.add(["1"], replicas=1)
        await found.until_placed(1, 1)
        before = await found.placed()
        node = next(each for each in found.nodes.values() if each.name == before["room/1"][0])
        await eventually(node.notes)
        changed = resource("room", "1", replicas=1, spec={"depth": 2})
        await found.store.commit(Put(keys.resource("room", "1"), codec.encode(changed)))
        await eventually(lambda: [words[0] for words in node.notes()] == ["start", "stop", "start"])
        assert await found.placed() == before
        epochs = [int(words[2]) for words in node.notes()]
        assert epochs[0] == epochs[1] < epochs[2]


async def test_a_task_goes_on_from_what_the_one_before_it_saved(tmp_path: Path) -> None:
    async with fleet(tmp_path, "ab", ttl="5s") as found:
        await found.add(["c"], kind="counter")
        await found.until_placed(1, 1)
        (first,) = (await found.placed())["counter/c"]
        old = next(name for name, node in found.nodes.items() if node.name == first)
        new = next(name for name in found.nodes if name != old)
        await eventually(lambda: _saved(found, 30))
        reload = found.nodes[old].rota("reload")
        assert reload.code == 0, reload.err
        await eventually(lambda: len(found.nodes[old].notes()) >= 2)
        assert int(found.nodes[old].notes()[1][2]) >= 30, "handed over within the node"
        found.nodes[old].kill()
        (words,) = await eventually(found.nodes[new].notes, within=30)
        assert int(words[2]) >= 30, "moved to another node"
        await found.remove(["c"], kind="counter")
        await eventually(lambda: _nothing_saved(found))


async def _saved(found: Fleet, least: int) -> bool:
    entry = await found.store.get(keys.SAVED + "counter/c#0")
    return entry is not None and codec.decode(SavedState, entry.value).state["count"] >= least


async def _nothing_saved(found: Fleet) -> bool:
    return not (await found.store.scan(keys.SAVED)).entries
