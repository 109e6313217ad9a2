"""Services and reloads, with real processes: nothing is lost, doubled or mixed, whatever the new code declares."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.kit.boxes import Asker, can_connect
from tests.kit.node import workers
from tests.kit.servers import free_port
from tests.kit.service_app import ECHO, HELD, SECOND, SLOW, WHO
from tests.kit.service_trials import crowd, serving
from tests.kit.waiting import eventually

KINDS: dict[str, dict[str, Any]] = {
    "one at a time": {"options": "groups={1: 2}, udp=True"},
    "threads": {"options": "groups={1: 2}, udp=True, concurrency=4"},
    "loop": {"options": "groups={1: 2}, udp=True, concurrency=4", "is_async": True},
    "all out first": {"options": "groups={1: 2}, udp=True, all_out_first=True"},
    "two proxies": {"options": "groups={1: 2}, udp=True, proxies=2"},
    "portable": {"options": "groups={1: 2}, udp=True", "portable": "1"},
}


@pytest.mark.variants
@pytest.mark.parametrize("kind", KINDS)
async def test_reloads_under_load_lose_nothing_and_answer_nothing_twice(tmp_path: Path, kind: str) -> None:
    async with serving(tmp_path, **KINDS[kind]) as node:
        with crowd(node.port) as tcp, crowd(node.port, udp=True) as udp:
            for version in range(2, 5):
                await asyncio.to_thread(node.reload, version=version)
        assert (tcp.lost, tcp.wrong, udp.lost, udp.wrong) == (0, 0, 0, 0)
        assert set(tcp.rets) == set(udp.rets) == {0}
        with node.client() as client:
            assert client.ask(WHO).body.startswith(b"4 ")


async def test_a_long_request_ends_in_the_generation_that_began_it(tmp_path: Path) -> None:
    async with serving(tmp_path, "--drain", "60s", options="groups={1: 1}") as node:
        with node.client() as client, node.client() as other:
            client.send(HELD)
            await eventually(node.notes)
            await asyncio.to_thread(node.reload, version=2)
            assert other.ask(WHO).body.startswith(b"2 ")
            node.gate.touch()
            assert client.receive().body == b"1"


async def test_a_request_longer_than_drain_outlives_a_reload(tmp_path: Path) -> None:
    async with serving(tmp_path, "--drain", "1s", options="groups={1: 1}") as node:
        with node.client() as client, node.client() as other:
            client.send(HELD)
            await eventually(node.notes)
            for version in (2, 3):  # each takes longer than `drain`, or the third would show nothing
                await asyncio.to_thread(node.reload, version=version)
                assert other.ask(SLOW, b"1.5").body == str(version).encode()
            node.gate.touch()
            assert client.receive().body == b"1"


async def test_a_request_that_keeps_an_old_worker_is_reported_with_its_age_and_process(tmp_path: Path) -> None:
    async with serving(tmp_path, "--drain", "1s", options="groups={1: 1}") as node:
        with node.client() as client:
            client.send(HELD)
            await eventually(node.notes)
            (old,) = workers(await node.status(), "service:")
            await asyncio.to_thread(node.reload, version=2)

            async def held_up() -> str | None:
                pools = (await node.status())["work"]["pools"]
                return next((pool["held_up"] for pool in pools if pool["held_up"]), None)

            assert (await eventually(held_up)).startswith(f"pid {old} of generation 1 works on a request (cmd ")
            await eventually(lambda: "worker held_up" in node.complaint())
            told = [line for line in node.complaint().splitlines() if "worker held_up" in line]
            assert f"pid={old}" in told[0]

            def is_in_stat() -> bool:
                said = node.rota("services", "stat", "logic").out
                return f"in worker pid {old} of generation 1, which should have ended" in said

            await eventually(is_in_stat, within=60)
            node.gate.touch()
            assert client.receive().body == b"1"

            async def is_over() -> bool:
                return await held_up() is None

            await eventually(is_over)


HANGS = """
import time

@logic.stop_worker
def hang():
    time.sleep(1000)
"""


async def test_a_worker_whose_last_hook_hangs_is_ended_though_its_requests_have_no_limit(tmp_path: Path) -> None:
    async with serving(tmp_path, "--drain", "1s", options="groups={1: 1}", extra=HANGS) as node:
        for version in (2, 3):
            await asyncio.to_thread(node.reload, version=version)

        async def is_nobody_left() -> bool:
            return not workers(await node.status(), "service:", "draining")

        await eventually(is_nobody_left)


async def test_groups_and_routes_change_on_a_reload(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 1}") as node:
        with crowd(node.port) as asking, node.client() as client:
            assert client.ask(SECOND).body == b"1 1"
            for version, (options, second) in enumerate(
                [("groups={1: 1, 2: 1}", 2), ("groups={1: 2, 3: 1}", 3), ("groups={1: 1}", 1)], 2
            ):
                await asyncio.to_thread(node.reload, options, version=version, second=second)
                assert client.ask(SECOND).body == b"%d %d" % (version, second)
            assert (asking.lost, asking.wrong) == (0, 0)
        assert set(asking.rets) == {0}


async def test_what_waits_for_a_group_that_is_renamed_goes_to_the_new_one(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 1, 2: 1}", second=2) as node:
        answers = []

        def ask_again_and_again() -> None:
            with node.client() as client:
                while not answers or answers[-1].body != b"2 3":
                    answers.append(client.ask(SECOND))

        asking = asyncio.create_task(asyncio.to_thread(ask_again_and_again))
        await asyncio.to_thread(node.reload, "groups={1: 1, 3: 1}", version=2, second=3)
        await asyncio.wait_for(asking, 60)
        assert {answer.ret for answer in answers} == {0}


OTHER = """

other = app.service("other", port={port})

@other.on(1)
def echo_of_other(request):
    return b"other"
"""


async def test_services_come_and_go_on_a_reload(tmp_path: Path) -> None:
    async with serving(tmp_path) as node:
        port = free_port()
        await asyncio.to_thread(node.reload, extra=OTHER.format(port=port))
        with Asker(port) as client, node.client() as first:
            assert client.ask(ECHO).body == b"other"
            await asyncio.to_thread(node.reload)
            assert first.ask(ECHO).ret == 0
            assert client.is_hung_up()
        await eventually(lambda: not can_connect(port))
        await asyncio.to_thread(node.reload, extra=OTHER.format(port=port))
        with Asker(port) as client:
            assert client.ask(ECHO).body == b"other"


async def test_a_port_changes_on_a_reload_and_nobody_who_asks_is_forgotten(tmp_path: Path) -> None:
    async with serving(tmp_path, "--drain", "60s", options="groups={1: 1}, udp=True") as node:
        port = free_port()
        with node.client() as tcp, node.client(udp=True) as udp:
            tcp.send(HELD)
            udp.send(HELD)
            await eventually(node.notes)
            await asyncio.to_thread(node.reload, port=port)
            node.gate.touch()
            assert (tcp.receive().ret, udp.receive().ret) == (0, 0)
            assert tcp.ask(ECHO).ret == 0, "connections stay"
        await eventually(lambda: not can_connect(node.port))
        with Asker(port) as tcp, Asker(port, udp=True) as udp:
            assert (tcp.ask(ECHO).ret, udp.ask(ECHO).ret) == (0, 0)


async def test_hosts_and_protocols_change_on_the_same_port(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 1}") as node:
        for options in (
            'groups={1: 1}, host="0.0.0.0"',
            'groups={1: 1}, host="0.0.0.0", udp=True',
            'groups={1: 1}, host=["127.0.0.1", "127.0.0.2"], udp=True',
            'groups={1: 1}, host=["127.0.0.2", "127.0.0.1"]',
        ):
            await asyncio.to_thread(node.reload, options)
            await eventually(lambda: can_connect(node.port))
            with node.client() as client:
                assert client.ask(ECHO).ret == 0
            if "udp" in options:
                with node.client(udp=True) as client:
                    assert client.ask(ECHO).ret == 0
        with Asker(node.port, host="127.0.0.2") as client:
            assert client.ask(ECHO).ret == 0


async def test_proxies_become_more_and_fewer_on_reloads(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 4}") as node:
        for count in (3, 1, 2):
            with node.client() as client:
                client.send(SLOW, b"1")
                await eventually(lambda: node.notes()[-1:] and node.notes()[-1][0] == "begun")
                await asyncio.to_thread(node.reload, f"groups={{1: 4}}, proxies={count}")
                assert client.receive().ret == 0, "what has begun is answered"
            await node.until(lambda now, count=count: len(now["processes"]["proxies"]) == count)
            await node.until(lambda now: len(workers(now, "service")) == 4)
            with node.client() as client:
                assert client.ask(ECHO).ret == 0


async def test_a_rollback_brings_the_routes_and_workers_of_before(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 1}") as node:
        await asyncio.to_thread(node.reload, "groups={1: 1, 2: 1}", version=2, second=2)
        with crowd(node.port) as asking, node.client() as client:
            assert client.ask(SECOND).body == b"2 2"
            answer = await asyncio.to_thread(node.rota, "rollback")
            assert answer.code == 0, answer.err
            assert client.ask(SECOND).body == b"1 1"
        assert (asking.lost, asking.wrong, set(asking.rets)) == (0, 0, {0})


CRASHES = """

@logic.start_worker
def crash():
    os._exit(7)
"""


async def test_code_whose_workers_do_not_start_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as node:
        before = workers(await node.status(), "service")
        with crowd(node.port) as asking:
            node.write(version=2, extra=CRASHES)
            answer = await asyncio.to_thread(node.rota, "reload")
        assert answer.code != 0
        assert "exit code 7" in answer.err
        assert (asking.lost, asking.wrong, set(asking.rets)) == (0, 0, {0})
        assert workers(await node.status(), "service") == before


async def test_generations_do_not_mix_in_a_group_that_goes_all_out_first(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 2}, all_out_first=True") as node:
        versions: list[bytes] = []

        def ask_again_and_again() -> None:
            with node.client() as client:
                while not versions or versions[-1] != b"2":
                    versions.append(client.ask(WHO).body.split()[0])

        asking = asyncio.create_task(asyncio.to_thread(ask_again_and_again))
        await asyncio.to_thread(node.reload, version=2)
        await asyncio.wait_for(asking, 60)
        assert versions == sorted(versions), "once the new one answered, the old one never does"


async def test_a_group_is_resized_under_load_until_the_next_reload(tmp_path: Path) -> None:
    async with serving(tmp_path) as node:
        with crowd(node.port) as asking:
            for count in (5, 1, 3):
                answer = await asyncio.to_thread(node.rota, "services", "resize", "logic", 1, count)
                assert answer.code == 0, answer.err
                await node.until(lambda now, count=count: len(workers(now, "service")) == count)
            await asyncio.to_thread(node.reload)
        assert (asking.lost, asking.wrong, set(asking.rets)) == (0, 0, {0})
        await node.until(lambda now: len(workers(now, "service")) == 2)
