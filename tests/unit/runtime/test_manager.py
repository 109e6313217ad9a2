"""What systemd is told of a node, through a socket as systemd has one."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.runtime.manager import Condition, Manager, from_environ, keep_notified

WELL = Condition(is_ready=True, is_well=True, words="node a, leading")


class Systemd:
    """The other end."""

    def __init__(self, address: str) -> None:
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.bind(address)
        self._sock.setblocking(False)

    def heard(self) -> list[str]:
        """What was said since the last time."""
        found = []
        while True:
            try:
                found.append(self._sock.recv(4096).decode().rstrip("\n"))
            except BlockingIOError:
                return found

    def close(self) -> None:
        self._sock.close()


@pytest.fixture
def address(tmp_path: Path) -> str:
    return str(tmp_path / "notify")


@pytest.fixture
def systemd(address: str) -> Iterator[Systemd]:
    made = Systemd(address)
    yield made
    made.close()


async def turns(manager: Manager, *seen: Condition) -> None:
    """Look at each condition once."""
    conditions = iter(seen)
    over = asyncio.Event()

    def look() -> Condition:
        try:
            return next(conditions)
        except StopIteration:
            over.set()
            return seen[-1]

    task = asyncio.create_task(keep_notified(manager, look))
    await over.wait()
    task.cancel()


async def test_it_is_told_once_that_the_node_is_ready_and_each_change_of_its_condition(
    address: str, systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.runtime.manager.LOOK", 0.0)
    starting = Condition(is_ready=False, is_well=True, words="node a, not in the fleet")
    await turns(Manager(address), starting, starting, WELL, starting, WELL)
    first, *later = systemd.heard()
    assert first == "STATUS=node a, not in the fleet"
    assert later[:2] == ["READY=1", "STATUS=node a, leading"]
    assert later.count("READY=1") == 1


async def test_a_sign_of_life_is_given_only_while_loops_get_on(address: str, systemd: Systemd) -> None:
    hangs = Condition(is_ready=True, is_well=False, words="node a, leading")
    manager = Manager(address, watchdog=0.003)
    await turns(manager, hangs, hangs, hangs)
    assert "WATCHDOG=1" not in systemd.heard()
    await turns(manager, hangs, WELL, WELL)
    assert "WATCHDOG=1" in systemd.heard()


async def test_without_a_watchdog_no_sign_of_life_is_given(
    address: str, systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.runtime.manager.LOOK", 0.0)
    await turns(Manager(address), WELL, WELL)
    assert "WATCHDOG=1" not in systemd.heard()


def test_an_abstract_address_is_understood() -> None:
    address = f"rota-test-{os.getpid()}"
    systemd = Systemd(f"\0{address}")
    Manager(f"@{address}").notify(READY=1, STATUS="here")
    assert systemd.heard() == ["READY=1\nSTATUS=here"]
    systemd.close()


def test_a_manager_that_has_gone_harms_nobody(address: str) -> None:
    Manager(address).notify(READY=1)
    assert not Path(address).exists()


@pytest.mark.parametrize(
    ("environ", "listens", "watchdog"),
    [
        pytest.param({}, False, None, id="started by hand"),
        pytest.param({"NOTIFY_SOCKET": "/run/notify"}, True, None, id="no watchdog"),
        pytest.param({"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "30000000"}, True, 30.0, id="watched"),
        pytest.param({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "5", "WATCHDOG_PID": "1"}, True, None, id="not this"),
        pytest.param({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "soon"}, True, None, id="no number"),
    ],
)
def test_the_environment_says_who_listens_and_is_cleaned(
    environ: dict[str, str], listens: bool, watchdog: float | None
) -> None:
    kept = {"PATH": "/bin", **environ}
    manager = from_environ(kept, pid=4711)
    assert (manager.listens, manager.watchdog) == (listens, watchdog)
    assert kept == {"PATH": "/bin"}
