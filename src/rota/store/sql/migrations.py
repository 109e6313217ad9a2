"""Schema versions of the SQL stores.

`migrations/DIALECT/0001_initial.sql` makes schema 1 of an empty database, `0002_…` makes schema 2 of that, and so on.
They only ever expand what an older Rota still reads, so that a fleet can be upgraded node by node.
"""

import re
from importlib import resources

from rota.model.errors import Invalid

_FILE = re.compile(r"(\d{4})_\w+\.sql")


def all_migrations(dialect: str) -> dict[int, list[str]]:
    """The statements that lead to each schema version."""
    found = {}
    for file in resources.files(__package__).joinpath("migrations", dialect).iterdir():
        if name := _FILE.fullmatch(file.name):
            found[int(name[1])] = _statements(file.read_text())
    return dict(sorted(found.items()))


def missing(store: str, dialect: str, schema: int) -> dict[int, list[str]]:
    """The migrations a database at `schema` still needs; Invalid if it is ahead of this code."""
    known = all_migrations(dialect)
    newest = max(known)
    if schema > newest:
        raise Invalid(
            f"store {store} has schema {schema}, this Rota knows {newest} and older; upgrade Rota on this machine"
        )
    return {version: statements for version, statements in known.items() if version > schema}


def _statements(script: str) -> list[str]:
    lines = (line for line in script.splitlines() if not line.startswith("--"))
    return [statement for part in "\n".join(lines).split(";") if (statement := part.strip())]
