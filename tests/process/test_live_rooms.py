"""The example with live rooms, small: what two replicas hear is in RabbitMQ once, although processes die."""

from pathlib import Path

import pytest

from tests.kit.live_rooms import WINDOW, Talk, live_rooms
from tests.kit.server_pool import ServerPool
from tests.kit.servers import RabbitMQ
from tests.kit.waiting import eventually

pytestmark = pytest.mark.needs("rabbitmq")

ROOMS = 20
SAID = 300
"""Messages of all rooms together, about three seconds of them: connections must live for one to count."""


@pytest.fixture
def rabbitmq(servers: ServerPool) -> RabbitMQ:
    server = servers.get(RabbitMQ, "steady")
    assert isinstance(server, RabbitMQ)
    return server


async def test_a_worker_that_dies_loses_and_repeats_nothing(rabbitmq: RabbitMQ, tmp_path: Path):
    async with live_rooms(tmp_path, rabbitmq, Talk(rooms=ROOMS, rate=5.0, cuts=2.0)) as rooms:
        await rooms.until_heard()
        await rooms.until_said(SAID)
        for _ in range(2):
            victim = rooms.kill_a_worker()
            await rooms.until_heard(without=victim)
            await rooms.until_said(SAID)
        found = await rooms.verdict()
    assert found["heard"] > 0, found
    assert (found["lost"], found["repeats"], found["renamed"]) == (0, 0, 0)


async def test_a_relay_that_dies_loses_nothing_and_repeats_only_what_was_under_way(rabbitmq: RabbitMQ, tmp_path: Path):
    async with live_rooms(tmp_path, rabbitmq, Talk(rooms=ROOMS, rate=5.0)) as rooms:
        await rooms.until_heard()
        await rooms.until_said(SAID)
        for relay in rooms.relays():
            relay.kill()
            await eventually(lambda pid=relay.pid: pid not in rooms.relay_pids() and len(rooms.relay_pids()) == 2)
        found = await rooms.verdict()
    assert found["heard"] > 0, found
    assert (found["lost"], found["renamed"], found["disordered"]) == (0, 0, 0)
    assert found["repeats"] <= 2 * WINDOW
