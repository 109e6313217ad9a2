"""A process that writes its spool, killed −9 again and again: what it said is safe is there."""

import random
import subprocess
import sys
from pathlib import Path

from rota.relay.process.spool import Spool
from tests.kit.sinks import numbers

WRITER = """
import sys
from pathlib import Path
from rota.relay.process.spool import Spool
from tests.kit.sinks import messages

spool = Spool(Path(sys.argv[1]), lambda some: None, segment=20_000)
number = int(sys.argv[2])
while True:
    batch = messages(1 + number % 7, first=number)
    spool.append(batch)
    number += len(batch)
    print(number, flush=True)
"""
ROUNDS = 12


def test_what_was_said_to_be_on_disk_is_there_after_a_kill(tmp_path: Path) -> None:
    chance, written = random.Random(7), 0
    for _ in range(ROUNDS):
        written = _write_until_killed(tmp_path, written, after=chance.randrange(5, 80))
        left: list[int] = []
        spool = Spool(tmp_path, lambda some, left=left: left.extend(numbers(some)))  # type: ignore[misc]
        assert spool.lost == []
        assert left == list(range(len(left))), "in order, without a gap"
        assert len(left) >= written, f"{written} were acked, {len(left)} are there"
        written = len(left)
        spool.close()
    assert written > ROUNDS * 5


def _write_until_killed(folder: Path, first: int, after: int) -> int:
    """Let a process write until it has acked so many batches, and kill it; up to which number it has acked."""
    command = [sys.executable, "-c", WRITER, str(folder), str(first)]
    acked = first
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(after):
            acked = int(writer.stdout.readline())
        writer.kill()
        for line in writer.stdout:  # what it said before it died
            acked = int(line)
    return acked
