"""What every adapter of the link checks, on both ends: so that all refuse the same, with the same words.

Sizes are counted over texts and bytes, and a little for each record, not over what a transport makes of them; a
transport must take twice the limit. The sender checks so that nothing too large leaves, the receiver because not every
sender is ours.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rota.model.errors import Invalid
from rota.model.link import AttemptId, Batch, Control, Report, Start

MOST_BYTES = 4 * 1024 * 1024
"""How large one record may be."""

MOST_CHUNK = 64 * 1024
"""How large one piece of a log may be."""

MOST_NAME = 512
PER_ITEM = 64
"""Bytes counted for each change or message beside its texts: numbers, times, what lies between."""

LONGEST = timedelta(days=36_500)
"""How long anything may be waited for."""

_MOST_NUMBER = 2**63


def check_report(report: Report) -> None:
    """Invalid unless the report can be sent."""
    _name("node id", report.node)
    _name("session", report.session)
    _number("report sequence", report.sequence, least=1)
    size = len(report.digest) + _text("resync nonce", report.resync)
    for change in report.changes:
        _number("epoch", change.epoch)
        _time("task change", change.at)
        texts = _name("task", change.task) + _name("phase", change.phase) + _text("why", change.why)
        size += PER_ITEM + texts
    _size(f"report {report.sequence} with {len(report.changes)} changes", size, "send fewer changes at a time")


def check_start(start: Start) -> None:
    """Invalid unless the start can be sent."""
    check_attempt(start.attempt)
    _name("job", start.job)
    _number("epoch", start.epoch)
    if start.timeout is not None and not timedelta() < start.timeout <= LONGEST:
        raise Invalid(f"{start.attempt}: timeout is {start.timeout}; it must be above zero, and at most 100 years")
    _size(f"payload of {start.attempt}", len(start.payload), "hand large input over by reference")


def check_starts(starts: Sequence[Start]) -> None:
    """Invalid unless the starts can be sent together."""
    for start in starts:
        check_start(start)
    size = sum(PER_ITEM + len(start.payload) for start in starts)
    _size(f"{len(starts)} starts", size, "send fewer at a time")


def check_control(control: Control) -> None:
    """Invalid unless the control can be sent."""
    if isinstance(control.what, AttemptId):
        check_attempt(control.what)
    else:
        _name("task", control.what)
    _number("epoch", control.epoch)
    _size("why of a control", _text("why", control.why), "shorten it")


def check_attempt(attempt: AttemptId, offset: int = 0) -> None:
    """Invalid unless there can be such an attempt, with a log that has such an offset."""
    _name("run", attempt.run)
    _number("attempt", attempt.number, least=1)
    _number("log offset", offset)


def check_hand_over(source: str, relay_map: int) -> None:
    """Invalid unless a hand-over can begin so."""
    _name("node id", source)
    _number("relay map", relay_map)


def check_batch(batch: Batch, after: int) -> int:
    """The size of a batch; Invalid unless it can follow the sequence `after`."""
    _number("batch sequence", batch.sequence, least=1)
    if batch.sequence <= after:
        raise Invalid(f"batch {batch.sequence} follows {after}; sequences must grow from batch to batch")
    size = 0
    for message in batch.messages:
        _number("epoch", message.epoch)
        texts = _name("resource", message.resource) + _text("routing key", message.to)
        size += PER_ITEM + len(message.id) + len(message.payload) + texts
    _size(f"batch {batch.sequence} with {len(batch.messages)} messages", size, "hand fewer over at a time")
    return size


def _size(what: str, size: int, move: str) -> None:
    if size > MOST_BYTES:
        raise Invalid(f"{what} has {size} bytes; at most {MOST_BYTES} pass, so {move}")


def _name(what: str, name: str) -> int:
    size = _text(what, name)
    if not 0 < size <= MOST_NAME:
        raise Invalid(f'{what} "{name[:40]}" has {size} bytes; it must have 1 to {MOST_NAME}')
    return size


def _text(what: str, text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise Invalid(f"{what} {text[:40]!a} is not valid Unicode; take the surrogates out") from None


def _number(what: str, number: int, *, least: int = 0) -> None:
    if not least <= number < _MOST_NUMBER:
        raise Invalid(f"{what} is {number}; it must be from {least} to 2^63 - 1")


def _time(what: str, time: datetime) -> None:
    if time.tzinfo is None:
        raise Invalid(f"{what} at {time} says no time zone; use UTC")
