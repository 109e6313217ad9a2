"""What each database says differently, and the named queries in its words.

A `Dialect` fills the braces of `queries.sql`. The queries it makes are data; running them is the connection module's
business.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

_NAMED = re.compile(r"^-- name: (\w+)\n(.*?)(?=^--|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One database's way of saying things."""

    name: str
    now_ms: str
    """The database's clock in milliseconds since 1970."""

    for_update: str
    """What locks the selected row; nothing where the transaction itself is the lock."""

    keys: str
    """A parenthesised list made from one parameter."""

    keys_parameter: Callable[[Sequence[str]], object]
    """That parameter, from the keys."""

    @cached_property
    def queries(self) -> Mapping[str, str]:
        """The text of every query by its name."""
        text = resources.files(__package__).joinpath("queries.sql").read_text()
        words = {"now_ms": self.now_ms, "for_update": self.for_update, "keys": self.keys}
        return {name: " ".join(body.format(**words).split()) for name, body in _NAMED.findall(text)}


SQLITE = Dialect(
    name="sqlite",
    now_ms="CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)",
    for_update="",
    keys="(SELECT value FROM json_each(?))",
    keys_parameter=json.dumps,
)
