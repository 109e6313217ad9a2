"""`rota events` on a store in a file."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rota.fleet.cli.events import command
from rota.fleet.events.event_log import EventLog
from rota.kit.time.instant import Instant
from rota.model.errors import Invalid
from rota.model.ids import NodeId
from rota.store import open_store


class SetClock:
    """A clock that is set by hand."""

    def __init__(self, wall: datetime) -> None:
        self.time = wall

    def wall(self) -> datetime:
        return self.time

    def monotonic(self) -> Instant:
        return Instant(0.0)


NOW = datetime.now(UTC)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store in which something happened."""
    url = f"sqlite:///{tmp_path / 'rota.db'}"

    async def fill() -> None:
        async with open_store(url) as store:
            for name, age in (("a", timedelta(hours=3)), ("b", timedelta(minutes=5))):
                log = EventLog(store, NodeId(name), SetClock(NOW - age))
                log.record("node.joined", name, term=2)
                log.record("worker.exited", "echo-1", pool="echo", code=3, why="exit code 3")
                await log.flush()

    asyncio.run(fill())
    return url


def events(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(command, ["--store", url, *arguments], catch_exceptions=False)


def test_a_table_for_people(url: str) -> None:
    lines = events(url).output.splitlines()
    assert len(lines) == 4
    shown = f"{NOW - timedelta(hours=3):%Y-%m-%d %H:%M:%S}"
    assert lines[0] == f"{shown}  info     node.joined         a  node a joined"
    assert lines[1] == f"{shown}  warning  worker.exited       a  worker echo-1 exited: exit code 3"


def test_a_list_and_lines_for_programs(url: str) -> None:
    listed = json.loads(events(url, "-o", "json").output)
    lines = [json.loads(line) for line in events(url, "-o", "jsonl").output.splitlines()]
    assert listed == lines
    assert set(listed[1]) == {"id", "at", "kind", "subject", "node", "severity", "text", "fields"}
    assert listed[1]["fields"] == {"pool": "echo", "code": 3, "why": "exit code 3"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["--kind", "worker.*"], ["a worker.exited", "b worker.exited"], id="kind"),
        pytest.param(["--kind", "run.*", "--kind", "node.joined"], ["a node.joined", "b node.joined"], id="kinds"),
        pytest.param(["--node", "b"], ["b node.joined", "b worker.exited"], id="node"),
        pytest.param(["--since", "1h"], ["b node.joined", "b worker.exited"], id="since"),
        pytest.param(["-n", "1"], ["b worker.exited"], id="number"),
        pytest.param(["-n", "0"], [], id="none"),
        pytest.param(["-n", "1", "--node", "a", "--since", "1d"], ["a worker.exited"], id="all of it"),
    ],
)
def test_some_of_them(url: str, arguments: list[str], expected: list[str]) -> None:
    found = [json.loads(line) for line in events(url, "-o", "jsonl", *arguments).output.splitlines()]
    assert [f"{each['node']} {each['kind']}" for each in found] == expected


def test_before_the_beginning_of_time(url: str) -> None:
    with pytest.raises(Invalid, match="leave it out"):
        events(url, "--since", "999999d")
