"""Log lines for people: time, level, event, fields."""

import json
import logging
import sys

_ALWAYS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class Lines(logging.Formatter):
    """`12:00:01 INFO  leading node=a term=3`."""

    def format(self, record: logging.LogRecord) -> str:
        time = self.formatTime(record, "%H:%M:%S")
        fields = "".join(f" {name}={_plain(value)}" for name, value in vars(record).items() if name not in _ALWAYS)
        line = f"{time} {record.levelname:<7} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def to_stderr(level: str) -> None:
    """Send Rota's log to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    logging.basicConfig(level=level.upper(), handlers=[handler])


def _plain(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or " " in text or '"' in text else text
