"""Stacks of workers that were stuck, kept in the data folder so that an operator can read them later."""

import re
import signal
from pathlib import Path

from rota.kit.files import private
from rota.kit.time.clock import Clock

SIGNAL = signal.SIGUSR2
"""The signal that makes a worker write down the stacks of its threads."""

STACKS_WAIT = 0.3
"""Seconds that a worker gets to write them down before it is killed."""

KEEP = 20
"""The number of files kept; the oldest are deleted first."""


class Stacks:
    """The folder of saved stacks."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock

    def save(self, subject: str, pid: int | None, text: str) -> str | None:
        """Save one; returns the file's name, or None if the disk refused."""
        time = self._clock.wall().strftime("%Y%m%dT%H%M%S.%f")
        file = self._folder / f"{time}-{re.sub(r'[^A-Za-z0-9.-]+', '-', subject)}-{pid}.txt"
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with open(file, "w", opener=private) as out:
                out.write(text)
            for old in sorted(self._folder.glob("*.txt"))[:-KEEP]:
                old.unlink(missing_ok=True)
        except OSError:
            return None
        return str(file)
