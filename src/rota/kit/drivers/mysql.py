"""What is specific to MySQL and MariaDB, for stores and outputs alike. Imports no driver."""

from typing import Any

from rota.kit.faults import in_one_line

ACCESS_DENIED = frozenset({1044, 1045, 1142, 1698})
UNKNOWN_VARIABLE = 1193


def number_of(error: BaseException) -> int:
    """The number of an error; 0 if it has none."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def words_of(error: BaseException) -> str:
    """The text of an error, in one line and without its number."""
    return in_one_line(error, error.args[-1] if error.args else None)


async def limit_idleness(cursor: Any, seconds: int) -> None:
    """Have the server end a transaction that is idle for `seconds`.

    MySQL can end only an idle connection, which costs a new one after a pause.
    """
    try:
        await cursor.execute(f"SET SESSION idle_transaction_timeout = {seconds}")
    except Exception as error:
        if number_of(error) != UNKNOWN_VARIABLE:
            raise
        await cursor.execute(f"SET SESSION wait_timeout = {seconds}")
