"""Dead letters as text: one line of JSON with the whole record and what is wrong with it.

`run` hands them to the stream's output, which publishes them in one step with rows and offsets; where an output keeps
none, `streams.node.letter_files` writes them into a file. Pure.
"""

import json
from base64 import b64encode

from rota.outputs.port import Letter
from rota.streams.task.transform import DeadLetter


def letter_of(stream: str, dead: DeadLetter) -> Letter:
    """A dead letter as it is kept."""
    record = dead.record
    line = {
        "stream": stream,
        "partition": record.partition,
        "offset": record.offset,
        "at": record.at.isoformat() if record.at else None,
        "error": dead.error,
        "key": None if record.key is None else b64encode(record.key).decode(),
        "headers": [[name, None if each is None else b64encode(each).decode()] for name, each in record.headers],
        "value": b64encode(record.value).decode(),
    }
    return Letter(partition=record.partition, offset=record.offset, error=dead.error, line=json.dumps(line))
