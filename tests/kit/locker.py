"""Hold the write lock of a SQLite file until SIGUSR1: `python -m tests.kit.locker PATH`."""

import signal
import sqlite3
import sys
from contextlib import closing

import click


def main(path: str) -> None:
    """Take the lock, say so, and keep it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        click.echo("locked")
        signal.sigwait({signal.SIGUSR1})
        database.execute("ROLLBACK")


if __name__ == "__main__":
    main(sys.argv[1])
