"""What a worker prints: where it goes, what it is about, and that nothing of this can hurt it."""

import asyncio
import io
import logging
import os
import sys
from contextvars import copy_context
from pathlib import Path

import pytest

from rota.resources.node.task_lines import work_of
from rota.runtime.pipes.brief import Order
from rota.runtime.printed import Printed
from rota.runtime.worker.tee import About, LineBuffer, Tee, about, install

USUAL = About("worker", "host")


@pytest.fixture
def keeper(tmp_path: Path) -> LineBuffer:
    return LineBuffer(Printed(tmp_path), USUAL)


def kept(folder: Path, work: About = USUAL) -> list[tuple[str, str]]:
    return [(line.part, line.text) for line in Printed(folder).read(work.subject).lines]


def test_what_is_printed_goes_on_and_whole_lines_are_kept(keeper: LineBuffer, tmp_path: Path) -> None:
    old = io.TextIOWrapper(io.BytesIO(), write_through=True)
    tee = Tee(old, keeper)
    print("one", "two", file=tee)
    tee.write("half")
    assert kept(tmp_path) == [("host", "one two")]
    tee.buffer.write(b" a line\r\n\nnext")
    assert kept(tmp_path)[1:] == [("host", "half a line"), ("host", "")]
    keeper.end()
    assert kept(tmp_path)[-1] == ("host", "next")
    assert old.buffer.getvalue() == b"one two\nhalf a line\r\n\nnext"  # type: ignore[attr-defined]
    assert tee.encoding == old.encoding


async def test_lines_of_several_tasks_in_one_worker_are_told_apart(keeper: LineBuffer, tmp_path: Path) -> None:
    tee = Tee(io.StringIO(), keeper)
    works = [work_of(Order(f"room/{id}#0", 1, "room", id, 0)) for id in ("1", "2")]

    async def speak(word: str) -> None:
        tee.write(word)
        await asyncio.sleep(0)
        tee.write(" again\n")
        await asyncio.to_thread(tee.write, f"{word} in a thread\n")

    tasks = []
    for work in works:
        context = copy_context()
        context.run(about.set, work)
        tasks.append(asyncio.create_task(speak(work.subject), context=context))
    await asyncio.gather(*tasks)
    for work in works:
        assert kept(tmp_path, work) == [("0", f"{work.subject} again"), ("0", f"{work.subject} in a thread")]
    assert kept(tmp_path) == []


def test_what_cannot_be_kept_is_counted_and_told_later(keeper: LineBuffer, tmp_path: Path) -> None:
    tee = Tee(io.StringIO(), keeper)
    tmp_path.rename(tmp_path.with_name("away"))
    print("lost\nlost too", file=tee)
    assert keeper.dropped == 2
    tmp_path.with_name("away").rename(tmp_path)
    print("kept", file=tee)
    assert kept(tmp_path) == [("host", "[rota: 2 lines before this one could not be kept]"), ("host", "kept")]
    assert keeper.dropped == 0


def test_a_forked_child_keeps_its_own_lines_and_not_its_parents(keeper: LineBuffer, tmp_path: Path) -> None:
    keeper.take("begun by the parent")
    child = os.fork()
    if child == 0:
        keeper.take("child\n")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    keeper.take(" and ended\n")
    lines = Printed(tmp_path).read(USUAL.subject).lines
    assert {(line.pid, line.text) for line in lines} == {
        (child, "child"),
        (os.getpid(), "begun by the parent and ended"),
    }


def test_handlers_of_logging_go_through_it(keeper: LineBuffer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = io.StringIO()
    monkeypatch.setattr(sys, "stderr", old)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    handler, logger = logging.StreamHandler(old), logging.getLogger("of.the.app")
    logger.addHandler(handler)
    try:
        install(keeper)
        logger.warning("said")
    finally:
        logger.removeHandler(handler)
    assert ("host", "said") in kept(tmp_path)
    assert "said" in old.getvalue()


def test_the_work_of_an_order() -> None:
    stream = Order("stream:clicks/12ab#1", 1, "stream:clicks", "12ab", 1, b'{"stream": "clicks"}')
    assert work_of(stream) == About("stream clicks", "12ab#1")
    assert work_of(Order("room/1#2", 1, "room", "1", 2)) == About("resource room/1", "2")
