"""Bad input to the command line: one line that names the thing and the next move, an exit code, nothing changed."""

import hashlib
import sqlite3
from pathlib import Path

import pytest

from rota.store import Put, open_store
from tests.kit.cli import rota
from tests.kit.etcd import set_up_users
from tests.kit.servers import Etcd, free_port


def digest(folder: Path) -> dict[str, str]:
    """What is in a folder."""
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.rglob("*") if file.is_file()}


def refused(folder: Path, *arguments: object, environ: dict[str, str] | None = None) -> tuple[int, str]:
    """The exit code and the one line; nothing may have changed."""
    before = digest(folder)
    answer = rota(*arguments, cwd=folder, environ=environ)
    assert digest(folder) == before
    assert answer.out == ""
    assert answer.err.count("\n") == 1, answer.err
    assert "Traceback" not in answer.err
    return answer.code, answer.err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture
async def database(folder: Path) -> Path:
    """A store that was used before."""
    path = folder / "old.db"
    async with open_store(f"sqlite:///{path}") as store:
        await store.commit(Put("/k", b"v"))
    return path


@pytest.mark.parametrize("command", ["status", "node"])
def test_unknown_scheme(folder: Path, command: str) -> None:
    data = ["--data", folder.parent / "data"] if command == "node" else []
    code, line = refused(folder, command, "--store", "redis://localhost", *data)
    assert code == 2
    assert "redis://localhost: unknown scheme redis; Rota speaks memory://, sqlite://, etcd://" in line


def test_no_url(folder: Path) -> None:
    code, line = refused(folder, "status", "--store", "rota.db")
    assert code == 2
    assert "not a URL; write one like sqlite:///rota.db" in line


def test_unknown_option(folder: Path) -> None:
    code, line = refused(folder, "status", "--store", "sqlite:///x.db?timeot=3s")
    assert code == 2
    assert "unknown option timeot; known are" in line


def test_unreachable_host(folder: Path) -> None:
    port = free_port()
    code, line = refused(folder, "status", "--store", f"etcd://127.0.0.1:{port}?timeout=1s")
    assert code == 7
    assert f"etcd://127.0.0.1:{port}" in line


@pytest.mark.needs("etcd")
def test_wrong_password(folder: Path, tmp_path: Path) -> None:
    with Etcd(tmp_path) as etcd:
        set_up_users(etcd)
        url = f"etcd://root@127.0.0.1:{etcd.port}"
        code, line = refused(folder, "status", "--store", url, environ={"ROTA_STORE_PASSWORD": "not this"})
    assert "not this" not in line
    assert code == 4
    assert url in line
    assert "password" in line


def test_read_only_file(folder: Path, database: Path) -> None:
    database.chmod(0o444)
    code, line = refused(folder, "status", "--store", "sqlite:///old.db")
    assert code == 4
    assert "old.db is read-only; chmod u+w it, or choose another file" in line


def test_schema_newer_than_the_code(folder: Path, database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA user_version = 999")
    connection.commit()
    connection.close()
    code, line = refused(folder, "status", "--store", "sqlite:///old.db")
    assert code == 2
    assert "has schema 999, this Rota knows 2 and older; upgrade Rota on this machine" in line


def test_not_a_database(folder: Path) -> None:
    (folder / "notes.txt").write_text("these are notes, not a database; " * 100)
    code, line = refused(folder, "status", "--store", "sqlite:///notes.txt")
    assert code == 2
    assert "notes.txt is not a SQLite database" in line


def test_missing_folder(folder: Path) -> None:
    code, line = refused(folder, "status", "--store", "sqlite:///nowhere/x.db")
    assert code == 2
    assert "folder nowhere does not exist; make it" in line


def test_asking_about_a_store_does_not_make_it(folder: Path) -> None:
    code, line = refused(folder, "status", "--store", "sqlite:///typo.db")
    assert code == 2
    assert "no fleet has used it yet" in line


def test_bad_node_id(folder: Path) -> None:
    code, line = refused(folder, "node", "--store", "sqlite:///x.db", "--id", "a/b")
    assert code == 2
    assert 'node id "a/b": use letters' in line


def test_bad_duration(folder: Path) -> None:
    answer = rota("node", "--store", "sqlite:///x.db", "--lease-ttl", "10", cwd=folder)
    assert answer.code == 2
    assert '"10" is not a duration; write a number and a unit' in answer.err


def test_mistyped_command(folder: Path) -> None:
    answer = rota("staus", cwd=folder)
    assert answer.code == 2
    assert "Did you mean 'status'?" in answer.err
