"""Services and ends, with real processes: of the node, of its proxies, of the agent; and ports that others have."""

import asyncio
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kit.boxes import Asker, can_connect
from tests.kit.node import NodeUnderTest, child_called, workers
from tests.kit.rota_up import fleet, ready
from tests.kit.servers import free_port, free_ports
from tests.kit.service_app import ECHO, HELD, SLOW, WHO, service_app
from tests.kit.service_trials import CLIENTS, Served, crowd, serving
from tests.kit.waiting import eventually


def proxies(status: dict[str, Any]) -> list[int]:
    return [each["pid"] for each in status["processes"]["proxies"]]


@pytest.mark.variants
@pytest.mark.parametrize("portable", ["", "1"], ids=["linux", "portable"])
async def test_a_node_that_is_told_to_stop_answers_what_it_has(tmp_path: Path, portable: str) -> None:
    async with serving(tmp_path, "--drain", "60s", options="groups={1: 1}, udp=True", portable=portable) as node:
        with node.client() as running, node.client() as waiting, node.client(udp=True) as udp, node.client() as late:
            assert late.ask(99).ret == -10000, "it was let in"
            running.send(HELD)
            await eventually(node.notes)
            for client in (waiting, udp):
                client.send(SLOW, b"0")
                client.send(99)
                assert client.receive().ret == -10000, "what was sent before has arrived"
            os.kill(node.pid, signal.SIGTERM)
            await eventually(lambda: not can_connect(node.port))
            assert late.ask(ECHO).ret == -10006
            node.gate.touch()
            assert {client.receive().ret for client in (running, waiting, udp)} == {0}
            assert running.is_hung_up()


async def test_a_request_that_outlives_the_drain_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path, "--drain", "2s", options="groups={1: 1}") as node:
        with node.client() as running, node.client() as waiting:
            running.send(SLOW, b"60")
            await eventually(node.notes)
            waiting.send(ECHO)
            waiting.send(99)
            assert waiting.receive().ret == -10000, "what was sent before has arrived"
            os.kill(node.pid, signal.SIGTERM)
            assert (running.receive().ret, waiting.receive().ret) == (-10006, -10006)
            assert running.is_hung_up()


async def test_stopping_under_load_loses_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, "--drain", "60s", options="groups={1: 2}, udp=True") as node:
        with node.client() as holding, crowd(node.port) as tcp, crowd(node.port, udp=True) as udp:
            holding.send(HELD)
            await eventually(lambda: node.notes() and tcp.total > 100 and udp.total > 100)
            os.kill(node.pid, signal.SIGTERM)
            await eventually(lambda: tcp.rets[-10006] == udp.rets[-10006] == CLIENTS)  # it waits for the one it holds
            node.gate.touch()
            assert holding.receive().ret == 0
            await eventually(lambda: not node.is_running)
        assert (tcp.lost, tcp.wrong, udp.lost, udp.wrong) == (0, 0, 0, 0)
        assert set(tcp.rets) == set(udp.rets) == {0, -10006}


@pytest.mark.variants
@pytest.mark.parametrize("portable", ["", "1"], ids=["linux", "portable"])
async def test_a_proxy_that_dies_is_replaced_with_its_workers_and_leaks_nothing(tmp_path: Path, portable: str) -> None:
    async with serving(tmp_path, options="groups={1: 2}, udp=True", portable=portable) as node:
        agent = psutil.Process(node.pid)
        await _kill_proxy(node)
        descriptors = agent.num_fds()
        for _ in range(3):
            await _kill_proxy(node)
        await eventually(lambda: agent.num_fds() <= descriptors)
        assert len(node.family()) == 4, "a proxy, a loader, two workers"


async def _kill_proxy(node: Served) -> None:
    (before,) = proxies(await node.until(proxies))
    with node.client() as client:
        assert client.ask(ECHO).ret == 0
        client.send(SLOW, b"60")
        os.kill(before, signal.SIGKILL)
        assert client.is_hung_up()
    with node.client() as client:
        assert client.ask(ECHO).ret == 0, "who connects meanwhile waits"
    await node.until(lambda now: now["is_ready"] and proxies(now) not in ([], [before]))
    await node.at_full_strength()
    await eventually(lambda: len(node.family()) == 4)


async def test_workers_that_wait_for_a_proxy_do_not_count_as_falling(tmp_path: Path) -> None:
    async with serving(tmp_path) as node:
        for _ in range(6):
            (before,) = proxies(await node.until(proxies))
            os.kill(before, signal.SIGKILL)
            await node.until(lambda now, before=before: proxies(now) not in ([], [before]))
        await node.ready()
        status = await node.status()
        assert not any(pool["crash_loop"] for pool in status["work"]["pools"])


async def test_a_frozen_agent_keeps_nobody_from_an_answer(tmp_path: Path) -> None:
    async with serving(tmp_path) as node:
        with node.client() as client:
            os.kill(node.pid, signal.SIGSTOP)
            try:
                for _ in range(50):
                    assert client.ask(ECHO, b"x").ret == 0
                with node.client() as other:
                    assert other.ask(WHO).ret == 0
            finally:
                os.kill(node.pid, signal.SIGCONT)
            assert client.ask(ECHO, b"x").ret == 0


@pytest.mark.variants
@pytest.mark.parametrize("portable", ["", "1"], ids=["linux", "portable"])
async def test_with_the_agent_goes_everything_and_the_port_is_free(tmp_path: Path, portable: str) -> None:
    async with serving(tmp_path, options="groups={1: 2}, udp=True", portable=portable) as node:
        with node.client() as client:
            client.send(SLOW, b"60")
            await eventually(node.notes)
            node.kill()
            assert _is_told_or_hung_up(client)
        await eventually(lambda: not (node.leftovers() or can_connect(node.port)))
        node.start()
        await node.ready()
        with node.client() as client:
            assert client.ask(ECHO).ret == 0


def _is_told_or_hung_up(client: Asker) -> bool:
    """A proxy that outlives its agent for a moment says that it stops, or that the worker was killed before it."""
    try:
        return client.receive().ret in (-10006, -10002)
    except (EOFError, ConnectionError):
        return True


async def test_a_port_that_is_taken_is_told_and_taken_over(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 1}, udp=True") as first:
        app = service_app(first.port, "groups={1: 1}, udp=True", version=2)
        with NodeUnderTest(tmp_path / "second", name="b", app=app) as second:
            await second.until(_waits_for_its_port_alone, within=120)
            assert f":{first.port} is taken" in second.complaint()
            descriptors = psutil.Process(second.pid).num_fds()
            with first.client() as client:
                assert client.ask(WHO).body.startswith(b"1 ")
            first.stop()
            for udp in (False, True):
                await eventually(partial(_second_answers, first.port, udp), despite=(OSError, EOFError))
            await eventually(lambda: psutil.Process(second.pid).num_fds() <= descriptors + 2)
        await eventually(lambda: not second.leftovers())


def _waits_for_its_port_alone(status: dict[str, Any]) -> bool:
    """Is a node in the fleet, with all its workers, and not ready only because a service does not listen?"""
    work = status["work"]
    is_manned = work is not None and all(pool["ready"] == pool["want"] for pool in work["pools"])
    return bool(status["session"] and is_manned and work["not_listening"] and not status["is_ready"])


def _second_answers(port: int, udp: bool) -> bool:
    with Asker(port, udp=udp, within=2) as client:
        return client.ask(WHO).body.startswith(b"2 ")


async def test_three_nodes_of_one_machine_share_the_port_and_answer_whichever_is_killed(tmp_path: Path) -> None:
    port = free_port()
    app = service_app(port, "groups={1: 1}")
    async with fleet(tmp_path, "--nodes", 3, "--port", free_ports(2)[0], app=app) as up:
        await ready(up)
        assert "is taken" not in up.errors.read_text() + up.output.read_text()
        for name in ("n1", "n2"):
            child_called(up.pid, name).kill()
            # A connection that the dead one had taken ends; the next one is another node's.
            await eventually(partial(_answers, port), within=60, despite=(OSError, EOFError))
    await eventually(lambda: not can_connect(port))


def _answers(port: int) -> bool:
    with Asker(port) as client:
        return client.ask(ECHO).ret == 0


async def test_workers_that_die_again_and_again_leak_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as node:
        agent, (proxy,) = psutil.Process(node.pid), proxies(await node.status())
        found = []
        await node.at_full_strength()
        for _ in range(4):
            victims = workers(await node.status(), "service")
            for victim in victims:
                os.kill(victim, signal.SIGKILL)
            await node.until(lambda now, old=victims: now["is_ready"] and not set(old) & set(workers(now, "service")))
            await node.at_full_strength()
            found.append((agent.num_fds(), psutil.Process(proxy).num_fds()))
        agents, proxy_fds = zip(*found, strict=True)
        # A connection more or less, but not one for each of a dozen workers that died.
        assert agents[-1] <= agents[0] + 3
        assert proxy_fds[-1] <= proxy_fds[0] + 3


async def test_two_reloads_at_once_and_a_stop_during_one_lose_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, "--drain", "60s") as node:
        with node.client() as holding, crowd(node.port) as asking:
            await eventually(lambda: asking.total > 50)
            first, second = await asyncio.gather(*(asyncio.to_thread(node.rota, "reload") for _ in range(2)))
            assert sorted([first.code, second.code])[0] == 0
            holding.send(HELD)
            await eventually(node.notes)
            node.write(extra="\ntime.sleep(600)\n")
            reloading = asyncio.create_task(asyncio.to_thread(node.rota, "reload"))
            await node.until(lambda now: now["work"]["reloading"])
            os.kill(node.pid, signal.SIGTERM)
            await eventually(lambda: asking.rets[-10006] == CLIENTS)  # it waits for the one it holds
            node.gate.touch()
            assert holding.receive().ret == 0
            await eventually(lambda: not node.is_running)
            await reloading
        assert (asking.lost, asking.wrong) == (0, 0)
        assert set(asking.rets) == {0, -10006}
