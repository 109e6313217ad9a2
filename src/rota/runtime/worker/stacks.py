"""Stacks of workers that stood still, kept in the data folder so that somebody can read them tomorrow."""

import re
import signal
from pathlib import Path

from rota.kit.files import private
from rota.kit.time.clock import Clock

SIGNAL = signal.SIGUSR2
"""What makes a worker write down the stacks of its threads."""

STACKS_WAIT = 0.3
"""Seconds that a worker gets to write them down before it is killed."""

KEEP = 20
"""Files kept; the oldest go first."""


class Stacks:
    """The folder of saved stacks."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock

    def save(self, subject: str, pid: int | None, text: str) -> str | None:
        """Write one down; the file's name, or None if the disk refused."""
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
