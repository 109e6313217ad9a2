"""Dead letters: records that a stream could not read, in a file for whoever looks into it.

One line of JSON for each, with the record whole. A task that takes another's place reads again what was not published,
and so the same letter may be there twice; partition and offset say which record it is.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rota.workloads.streams.transform import DeadLetter

MOST = 64 * 1024 * 1024
"""Bytes of a file; one that is full becomes the old one, and the old one before it goes."""


class Letters:
    """The dead letters of one stream on one node."""

    def __init__(self, folder: Path, stream: str) -> None:
        self._file, self._stream = folder / f"{stream}.jsonl", stream

    def put_aside(self, letters: Sequence[DeadLetter]) -> None:
        """Write them down."""
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._file.exists() and self._file.stat().st_size > MOST:
            self._file.replace(self._file.with_suffix(".old.jsonl"))
        with self._file.open("a") as file:
            file.write("".join(json.dumps(self._line(letter)) + "\n" for letter in letters))

    def _line(self, letter: DeadLetter) -> dict[str, Any]:
        record = letter.record
        return {
            "stream": self._stream,
            "partition": record.partition,
            "offset": record.offset,
            "at": record.at.isoformat() if record.at else None,
            "error": letter.error,
            "key": None if record.key is None else b64encode(record.key).decode(),
            "headers": [[name, None if each is None else b64encode(each).decode()] for name, each in record.headers],
            "value": b64encode(record.value).decode(),
        }
