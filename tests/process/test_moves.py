"""Tasks move between real nodes: drains, a node that joins, exclusive tasks; and nothing is uncovered on the way."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rota.model import codec, keys
from rota.resources.core.records import Cordon
from rota.store import Put, open_store
from tests.kit.cli import Answer, rota
from tests.kit.fleet import Fleet, moves
from tests.kit.lives import gaps
from tests.kit.waiting import eventually


@asynccontextmanager
async def fleet(folder: Path, names: str, *flags: object) -> AsyncIterator[Fleet]:
    url = f"sqlite:///{folder}/rota.db"
    async with open_store(url) as store:
        with Fleet(folder, url, store, names, "--lease-ttl", "20s", "--drain", "2s", *flags) as found:
            await found.ready()
            yield found


def ask(folder: Path, *arguments: object) -> Answer:
    """A command about the fleet, to its end."""
    return rota(*arguments, "--store", f"sqlite:///{folder}/rota.db", cwd=folder, within=60)


async def test_a_drained_node_gives_every_task_away_and_none_is_ever_without_a_runner(tmp_path: Path) -> None:
    async with fleet(tmp_path, "abc") as found:
        await found.add([f"{number:03}" for number in range(60)])
        await found.until_placed(60, 2)
        await found.until_running(120)
        before = await found.placed()
        victim = found.nodes["b"].name
        done = ask(tmp_path, "nodes", "drain", victim, "--why", "new disk")
        assert done.code == 0, done.err
        assert done.out.splitlines()[-1] == f"node {victim} is drained: 40 of 40 tasks have moved"
        after = await found.placed()
        assert moves(before, after).moved == 40
        assert all(len(nodes) == len(set(nodes)) == 2 and victim not in nodes for nodes in after.values())
        await found.until_running(120)
        assert gaps(found) == []
        assert (await found.store.scan(keys.RELIEFS)).entries == ()
        done = ask(tmp_path, "nodes")
        assert "drained: new disk" in done.out
        says = f"node {victim} is drained"
        await eventually(lambda: says in ask(tmp_path, "events", "--kind", "node.drained").out, within=30)


async def test_a_drain_says_what_is_in_the_way_and_its_deadline_counts(tmp_path: Path) -> None:
    async with fleet(tmp_path, "ab") as found:
        await found.add(["1", "2"])
        await found.until_placed(2, 2)
        victim = found.nodes["b"].name
        done = ask(tmp_path, "nodes", "drain", victim, "--deadline", "3s")
        assert done.code == 1
        assert "2 cannot: the only node that" in done.out
        assert "2 tasks were there at the deadline" in done.err
        await eventually(lambda: _spread(found, {found.nodes["a"].name: 2}))
        assert ask(tmp_path, "nodes", "undrain", victim).out == f"node {victim} is not drained any more\n"
        await found.until_placed(2, 2)


async def test_an_exclusive_task_stops_before_it_starts_elsewhere(tmp_path: Path) -> None:
    async with fleet(tmp_path, "ab") as found:
        await found.add(["x"], kind="single")
        (first,) = (await eventually(lambda: _placed(found, "single/x")))["single/x"]
        await eventually(lambda: any(words[0] == "act" for node in found.nodes.values() for words in node.notes()))
        done = ask(tmp_path, "nodes", "drain", first)
        assert done.code == 0, done.err
        (second,) = (await eventually(lambda: _placed(found, "single/x")))["single/x"]
        assert second != first
        await eventually(lambda: len({words[2] for words in acts(found)}) == 2)
        epochs = [int(words[2]) for words in sorted(acts(found), key=lambda words: float(words[3]))]
        assert epochs == sorted(epochs)


async def test_a_node_that_joins_gets_its_part_and_nothing_is_uncovered_meanwhile(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rota.db"
    environ = {"ROTA_SUPERVISOR_REBALANCE": "1200", "ROTA_SUPERVISOR_TOLERANCE": "5"}
    async with open_store(url) as store:
        with Fleet(tmp_path, url, store, "ab", "--lease-ttl", "20s", "--slots", "100", environ=environ) as found:
            await found.ready()
            await found.add([f"{number:03}" for number in range(90)])
            await found.until_placed(90, 2)
            await found.until_running(180)
            before = await found.placed()
            planned = ask(tmp_path, "plan", "--add", "1", "--rebalance")
            assert planned.code == 1
            assert planned.out.splitlines()[-1] == "57 to move"
            found.add_node("c")
            await found.nodes["c"].ready()
            await eventually(lambda: _is_even(found, 57, 63), within=30)
            await eventually(lambda: _is_settled(found, 180), within=30)
            after = await found.placed()
            assert 54 <= moves(before, after).moved <= 63
            assert all(len(nodes) == len(set(nodes)) == 2 for nodes in after.values())
            await found.until_running(180)
            assert gaps(found) == []
            assert ask(tmp_path, "plan", "--rebalance").code == 0


def acts(found: Fleet) -> list[list[str]]:
    return [words for node in found.nodes.values() for words in node.notes() if words[0] == "act"]


async def test_a_resource_that_waits_says_what_to_do_about_each_node(tmp_path: Path) -> None:
    async with fleet(tmp_path, "ab", "--slots", "1") as found:
        a, b = (found.nodes[name].name for name in "ab")
        since = await found.store.now()
        await found.store.commit(Put(keys.cordon(b), codec.encode(Cordon(node=b, since=since))))  # type: ignore[arg-type]
        await found.add(["1"], replicas=1)
        await found.until_placed(1, 1)
        await found.add(["2"], replicas=1)
        await eventually(lambda: found.status("2"))
        told = ask(tmp_path, "why", "room/2").out
        assert f"  not on {a}: all its slots are taken (1 of 1)" in told
        assert f"  not on {b}: it is cordoned" in told
        assert f"  would go on {a}, if you give it 1 more slot (rota nodes slots {a} 2)" in told
        assert f"  would go on {b}, if you uncordon it (rota nodes uncordon {b})" in told


async def test_the_command_that_why_names_labels_the_node_and_the_resource_is_placed(tmp_path: Path) -> None:
    async with fleet(tmp_path, "a") as found:
        name = found.nodes["a"].name
        await found.add(["1"], replicas=1, labels={"gpu": "yes"})
        await eventually(lambda: found.status("1"))
        command = f"rota nodes label {name} gpu=yes"
        assert f"  would go on {name}, if you label it gpu=yes ({command})" in ask(tmp_path, "why", "room/1").out
        assert ask(tmp_path, *command.split()[1:]).out == f"node {name} has gpu=yes\n"
        await found.until_placed(1, 1)
        assert (
            ask(tmp_path, "nodes", "label", name, "--reset").out == f"node {name} has no labels, as its settings say\n"
        )
        await found.until_running(1)


async def _spread(found: Fleet, expected: dict[str, int]) -> bool:
    return dict(await found.spread()) == expected


async def _placed(found: Fleet, name: str) -> dict[str, list[str]] | None:
    placed = await found.placed()
    return placed if name in placed else None


async def _is_even(found: Fleet, least: int, most: int) -> bool:
    spread = await found.spread()
    return len(spread) == 3 and all(least <= count <= most for count in spread.values())


async def _is_settled(found: Fleet, tasks: int) -> bool:
    return sum((await found.spread()).values()) == tasks
