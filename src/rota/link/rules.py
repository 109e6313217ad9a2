"""The checks of every link adapter, on both ends: so that all refuse the same, with the same words.

Sizes are counted over texts and bytes, plus a fixed amount for each record, not over the transport's encoding; a
transport must accept twice the limit. The sender checks so that nothing too large is sent, the receiver because not
every sender is a node of this version.
"""

from collections.abc import Sequence

from rota.link.records import AttemptId, StartAttempt
from rota.model.errors import Invalid

MOST_BYTES = 4 * 1024 * 1024
"""How large one record may be."""

MOST_CHUNK = 64 * 1024
"""How large one piece of a log may be."""

MOST_NAME = 512
PER_ITEM = 64
"""Bytes counted for each start beside its payload: numbers, times, framing."""

_MOST_NUMBER = 2**63


def check_starts(starts: Sequence[StartAttempt]) -> None:
    """Invalid unless the starts can be sent together."""
    for start in starts:
        check_attempt(start.attempt)
        _number("epoch", start.epoch)
        _size(f"payload of {start.attempt}", len(start.payload), "hand large input over by reference")
    size = sum(PER_ITEM + len(start.payload) for start in starts)
    _size(f"{len(starts)} starts", size, "send fewer at a time")


def check_attempt(attempt: AttemptId, offset: int = 0) -> None:
    """Invalid unless the attempt and the offset are possible."""
    _name("run", attempt.run)
    _number("attempt", attempt.number, least=1)
    _number("log offset", offset)


def _size(what: str, size: int, move: str) -> None:
    if size > MOST_BYTES:
        raise Invalid(f"{what} has {size} bytes; at most {MOST_BYTES} pass, so {move}")


def _name(what: str, name: str) -> None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise Invalid(f"{what} {name[:40]!a} is not valid Unicode; take the surrogates out") from None
    if not 0 < size <= MOST_NAME:
        raise Invalid(f'{what} "{name[:40]}" has {size} bytes; it must have 1 to {MOST_NAME}')


def _number(what: str, number: int, *, least: int = 0) -> None:
    if not least <= number < _MOST_NUMBER:
        raise Invalid(f"{what} is {number}; it must be from {least} to 2^63 - 1")
