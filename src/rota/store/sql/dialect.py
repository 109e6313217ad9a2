"""The SQL dialect of each database, and the named queries in it.

A `Dialect` fills the braces of `queries.sql`. The queries it makes are data; the connection modules run them.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from itertools import count

_WORDS = (
    *("now_ms", "bump", "or_update", "or_keep", "keys", "for_update"),
    *("log_rows", "live_rows", "log_places", "forget_output"),
)
_NAMED = re.compile(r"^-- name: (\w+)\n(.*?)(?=^--|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The parts of the queries that differ in one database."""

    name: str
    now_ms: str
    """The database's clock in milliseconds since 1970."""

    bump: str
    """Add a parameter to the counter and return the new value."""

    or_update: str
    """The clause for inserting a live key that exists."""

    or_keep: str
    """The clause for inserting a piece of a run's log that exists."""

    forget_output: str
    """Delete output of some runs: at most as many rows as its last parameter says."""

    keys: str
    """A parenthesised list made from one parameter."""

    keys_parameter: Callable[[Sequence[str]], object]
    """The function that makes that parameter from the keys."""

    log_rows: str = "VALUES (?, ?, ?, ?, ?)"
    live_rows: str = "VALUES (?, ?, ?, ?, ?)"
    """Values of the rows of the log, and of the live keys."""

    log_places: str = "revision = ? AND key = ?"
    """The condition that selects rows of the log."""

    by_columns: frozenset[str] = frozenset()
    """Batches whose rows all go in one execution, as one list for each column."""

    for_update: str = "FOR UPDATE"
    """The clause that locks the selected row; empty where the transaction itself is the lock."""

    placeholders: Callable[[], Iterator[str]] = lambda: iter(lambda: "?", None)
    """The placeholder of each parameter of a query."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Columns that must be quoted; keywords are written in capitals, so that no keyword is meant."""

    instead: Mapping[str, str] = field(default_factory=dict)
    """Names of queries → the queries that replace them here."""

    @cached_property
    def queries(self) -> Mapping[str, str]:
        """The text of every query by its name."""
        text = resources.files(__package__).joinpath("queries.sql").read_text()
        found = {name: self._in_our_words(body) for name, body in _NAMED.findall(text)}
        return found | {name: found[other] for name, other in self.instead.items()}

    def _in_our_words(self, body: str) -> str:
        text = " ".join(body.format(**{name: getattr(self, name) for name in _WORDS}).split())
        for plain, quoted in self.names.items():
            text = re.sub(rf"\b{plain}\b", quoted, text)
        marks = self.placeholders()
        return re.sub(r"\?", lambda _: next(marks), text)


RETURNING_BUMP = "UPDATE rota_counter SET revision = revision + ? WHERE id = 1 RETURNING revision"
ON_CONFLICT = (
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value, "
    "created = excluded.created, modified = excluded.modified, lease = excluded.lease"
)

SQLITE = Dialect(
    name="sqlite",
    now_ms="CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)",
    bump=RETURNING_BUMP,
    or_update=ON_CONFLICT,
    or_keep="ON CONFLICT DO NOTHING",
    forget_output=(
        "DELETE FROM rota_run_log WHERE rowid IN "
        "(SELECT rowid FROM rota_run_log WHERE run IN (SELECT value FROM json_each(?)) LIMIT ?)"
    ),
    keys="(SELECT value FROM json_each(?))",
    keys_parameter=json.dumps,
    for_update="",
)

POSTGRESQL = Dialect(
    name="postgresql",
    now_ms="(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint",
    # The listeners are notified by the same statement; they hear it when the transaction commits, and not if it does
    # not. # The name says whose commit it was.
    bump=(
        f"WITH bumped AS ({RETURNING_BUMP}) SELECT revision FROM bumped, "
        "pg_notify('rota_' || current_schema(), current_setting('application_name'))"
    ),
    or_update=ON_CONFLICT,
    or_keep="ON CONFLICT DO NOTHING",
    forget_output=(
        "DELETE FROM rota_run_log WHERE ctid = ANY "
        "(ARRAY(SELECT ctid FROM rota_run_log WHERE run = ANY (?::text[]) LIMIT ?))"
    ),
    keys="(SELECT unnest(?::text[]))",
    keys_parameter=list,
    # One execution for all rows: for each row alone the server would prepare, plan and check anew.
    log_rows="SELECT * FROM unnest(?::bigint[], ?::text[], ?::bytea[], ?::bigint[], ?::text[])",
    live_rows="SELECT * FROM unnest(?::text[], ?::bytea[], ?::bigint[], ?::bigint[], ?::text[])",
    log_places="(revision, key) IN (SELECT * FROM unnest(?::bigint[], ?::text[]))",
    by_columns=frozenset({"append", "place", "forget"}),
    placeholders=lambda: (f"${number}" for number in count(1)),
)

MYSQL = Dialect(
    name="mysql",
    # Not by NOW: an hour of local time occurs twice when summer time ends, and the two cannot be distinguished.
    now_ms="(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)",
    bump="UPDATE rota_counter SET revision = LAST_INSERT_ID(revision + ?) WHERE id = 1",
    or_keep="ON DUPLICATE KEY UPDATE place = VALUES(place)",
    forget_output="DELETE FROM rota_run_log WHERE run IN ? ORDER BY run, attempt, place LIMIT ?",
    or_update=(
        "ON DUPLICATE KEY UPDATE value = VALUES(value), "
        "created = VALUES(created), modified = VALUES(modified), lease = VALUES(lease)"
    ),
    keys="?",
    keys_parameter=tuple,
    placeholders=lambda: iter(lambda: "%s", None),
    names={"key": "`key`"},
    instead={"tail": "tail_united"},
)
