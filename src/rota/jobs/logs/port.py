"""The port of run logs: the output of attempts, kept where it can be read after its node is gone.

A log is a sequence of bytes that grows at its end and is written by one node. Its key is its run and the number of the
attempt. It never goes through the store's keys: a log may be larger than all of them together.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple, Protocol

CHUNK = 64 * 1024
"""Bytes of one chunk, at most."""


class LogChunk(NamedTuple):
    """A piece of a log."""

    run: str
    attempt: int
    offset: int
    data: bytes
    is_last: bool = False
    """Does the log end with it?"""


class Logs(Protocol):
    """Kept logs. Every adapter keeps these laws (`tests/contract/test_logs.py`):

    1. What was appended is read back byte for byte, from any offset.
    2. Appending chunks again, and all that followed, changes nothing, so that those whose outcome is unknown can be
       sent again.
    3. A read begins at the offset asked for, is of any length up to one chunk, and is empty only past the end. Where
       bytes were given up, it says so in their place (`rules.filler`).
    4. Attempts and runs are apart, whatever characters are in their names.
    5. Forgetting a run takes the logs of all its attempts, and no others; forgetting it again changes nothing.
    6. A chunk larger than 64 KiB is Invalid, and none of the chunks passed with it is appended.
    7. `held` is the sum of the bytes that were appended and not forgotten.
    8. What is out of reach is Unavailable, or Unknown if it may have happened.
    """

    is_shared: bool
    """Do all nodes keep their logs in the same place?"""

    async def append(self, chunks: Sequence[LogChunk]) -> None:
        """Keep chunks; those of one log in their order."""

    async def read(self, run: str, attempt: int, offset: int = 0) -> bytes:
        """A piece of the log from `offset`."""

    async def is_whole(self, run: str, attempt: int) -> bool:
        """Has the end of the log been appended?"""

    async def forget(self, runs: Sequence[str]) -> None:
        """Drop the logs of runs. However large they are, others can write meanwhile. What fails half-way is resumed by
        forgetting the runs again."""

    async def older(self, age: timedelta, limit: int) -> list[str]:
        """Runs with a log whose first chunk is older than `age`, the oldest first.

        Its age is measured by one clock, that of the place which keeps it.
        """

    async def held(self, run: str | None = None) -> int:
        """Bytes of the logs of a run, or of all runs."""

    async def close(self) -> None:
        """Close all files and connections."""
