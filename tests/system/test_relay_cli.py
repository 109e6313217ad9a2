"""`rota relay` as a user calls it, on a store in which the test writes what relays say of themselves."""

import asyncio
import json
from pathlib import Path

import pytest

from rota.kit.record import replace
from rota.store import open_store
from tests.kit.cli import ROTA
from tests.kit.fleet_records import declare, join, lead
from tests.kit.process import Process
from tests.kit.relay_records import IDLE, SINK, status, write_map
from tests.kit.store_cli import call
from tests.kit.waiting import eventually


@pytest.fixture
async def url(tmp_path: Path) -> str:
    """A fleet of two relays, one of which has a sink that is down."""
    url = f"sqlite:///{tmp_path / 'rota.db'}"
    async with open_store(url) as store:
        await declare(store, "room")
        await join(store, "n1", kinds=("room",))
        await lead(store, "n1")
        await status(store, "n1")
        await status(store, "n2", IDLE)
        await write_map(store, "n1", "n2")
    return url


def test_stat_shows_relays_and_sinks(url: str):
    lines = call(url, "relay", "stat").out.splitlines()
    assert lines[0] == "relay map: version 1, homes n1, n2"
    assert lines[1].split() == ["NODE", "UP", "HOME", "MAP", "LINES", "WINDOW", "PASSED", "ON", "WAITING", "REFUSED"]
    assert lines[2].split()[2:] == ["yes", "4", "3", "40", "5", "6", "2", "an", "earlier", "epoch"]
    assert lines[4] == "node n1 does not reach the relay of n9: its token is another"
    lines = lines[2:]
    assert lines[5].split()[:7] == ["n1", "amqp://box", "down", "20", "3", "2", "7"]
    assert lines[5].endswith("1 no queue  cannot connect")
    assert lines[6].split()[:3] == ["n2", "amqp://box", "up"]
    assert call(url, "relay", "stat", "--node", "n2").out.count("amqp://box") == 1


def test_stat_for_programs_is_a_line_for_each_look(url: str):
    looks = [json.loads(line) for line in call(url, "relay", "stat", "--loop", "2", "-o", "json").out.splitlines()]
    assert [look["relays"][0]["status"]["sinks"][0]["spool_messages"] for look in looks] == [7, 7]
    assert looks[0]["as_of"] < looks[1]["as_of"]


def test_a_node_without_a_relay_is_an_error_and_a_fleet_without_relays_is_none(url: str, tmp_path: Path):
    answer = call(url, "relay", "stat", "--node", "n3")
    assert (answer.code, answer.err) == (3, 'rota: node "n3" has no relay; there are some on n1, n2\n')

    async def empty() -> str:
        bare = f"sqlite:///{tmp_path / 'bare.db'}"
        async with open_store(bare) as store:
            await join(store, "n1")
        return bare

    assert call(asyncio.run(empty()), "relay", "stat").out.startswith("no relays;")


def test_status_tells_of_a_sink_that_is_down(url: str):
    answer = call(url, "status")
    assert "node n1: messages for the relay of n9 wait: its token is another" in answer.out
    assert "node n1: sink amqp://box is down: cannot connect; 7 messages are spooled" in answer.out
    assert json.loads(call(url, "status", "-o", "json").out)["nodes"][0]["relay"]["lines"] == 3


def test_drain_says_what_is_left_when_its_time_is_over(url: str):
    answer = call(url, "relay", "drain", "--timeout", "2s")
    left = (
        "node n1: 6 for other relays; node n1: 5 in memory and 7 spooled for amqp://box, which is down: cannot connect"
    )
    assert (answer.code, answer.out) == (1, left + "\n")
    assert answer.err == f"rota: after 2s {left}\n"
    assert call(url, "relay", "drain", "--node", "n2", "--timeout", "20s").out == "nothing is left to publish\n"


async def test_drain_waits_for_the_last_message(url: str, tmp_path: Path):
    with Process([ROTA, "relay", "drain", "--store", url, "--timeout", "30s"], tmp_path / "drain.out") as drain:
        await eventually(drain.lines)
        async with open_store(url) as store:
            await status(store, "n1", replace(SINK, waiting=0, under_way=0, spool_messages=1))
            await eventually(lambda: len(drain.lines()) == 2)
            assert drain.is_running
            await status(store, "n1", IDLE)
        await eventually(lambda: not drain.is_running)
    assert drain.lines()[1:] == [
        "node n1: 0 in memory and 1 spooled for amqp://box, which is down: cannot connect",
        "nothing is left to publish",
    ]
