"""Log lines for people and for programs."""

import json
import logging
import subprocess
import sys
from typing import Any

from rota.cli.terminal.own_log import JsonFormatter, TextFormatter

A_SERVER_SAYS_GOODBYE = """
import contextlib, socket, threading
from rota.cli.main import main

def frame(kind, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind]) + bytes(5) + payload

with contextlib.suppress(SystemExit):
    main(["--version"])
import grpc
with socket.create_server(("127.0.0.1", 0)) as server:
    channel = grpc.insecure_channel(f"127.0.0.1:{server.getsockname()[1]}")
    ready, ended = grpc.channel_ready_future(channel), threading.Event()
    connection, _ = server.accept()
    connection.recv(65536)
    connection.sendall(frame(4, b""))
    ready.result(30)
    connection.sendall(frame(7, bytes(7) + b"\\x01"))  # gRPC's library has a line for it, at its level INFO
    channel.subscribe(lambda state: state is grpc.ChannelConnectivity.READY or ended.set())
    assert ended.wait(30)
"""

NOON = 1767268801.25  # 2026-01-01 12:00:01.250 UTC


def record(message: str = "leading", level: int = logging.INFO, **extra: Any) -> logging.LogRecord:
    made = logging.getLogger("rota.control").makeRecord("rota.control", level, "f", 1, message, (), None, extra=extra)
    made.created = NOON
    return made


def failed() -> logging.LogRecord:
    try:
        raise ZeroDivisionError("oh")
    except ZeroDivisionError as error:
        made = record("term failed", logging.ERROR, term=3)
        made.exc_info = (type(error), error, error.__traceback__)
        return made


def test_what_grpc_says_of_its_connections_is_not_among_our_lines() -> None:
    done = subprocess.run([sys.executable, "-c", A_SERVER_SAYS_GOODBYE], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_line_for_people() -> None:
    line = TextFormatter().format(record(node="a", why="no answer", empty=""))
    assert line.endswith(':01 INFO    leading node=a why="no answer" empty=""')


def test_a_traceback_stands_below_its_line() -> None:
    first, *rest = TextFormatter().format(failed()).splitlines()
    assert first.endswith("ERROR   term failed term=3")
    assert rest[0] == "Traceback (most recent call last):"
    assert rest[-1] == "ZeroDivisionError: oh"


def test_only_what_deserves_it_has_colour() -> None:
    lines = TextFormatter(has_colour=True)
    assert "\x1b" not in lines.format(record())
    assert "\x1b[33mWARNING\x1b[0m leading" in lines.format(record(level=logging.WARNING))


def test_a_line_for_programs() -> None:
    text = JsonFormatter().format(record(node="a", safe_for_s=1.5, term=3, where=("x", 1)))
    assert "\n" not in text
    assert json.loads(text) == {
        "time": "2026-01-01T12:00:01.250Z", "level": "info", "event": "leading", "logger": "rota.control",
        "node": "a", "safe_for_s": 1.5, "term": 3, "where": ["x", 1],
    }  # fmt: skip


def test_an_exception_is_a_field() -> None:
    line = json.loads(JsonFormatter().format(failed()))
    assert line["event"] == "term failed"
    assert line["exception"].endswith("ZeroDivisionError: oh")


def test_what_json_cannot_say_is_said_in_words() -> None:
    line = json.loads(JsonFormatter().format(record(error=ValueError("bad"), event="x", time="y")))
    assert line["error"] == "bad"
    assert (line["event"], line["event_"], line["time_"]) == ("leading", "x", "y")
