"""Transactions written without a driver.

A transaction is a generator: it yields queries and is sent their rows, and what it returns is the result. SQLite
runs the whole of it in its thread; a driver that awaits each query runs the very same steps. To refuse, a
transaction raises, and the driver rolls back.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

Row: TypeAlias = tuple[Any, ...]


class SqlQuery(NamedTuple):
    """A named query and its parameters."""

    name: str
    parameters: tuple[object, ...] = ()


class SqlBatch(NamedTuple):
    """A named query to run once for each row of parameters."""

    name: str
    rows: Sequence[tuple[object, ...]]


class Together(NamedTuple):
    """Changes of different rows, in any order and without results: one round trip where the driver supports it."""

    parts: tuple[SqlQuery | SqlBatch, ...]


Step: TypeAlias = SqlQuery | SqlBatch | Together
Steps: TypeAlias = Generator[Step, list[Row], T]


class NothingChanged(Exception):
    """Raised by a transaction that turned out to change nothing: roll back, and this is the result."""

    def __init__(self, result: Any) -> None:
        self.result = result


class Driver(Protocol):
    """Runs steps against one database, and listens for commits of other processes.

    A query that returns no rows gives one row with the number of rows it changed, or none if it changed none.
    """

    poll: float
    """Seconds between polls for commits without a notification."""

    def keys_parameter(self, keys: Sequence[str]) -> object:
        """The one parameter that stands for a list of keys."""

    async def prepare(self, *, create: bool) -> None:
        """Reach the database and bring its schema up to date; Invalid if it is newer than this code or, without
        `create`, if there is none."""

    async def read(self, steps: Callable[[], Steps[T]], *, alone: bool = False) -> T:
        """Run steps on one snapshot; Unavailable if the database cannot be reached in time.

        `alone` says that the queries need not show the same state: one query is a snapshot by itself.
        """

    async def write(self, steps: Callable[[], Steps[T]]) -> T:
        """Run steps in one transaction; Unknown if its end is not known."""

    def listen(self, heard: Callable[[], None]) -> None:
        """Call `heard` from now on when another process has committed. Hints only: some get lost."""

    def notify(self) -> None:
        """Notify the other processes of a commit."""

    async def close(self) -> None:
        """Close all connections and threads."""
