"""A node that was started by systemd tells it how it is."""

import os
import signal
import socket
from pathlib import Path

from tests.kit.node import NodeUnderTest
from tests.kit.waiting import eventually


async def test_a_node_says_that_it_is_ready_that_it_lives_and_that_it_stops(tmp_path: Path) -> None:
    address = tmp_path / "notify"
    heard: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(address))
        systemd.setblocking(False)

        def has_said(word: str) -> bool:
            try:
                while True:
                    heard.append(systemd.recv(4096).decode().rstrip("\n"))
            except BlockingIOError:
                return word in heard

        environ = {"NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": "3000000"}
        with NodeUnderTest(tmp_path / "n", name="n", environ=environ) as node:
            await eventually(lambda: has_said("READY=1"), within=30)
            await eventually(lambda: has_said("WATCHDOG=1"), within=30)
            await eventually(
                lambda: has_said(f"STATUS=node {node.name}, following; trial, 0 of 0 tasks run"), within=30
            )
            assert "STOPPING=1" not in heard
            os.kill(node.pid, signal.SIGTERM)
            await eventually(lambda: has_said("STOPPING=1"), within=30)
            await eventually(lambda: not node.is_running, within=30)
