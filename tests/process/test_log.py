"""A process appends to a log and is killed −9 again and again while another one reads: nothing is lost or wrong."""

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from rota.model.errors import Conflict
from rota.sources import log_place, open_log, open_source
from tests.kit.sources import news, numbers, take

WRITER = """
import sys
from rota.sources import open_log
from tests.kit.sources import news

with open_log(sys.argv[1]) as log:
    number = log.bounds()[0].end
    while True:
        (appended,) = log.append(news(1 + number % 7, first=number), partition=0)
        number = appended.first + appended.size
        print(number, flush=True)
"""
ROUNDS = 8
FEWEST = 5
"""Batches that each writer acks at least, of one record or more: so many may be waited for while it writes."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A log of one partition, with small segments."""
    url = f"log://{tmp_path / 'log'}"
    log_place(url).create(1, segment_bytes=20_000)
    return url


def write_until_killed(url: str, after: int) -> int:
    """Let a process append until it has acked so many batches, and kill it; up to which number it has acked."""
    acked = 0
    with subprocess.Popen([sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(after):
            acked = int(writer.stdout.readline())
        with pytest.raises(Conflict, match="another process appends"), open_log(url) as log:
            log.append(news(1))
        writer.kill()
    return acked


async def test_what_was_acked_is_read_once_and_in_order_by_a_reader_that_follows(url: str) -> None:
    chance, seen, acked = random.Random(7), 0, 0
    async with open_source(url) as source, asyncio.timeout(100):
        reader = await source.reader({0: 0})
        for _ in range(ROUNDS):
            writing = asyncio.create_task(
                asyncio.to_thread(write_until_killed, url, after=chance.randrange(FEWEST, 60)), name="write"
            )
            taken = numbers((await take(reader, FEWEST)).of(0))
            acked = await writing
            if (missing := acked - seen - len(taken)) > 0:
                taken += numbers((await take(reader, missing)).of(0))
            assert taken == list(range(seen, seen + len(taken))), "in order, each once"
            seen += len(taken)
            assert seen >= acked
        await reader.close()
    assert acked > ROUNDS * FEWEST
