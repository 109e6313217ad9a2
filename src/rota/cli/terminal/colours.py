"""Colours: what the word for a state looks like, and where there are colours at all.

`STATES` has every word that stands in a column of states: red is what needs attention, yellow what is on its way
or held back, green what goes well. `coloured` and `as_state` turn one into escapes.
"""

import os
from collections.abc import Mapping
from typing import TextIO

import click

RED = (
    *("failed", "failing", "lost", "timed out", "missed", "offline", "down", "gone", "expired", "revoked"),
    *("unhealthy supervisor", "unhealthy tasks", "not understood", "crash loop"),
)
YELLOW = (
    *("pending", "waiting", "unseen", "moving", "suspect", "drained", "draining", "cordoned", "paused", "pausing"),
    *("suspended", "stopping", "interrupted", "dispatched", "accepted", "starting", "disabled"),
)
GREEN = ("running", "online", "ok", "up", "succeeded", "covered", "good", "reading", "publishing")
PLAIN = ("idle", "standby", "done", "completed", "not used", "used")
"""States that are neither good nor bad."""

STATES: Mapping[str, str] = {
    word: colour for colour, words in {"red": RED, "yellow": YELLOW, "green": GREEN}.items() for word in words
}

COLUMNS = frozenset({"STATE", "STANDING", "UP", "CLOSED", "LAST", "NEXT"})
"""Headings of the columns that have states."""


def wanted(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Is this a terminal that has colours, and its owner not against them?"""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def colour(text: str) -> str | None:
    """The colour of the state that a text begins with; None if it begins with none."""
    found = [word for word in STATES if text.startswith(word) and not text[len(word) : len(word) + 1].isalpha()]
    return STATES[max(found, key=len)] if found else None


def coloured(text: str) -> str:
    """The text in the colour of the state that it begins with, for a terminal."""
    return click.style(text, fg=found) if (found := colour(text)) else text


def as_state(text: str, state: str) -> str:
    """The text in the colour of a state, for a terminal."""
    return click.style(text, fg=STATES.get(state))


def bold(text: str) -> str:
    """A heading, for a terminal."""
    return click.style(text, bold=True)
