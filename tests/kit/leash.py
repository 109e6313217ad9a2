"""A leash on the processes a test run starts: when the run ends, however it ends, they end.

A test that overruns its time-out takes the whole run down without any clean-up, and servers that outlive it would
keep ports and memory for ever. So a small process of ours reads, from a pipe, which process groups we started and
which we ended; when the pipe closes, because we closed it or because we were killed, it kills those that are left.
"""

import atexit
import os
import signal
import subprocess
import sys
from contextlib import suppress


class Leash:
    """Our end of the pipe."""

    def __init__(self) -> None:
        self._reader: subprocess.Popen[str] | None = None

    def hold(self, group: int) -> None:
        """End this process group when we end."""
        self._tell(f"+{group}")

    def release(self, group: int) -> None:
        """This process group has ended."""
        self._tell(f"-{group}")

    def close(self) -> None:
        """End what is still held."""
        if self._reader is not None:
            self._reader.communicate()

    def _tell(self, line: str) -> None:
        if self._reader is None:
            self._reader = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, text=True, start_new_session=True
            )
            atexit.register(self.close)
        assert self._reader.stdin is not None
        self._reader.stdin.write(line + "\n")
        self._reader.stdin.flush()


LEASH = Leash()


def main() -> None:
    """The other end of the pipe."""
    held: set[int] = set()
    for line in sys.stdin:
        change = held.add if line[0] == "+" else held.discard
        change(int(line[1:]))
    for group in held:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
