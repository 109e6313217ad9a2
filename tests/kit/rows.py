"""What tests publish: rows, and the ranges they come from.

Apart from `committers`, whose databases take a publisher that is killed soon longer to load than to publish.
"""

import json
from typing import Any

from rota.outputs.port import Letter
from rota.streams.core.manifest import Range

STREAM = "clicks"


def ranges(*spans: tuple[int, int, int]) -> list[Range]:
    """Ranges from partition, start and end."""
    return [Range(partition=partition, start=start, end=end) for partition, start, end in spans]


def letter(offset: int, partition: int = 0, more: str = "") -> Letter:
    """A record that made no row."""
    line = json.dumps({"partition": partition, "offset": offset, "value": more})
    return Letter(partition=partition, offset=offset, error="ValueError: no", line=line)


def rows(partition: int, start: int, end: int) -> list[dict[str, Any]]:
    """What becomes of records: a row for each."""
    return [{"part": partition, "number": number, "word": f"w{number}"} for number in range(start, end)]
