"""Limits of request values, the same at every door and for every kind."""

from datetime import timedelta

from rota.kit.time import durations
from rota.model.errors import Invalid

PAGE = 100
MAX_PAGE = 1000
LONGEST_WAIT = timedelta(minutes=1)
TRIES = 5
"""How often a write without a version is retried before the caller gets a Conflict."""

SHOWN = 10
"""Refusals of one node that are listed; there may be thousands."""


def check_reason(why: str) -> None:
    """Invalid unless the reason is one line of at most 200 printable characters."""
    if not why.isprintable() or len(why) > 200:
        raise Invalid("a reason has at most 200 characters, all printable; shorten it")


def check_limit(limit: int) -> None:
    """Invalid unless a page may have this many entries."""
    if not 1 <= limit <= MAX_PAGE:
        raise Invalid(f"limit is {limit}; it must be from 1 to {MAX_PAGE}")


def check_wait(wait: timedelta | None) -> None:
    """Invalid if that is no time to wait for a placement."""
    if wait is not None and not timedelta() <= wait <= LONGEST_WAIT:
        shown = durations.render(wait) if wait > timedelta() else str(wait)
        raise Invalid(f"wait is {shown}; it must be from 0s to {durations.render(LONGEST_WAIT)}")
