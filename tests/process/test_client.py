"""The clients against real processes: burst as released, which also dies, and a node of ours."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from rota.client import AsyncServiceClient, ServiceClient, TimedOut
from rota.model.errors import Unavailable, Unknown
from rota.services.core.codes import Ret
from tests.kit.burst_server import Burst
from tests.kit.node import NodeUnderTest, title
from tests.kit.servers import free_port
from tests.kit.waiting import eventually

ECHO, NOTHING, FAIL, LEAVE = 1, 2, 3, 4


@pytest.fixture
def burst(tmp_path: Path) -> Iterator[Burst]:
    with Burst(tmp_path) as server:
        yield server


@pytest.fixture
async def client(burst: Burst) -> AsyncIterator[AsyncServiceClient]:
    async with AsyncServiceClient(f"127.0.0.1:{burst.port}", timeout="10s") as client:
        yield client


def role(server: Burst, name: str) -> list[psutil.Process]:
    """The processes of a server that are titled so."""
    family = psutil.Process(server.pid).children(recursive=True)
    return [process for process in family if f"burst:{name}" in title(process)]


async def test_burst_answers_both_clients(burst: Burst, client: AsyncServiceClient) -> None:
    bodies = [str(number).encode() for number in range(200)]
    answers = await asyncio.gather(*(client.call(ECHO, body) for body in bodies))
    assert [answer.body for answer in answers] == bodies
    for scheme in ("tcp", "udp"):
        with ServiceClient(f"{scheme}://127.0.0.1:{burst.port}", timeout="10s") as blocking:
            assert blocking.call(ECHO, json={"a": 1}).json() == {"a": 1}


async def test_bursts_own_codes_mean_what_ours_do(client: AsyncServiceClient) -> None:
    assert (await client.call(99)).ret == Ret.UNKNOWN_CMD
    assert (await client.call(FAIL)).ret == Ret.HANDLER_ERROR
    with pytest.raises(TimedOut):
        await client.call(NOTHING, timeout="300ms")
    assert (await client.call(ECHO, b"still here")).body == b"still here"


async def test_a_worker_that_dies_on_burst_costs_a_time_out_and_no_more(client: AsyncServiceClient) -> None:
    with pytest.raises(TimedOut):
        await client.call(LEAVE, timeout="300ms")
    assert (await client.call(ECHO, b"the other one")).body == b"the other one"


async def test_a_server_killed_in_the_middle_of_a_call_leaves_it_unknown(
    burst: Burst, client: AsyncServiceClient
) -> None:
    await client.call(ECHO)
    with ServiceClient(f"127.0.0.1:{burst.port}") as blocking:
        calls = [
            asyncio.create_task(client.call(NOTHING)),
            asyncio.create_task(asyncio.to_thread(blocking.call, NOTHING)),
        ]
        await eventually(lambda: burst.asked_nothing() == 2)
        burst.kill()
        for call in calls:
            with pytest.raises(Unknown) as caught:
                await call
            assert not isinstance(caught.value, TimedOut)
        # Its last process may still be on its way out: then a connection is taken, and cut.
        with pytest.raises((Unavailable, Unknown)):
            await asyncio.to_thread(blocking.call, ECHO, timeout="200ms")


async def test_a_proxy_that_is_killed_and_comes_back_is_found_again(burst: Burst, client: AsyncServiceClient) -> None:
    await client.call(ECHO)
    (proxy,) = await eventually(lambda: role(burst, "proxy"))
    proxy.send_signal(signal.SIGKILL)

    async def again() -> bool:
        return (await client.call(ECHO, b"back", timeout="1s")).body == b"back"

    assert await eventually(again, within=30, despite=(Unknown, Unavailable))


async def test_a_frozen_server_makes_calls_time_out_and_goes_on_where_it_was(
    burst: Burst, client: AsyncServiceClient
) -> None:
    await client.call(ECHO)
    burst.freeze()
    with pytest.raises(TimedOut):
        await client.call(ECHO, b"late", timeout="300ms")
    burst.thaw()
    assert (await client.call(ECHO, b"next")).body == b"next"


SERVICE = """
import os

import rota

app = rota.App("answers")
logic = app.service("logic", port={port}, udp=True, groups={{1: 2}})


@logic.on(1)
def echo(request):
    return request.body


@logic.on(4)
def leave(request):
    os._exit(1)
"""


async def test_a_service_of_ours_answers_both_clients_and_tells_them_of_a_lost_worker(tmp_path: Path) -> None:
    port = free_port()
    with NodeUnderTest(tmp_path, app=SERVICE.format(port=port)) as node:
        await node.ready()
        for scheme in ("tcp", "udp"):
            async with AsyncServiceClient(f"{scheme}://127.0.0.1:{port}", timeout="10s") as client:
                bodies = [str(number).encode() for number in range(50)]
                answers = await asyncio.gather(*(client.call(ECHO, body) for body in bodies))
                assert [answer.body for answer in answers] == bodies
                lost = await client.call(LEAVE)
                with pytest.raises(Unknown, match="the worker was lost at it"):
                    lost.raise_for_ret()
        with ServiceClient(f"127.0.0.1:{port}", timeout="10s") as blocking:
            assert (await asyncio.to_thread(blocking.call, ECHO, b"still here")).body == b"still here"
