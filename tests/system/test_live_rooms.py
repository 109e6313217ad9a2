"""The example with live rooms: its check knows what is wrong, and its platform keeps a true log."""

import asyncio
import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.kit.process import ROOT, Process
from tests.kit.servers import free_port
from tests.kit.waiting import eventually

EXAMPLE = ROOT / "examples/05-live-rooms"


def sent(at: float, number: int, *connections: int, room: str = "a") -> str:
    return json.dumps(["sent", at, room, number, connections])


def ended(at: float, connection: int) -> str:
    return json.dumps(["ended", at, connection])


LOG = [
    sent(1.0, 1, 1, 2),
    sent(2.0, 2, 1, 2),
    ended(2.5, 1),  # the second message lived on in connection 2 only
    sent(3.0, 3, 2),
    ended(3.5, 2),  # the third may be lost with it
    sent(4.0, 4),  # nobody listened
    sent(9.0, 1, 3, room="b"),
    ended(10.5, 3),
]
ALL = [(("a", 1), "id-1", "n1"), (("a", 2), "id-2", "n1"), (("b", 1), "id-b", "n1")]


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = spec_from_file_location("live_rooms_check", EXAMPLE / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_what_a_listener_took_to_its_grave_may_be_missing(check):
    found = check.compare(LOG, ALL)
    assert (found.sent, found.heard, found.arrived, found.lost) == (5, 3, 3, 0)
    assert found.is_well
    assert found.repeats == found.renamed == found.disordered == 0


@pytest.mark.parametrize(
    ("arrivals", "lost", "repeats", "renamed", "disordered"),
    [
        pytest.param(ALL[1:], 1, 0, 0, 0, id="one is lost"),
        pytest.param([*ALL, ALL[0]], 0, 1, 0, 0, id="one came again, under the same id"),
        pytest.param([*ALL, (("a", 1), "other", "n2")], 0, 0, 1, 0, id="one came again, under another id"),
        pytest.param([ALL[1], ALL[0], ALL[2]], 0, 0, 0, 1, id="one came late"),
        pytest.param([ALL[1], (("a", 1), "id-1", "n2"), ALL[2]], 0, 0, 0, 0, id="another task was slower"),
        pytest.param([*ALL, (("a", 3), "id-3", "n2")], 0, 0, 0, 0, id="more than had to"),
    ],
)
def test_each_fault_is_counted_for_itself(check, arrivals, lost, repeats, renamed, disordered):
    found = check.compare(LOG, arrivals)
    assert (found.lost, found.repeats, found.renamed, found.disordered) == (lost, repeats, renamed, disordered)
    assert found.is_well == (not lost and not renamed)


async def test_the_platform_cuts_and_forgets_connections_and_writes_down_who_was_sent_what(tmp_path: Path):
    port, log = free_port(), tmp_path / "sent.jsonl"
    flags = ["--port", port, "--rooms", 2, "--rate", 50, "--cuts", 3, "--silences", 3, "--log", log]
    with Process([sys.executable, EXAMPLE / "live_platform.py", *flags], tmp_path / "platform.out") as platform:
        await eventually(platform.lines)
        url = f"ws://127.0.0.1:{port}/rooms"
        async with connect(url) as asking:
            assert json.loads(await asking.recv()) == ["room-0", "room-1"]
        async with connect(f"{url}/no-such-room") as asking:
            with pytest.raises(ConnectionClosed, match="no room"):
                await asking.recv()
        heard = await asyncio.gather(*(_until_it_fails(f"{url}/room-{number % 2}") for number in range(20)))
        platform.stop()
    assert {how for how, _ in heard} == {"cut", "forgotten"}
    told: dict[int, list[tuple[str, int]]] = {}
    for line in log.read_text().splitlines():
        what, _, *about = json.loads(line)
        if what == "sent":
            for connection in about[2]:
                told.setdefault(connection, []).append((about[0], about[1]))
    # What was cut off may have been on its way; what was forgotten had got all it was sent.
    assert all(numbers in told.values() for how, numbers in heard if how == "forgotten" and numbers)


async def _until_it_fails(url: str) -> tuple[str, list[tuple[str, int]]]:
    """How a connection failed, and what it got before."""
    got: list[tuple[str, int]] = []
    async with connect(url, compression=None) as connection:
        while True:
            try:
                said = await _next(connection)
            except ConnectionClosed:
                return "cut", got
            except TimeoutError:
                return "forgotten", got
            got.append((said["room"], said["number"]))


async def _next(connection: ClientConnection) -> dict[str, object]:
    async with asyncio.timeout(5):
        said: dict[str, object] = json.loads(await connection.recv())
        return said
