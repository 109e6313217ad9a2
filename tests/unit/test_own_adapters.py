"""A sink and a source of other packages: those of the how-to pages, as if they were installed."""

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from rota import App, Task
from rota.model.errors import Invalid, NotFound
from rota.model.ids import NodeId
from rota.sinks import Message, open_sink
from rota.sources import Bounds, Vanished, open_source
from tests.kit.pages import blocks
from tests.kit.process import ROOT


def install(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package that a page shows, as an installer leaves it."""
    files = {block.file: block.text for block in blocks(ROOT / "docs/howto" / page) if block.file}
    for name, text in files.items():
        (folder / name).write_text(text)
    metadata = folder / "shown-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: shown\nVersion: 1.0\n")
    group, _, points = files["pyproject.toml"].partition('[project.entry-points."')[2].partition('"]\n')
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{points.replace(chr(34), '')}")
    monkeypatch.syspath_prepend(str(folder))


class Told:
    """What became of messages."""

    def __init__(self) -> None:
        self.confirmed_ids: list[bytes] = []

    def confirmed(self, messages: Sequence[Message]) -> None:
        self.confirmed_ids += [message.id for message in messages]

    def rejected(self, message: Message, why: str) -> None:
        raise AssertionError(why)


@contextmanager
def hook(received: list[str]) -> Iterator[int]:
    """A server that takes what is posted; the first time it does not."""
    refused: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            if not refused:
                refused.append(body)
                self.send_error(503)
                return
            received.extend(body.splitlines())
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Nobody reads it."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


async def test_the_sink_of_the_page_posts_messages_in_order_also_after_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("write-a-sink.md", tmp_path, monkeypatch)
    sent = [
        Message(
            id=bytes([n]) * 16, kind="room", resource="a", payload=b"%d" % n, node=NodeId("n1"), time=datetime.now(UTC)
        )
        for n in range(5)
    ]
    received: list[str] = []
    told = Told()
    with hook(received) as port:
        async with asyncio.timeout(30), open_sink(f"post://127.0.0.1:{port}/rooms", told) as sink:
            await sink.publish(sent)
            await sink.flush()
    assert told.confirmed_ids == [message.id for message in sent]
    assert [json.loads(line)["text"] for line in received] == ["0", "1", "2", "3", "4"]


async def test_the_source_of_the_page_reads_lines_and_says_what_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("write-a-source.md", tmp_path, monkeypatch)
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "0.txt").write_text("a\nb\nhalf a li")
    (folder / "1.txt").write_text("c\n")
    async with asyncio.timeout(30), open_source(f"text://{folder}") as source:
        assert await source.partitions() == (0, 1)
        assert await source.bounds([0, 1]) == {0: Bounds(0, 2), 1: Bounds(0, 1)}
        reader = await source.reader({0: 1, 1: 0})
        seen = {batch.partition: [record.value for record in batch.records] for batch in await reader.read()}
        (folder / "0.txt").write_text("a\n")
        with pytest.raises(Vanished, match="offset 1 cannot be read"):
            await reader.read()
        await reader.close()
        with pytest.raises(NotFound, match=r"make 7\.txt"):
            await source.bounds([7])
    assert seen == {0: [b"b"], 1: [b"c"]}


def test_an_app_may_name_what_a_package_offers_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App("shop")
    with pytest.raises(Invalid, match="has an unknown scheme"):
        app.resource(sink="post://hooks.example/rooms")(room)
    install("write-a-sink.md", tmp_path, monkeypatch)
    app.resource(sink="post://hooks.example/rooms")(room)
    with pytest.raises(Invalid, match=r"stdout://, memory:// or post://.*did you mean .post"):
        app.resource(name="other", sink="pots://hooks.example/rooms")(room)


async def room(task: Task) -> None:
    """What holds a room; never run here."""
