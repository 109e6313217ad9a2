"""Services and their clients, with real processes: those who send garbage, do not read, say nothing, or vanish."""

import asyncio
import os
import resource
import signal
import socket
from pathlib import Path

import psutil
import pytest

from tests.kit.boxes import HEADER, MAGIC, Asker, box
from tests.kit.node import title
from tests.kit.service_app import ECHO, HELD, LARGE, SLOW
from tests.kit.service_trials import Served, serving
from tests.kit.waiting import eventually

BAD = {
    "no magic number": b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    "2 GiB": HEADER.pack(MAGIC, 0, 0, 0x7FFFFFFF, 1, 0, 1),
    "a negative length": HEADER.pack(MAGIC, 0, 0, -1, 1, 0, 1),
    "shorter than its header": HEADER.pack(MAGIC, 0, 0, 23, 1, 0, 1),
    "over the limit": box(ECHO, b"x" * 5000),
}


async def test_what_is_no_frame_ends_the_connection_and_no_other(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 1}, max_frame=4096") as node:
        with node.client() as good:
            for what, data in BAD.items():
                with node.client() as bad:
                    bad.sock.sendall(data)
                    assert bad.is_hung_up(), what
                assert good.ask(ECHO, what.encode()).ret == 0


async def test_a_client_that_does_not_read_is_kept_waiting_and_costs_no_other(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 2}") as node:
        with node.client() as slow, node.client() as good:
            slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 131_072)
            for _ in range(4):
                slow.send(LARGE, b"1500000")
            for _ in range(20):
                assert good.ask(ECHO, b"x").ret == 0
            assert [len(slow.receive().body) for _ in range(4)] == [1_500_000] * 4
            assert slow.ask(ECHO, b"x").ret == 0


async def test_answers_that_nobody_reads_have_a_limit(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 2}") as node:
        with node.client() as slow, node.client() as good:
            for _ in range(20):
                slow.send(LARGE, b"2000000")
            for _ in range(20):
                assert good.ask(ECHO, b"x").ret == 0
            await eventually(lambda: psutil.Process(_proxy(node)).memory_info().rss < 150_000_000)
            await eventually(slow.is_hung_up)


def _proxy(node: Served) -> int:
    (found,) = [each.pid for each in node.family() if "proxy" in title(each)]
    return found


async def test_who_says_nothing_for_too_long_is_hung_up_on_but_not_who_waits(tmp_path: Path) -> None:
    async with serving(tmp_path, options='groups={1: 1}, client_timeout="2s"') as node:
        with node.client() as idle, node.client() as waiting:
            assert waiting.ask(SLOW, b"4").ret == 0
            assert idle.is_hung_up()


async def test_a_time_limit_for_silence_that_a_reload_brings_counts_from_then(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 1}") as node:
        with node.client() as client:
            assert client.ask(ECHO).ret == 0
            node.reload(options='groups={1: 1}, client_timeout="30s"')
            node.reload(options='groups={1: 1}, client_timeout="29s"')
            assert client.ask(ECHO).ret == 0


async def test_more_clients_than_may_be_are_hung_up_on(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 1}, max_clients=2") as node:
        with node.client() as one, node.client() as two:
            assert (one.ask(ECHO).ret, two.ask(ECHO).ret) == (0, 0)
            with node.client() as third:
                assert third.is_hung_up()
            assert (one.ask(ECHO).ret, two.ask(ECHO).ret) == (0, 0)

        def has_room() -> bool:
            with node.client() as client:
                try:
                    return client.ask(ECHO).ret == 0
                except (EOFError, ConnectionError):
                    return False

        await eventually(has_room)


async def test_what_a_client_sent_before_it_closed_runs(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 1}") as node:
        with node.client() as other:
            other.send(HELD)
            await eventually(node.notes)
            for _ in range(3):
                with node.client() as closing:
                    for _ in range(5):
                        closing.send(SLOW, b"0")
            node.gate.touch()
            assert other.receive().ret == 0
        await eventually(lambda: [words[0] for words in node.notes()].count("done") == 16)


async def test_a_client_that_closes_its_sending_side_gets_its_answers(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 1}") as node:
        with node.client() as client:
            for _ in range(3):
                client.send(SLOW, b"0")
            client.send(HELD)
            client.sock.shutdown(socket.SHUT_WR)
            assert [client.receive().ret for _ in range(3)] == [0, 0, 0]
            node.gate.touch()
            assert client.receive().ret == 0
            assert client.is_hung_up()


async def test_frames_that_never_become_whole_take_bounded_memory(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 1}") as node:
        with node.client() as good:
            assert good.ask(ECHO).ret == 0
            before = psutil.Process(_proxy(node)).memory_info().rss
            clients = [node.client() for _ in range(150)]
            try:
                for client in clients:
                    _send_what_is_taken(client, box(ECHO, b"x" * 1_000_000)[:-1])
                assert good.ask(ECHO, b"y" * 500_000).ret == 0
                assert psutil.Process(_proxy(node)).memory_info().rss - before < 150_000_000
            finally:
                for client in clients:
                    client.sock.close()


def _send_what_is_taken(client: Asker, data: bytes) -> None:
    try:
        client.sock.sendall(data)
    except ConnectionError:
        return


@pytest.mark.parametrize("portable", ["", "1"], ids=["linux", "portable"])
async def test_thousands_of_idle_connections_cost_the_others_nothing(tmp_path: Path, portable: str) -> None:
    async with serving(tmp_path, options="groups={1: 1}", portable=portable) as node:
        clients = [node.client() for _ in range(600)]
        try:
            with node.client() as good:
                for _ in range(100):
                    assert good.ask(ECHO, b"x").ret == 0
            assert clients[-1].ask(ECHO).ret == 0
        finally:
            for client in clients:
                client.sock.close()


async def test_descriptors_are_kept_back_for_workers(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 2}") as node:
        await node.at_full_strength()
        resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (256, 256))
        before = _proxy(node)
        os.kill(before, signal.SIGKILL)  # the next one inherits the limit
        await node.until(lambda now: now["processes"]["proxies"] and now["processes"]["proxies"][0]["pid"] != before)
        await node.at_full_strength()
        clients = [node.client() for _ in range(300)]
        try:
            assert clients[0].ask(ECHO).ret == 0
            await asyncio.to_thread(node.reload, version=2)
            assert clients[0].ask(ECHO).ret == 0
        finally:
            for client in clients:
                client.sock.close()
        await node.at_full_strength()
