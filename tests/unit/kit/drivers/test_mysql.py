"""What MySQL and MariaDB have of their own."""

import pytest

from rota.kit.drivers.mysql import UNKNOWN_VARIABLE, limit_idleness, number_of, words_of


class Cursor:
    """A server that knows no idle_transaction_timeout, and refuses it with this error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.executed: list[str] = []
        self._error = error

    async def execute(self, statement: str) -> None:
        if self._error is not None and "idle_transaction_timeout" in statement:
            raise self._error
        self.executed.append(statement)


@pytest.mark.parametrize(
    ("error", "number", "words"),
    [
        (Exception(1045, "Access denied\n for user"), 1045, "Access denied for user"),
        (Exception("no number"), 0, "no number"),
        (EOFError(), 0, "EOFError"),
    ],
)
def test_an_error_has_a_number_and_words_in_one_line(error: Exception, number: int, words: str) -> None:
    assert (number_of(error), words_of(error)) == (number, words)


async def test_mariadb_ends_idle_transactions_and_mysql_idle_connections() -> None:
    mariadb, mysql = Cursor(), Cursor(Exception(UNKNOWN_VARIABLE, "Unknown system variable"))
    for cursor in (mariadb, mysql):
        await limit_idleness(cursor, 7)
    assert mariadb.executed == ["SET SESSION idle_transaction_timeout = 7"]
    assert mysql.executed == ["SET SESSION wait_timeout = 7"]


async def test_another_error_is_not_swallowed() -> None:
    with pytest.raises(ConnectionError):
        await limit_idleness(Cursor(ConnectionError("gone")), 7)
