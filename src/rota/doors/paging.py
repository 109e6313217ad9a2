"""Pages of lists that are read whole: those of nodes, kinds, hooks and tokens, which are few compared with resources.

A page begins behind `token`, the name that the previous page ended with, so that an entry added or removed between two
pages neither repeats nor hides another one. Pure.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from rota.model.errors import Invalid

T = TypeVar("T")

LONGEST = 1000
"""Entries of one page, and of the first if no `limit` is given: most fleets have one page."""


def paged(
    items: Sequence[T], name: Callable[[T], str], *, limit: int | None = None, token: str | None = None
) -> tuple[tuple[T, ...], str | None]:
    """The page of a sorted list behind `token`, and the token of the next page; None if it is the last."""
    most = LONGEST if limit is None else limit
    if not 1 <= most <= LONGEST:
        raise Invalid(f"limit is {most}; it must be from 1 to {LONGEST}")
    left = [each for each in items if not token or name(each) > token]
    page = tuple(left[:most])
    return page, name(page[-1]) if len(left) > most else None
