"""A sink on the standard output: `stdout://`, one JSON line per message.

A line is confirmed when the operating system has it. It cannot be known whether the reader of a pipe has stored it. A
reader that has gone does not come back, so this is reported as an error to fix.
"""

import os
import sys
from collections.abc import Sequence

from rota.model.errors import Invalid
from rota.sinks.intake import Intake
from rota.sinks.lines import LinesSink
from rota.sinks.port import Outcomes
from rota.sinks.url import Options, SinkUrl


async def open(url: SinkUrl, outcomes: Outcomes) -> LinesSink:
    """A sink on this process's standard output."""
    options = Options(url)
    if url.hosts or url.path:
        raise options.wrong("it names a place, but there is only one; write stdout://")
    intake = Intake(str(url), options.window(), outcomes)
    options.done()
    return LinesSink(intake, StreamWriter(sys.stdout.fileno()), str(url))


class StreamWriter:
    """A file descriptor that the sink does not own."""

    def __init__(self, stream: int) -> None:
        self._stream = stream
        self._rest = memoryview(b"")
        """What of a batch the stream has not taken yet: of what it has taken nothing is written again."""

    def write(self, lines: Sequence[bytes]) -> None:
        self._rest = self._rest or memoryview(b"".join(lines))
        try:
            while self._rest:
                self._rest = self._rest[os.write(self._stream, self._rest) :]
        except BrokenPipeError:
            raise Invalid("sink stdout://: its reader has ended; start the reader and this process again") from None

    def close(self) -> None:
        self._rest = memoryview(b"")
