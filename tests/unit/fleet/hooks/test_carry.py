"""Carrying deliveries out of the fleet: a real server is called, real commands are run."""

import errno
import json
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest

from rota.fleet.core.hooks.record import Delivery, Hook, HookFailure
from rota.fleet.hooks.carry import send
from rota.model import event
from rota.model.ids import NodeId
from tests.kit.node import is_gone
from tests.kit.waiting import eventually
from tests.kit.webhooks import webhook

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def hook(*, url: str = "", command: tuple[str, ...] = (), timeout: float = 60.0) -> Hook:
    span = timedelta(seconds=timeout)
    return Hook(name="pager", events=["*"], url=url, command=list(command), timeout=span, created=NOW)


def delivery() -> Delivery:
    happened = event.make("node.offline", "b", {"why": "quiet"}, node=NodeId("a"), at=NOW, number=7)
    return Delivery(hook="pager", event=happened, due=NOW, attempts=2)


async def test_a_url_is_told_the_event_and_an_id() -> None:
    with webhook() as called:
        assert await send(hook(url=called.url), delivery()) is None
    assert [told.id for told in called.told] == [delivery().id]
    body = called.told[0].body
    assert (body["hook"], body["attempt"], body["id"]) == ("pager", 2, delivery().id)
    assert (body["event"]["kind"], body["event"]["subject"], body["event"]["fields"]) == (
        "node.offline",
        "b",
        {"why": "quiet"},
    )


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_another_answer_than_2xx_is_a_failure_that_keeps_the_path_secret(status: int) -> None:
    with webhook() as called:
        called.status = status
        why = await send(hook(url=f"{called.url}?key=secret"), delivery())
    assert why is not None
    assert why.why.endswith(f"answered {status}")
    assert "secret" not in str(why)


async def test_the_log_has_no_path_either(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), webhook() as called:
        assert await send(hook(url=f"{called.url}?key=secret"), delivery()) is None
    assert "secret" not in caplog.text


async def test_a_url_that_nobody_answers() -> None:
    why = await send(hook(url="http://127.0.0.1:1/x?key=secret"), delivery())
    assert why is not None
    assert why.why.startswith("127.0.0.1:1 was not reached")
    assert "secret" not in str(why)


async def test_a_command_finds_the_event_on_its_stdin_and_in_its_environment(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    script = f'cat > {seen}; echo "$HOOK_NAME $HOOK_EVENT $HOOK_SUBJECT $HOOK_ID" > {seen}.env; echo done'
    assert await send(hook(command=("sh", "-c", script)), delivery()) is None
    assert json.loads(seen.read_text())["event"]["subject"] == "b"
    assert (tmp_path / "seen.env").read_text() == f"pager node.offline b {delivery().id}\n"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param(("sh", "-c", "echo broken >&2; exit 3"), "the command exited with 3: broken", id="a code"),
        pytest.param(("no-such-program",), "the command exited with 127", id="no such program"),
        pytest.param(("sh", "-c", "kill -9 $PPID"), "the command exited with a signal", id="its shell is killed"),
        pytest.param(("sh", "-c", "head -c 300000 /dev/zero; exit 1"), "exited with 1", id="it says a lot"),
    ],
)
async def test_a_command_that_fails_says_why(command: tuple[str, ...], words: str) -> None:
    why = await send(hook(command=command), delivery())
    assert why is not None
    assert words in f"{why.why}: {why.output}"
    assert why.output not in why.why or not why.output, "what it printed is kept apart"
    assert len(why.why) + len(why.output) < 1000


async def test_a_command_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = f"sleep 60 & echo $! > {child}; sleep 60"
    assert await send(hook(command=("sh", "-c", script), timeout=2), delivery()) == HookFailure(
        "it took longer than 2 s"
    )
    pid = int(child.read_text())
    await eventually(lambda: is_gone(pid))


async def test_a_node_without_descriptors_fails_the_delivery_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(name: str) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("rota.fleet.hooks.carry.kernel.scratch_file", none_left)
    why = await send(hook(command=("true",)), delivery())
    assert why == HookFailure("the command could not be started: Too many open files")


async def test_what_no_program_can_be_told_is_a_failure_too() -> None:
    happened = event.make("run.failed", "a\0b", {}, node=NodeId("a"), at=NOW, number=7)
    why = await send(hook(command=("true",)), Delivery(hook="pager", event=happened, due=NOW))
    assert why == HookFailure("the command could not be started: embedded null byte")


@contextmanager
def endless() -> Iterator[tuple[str, list[int]]]:
    """A server that answers 200 and then sends until the caller closes; what it got rid of, in bytes."""
    sent = [0]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            caller, _ = server.accept()
            with caller, suppress(OSError):
                caller.recv(65536)
                caller.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n")
                while sent[0] < ENOUGH:
                    sent[0] += caller.send(b"x" * 65536)

        serving = Thread(target=serve)
        serving.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/", sent
        serving.join()


ENOUGH = 256 * 1024 * 1024


async def test_of_an_answer_only_the_status_is_read_however_long_it_is() -> None:
    with endless() as (url, sent):
        assert await send(hook(url=url), delivery()) is None
    assert sent[0] < ENOUGH  # the rest was never taken: the connection was closed
