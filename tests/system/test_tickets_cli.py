"""`rota ticket` and `rota join`, as far as they need no second machine (test_several_machines has that)."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from rota.fleet.access import tickets
from rota.fleet.cli.ticket import without_password
from rota.fleet.core.access.ticket import Admission
from rota.model.errors import Denied
from rota.model.ids import NodeId
from rota.store import open_store
from tests.kit.cli import rota

SECRET = "rota_the-token-of-the-fleet"


async def test_a_store_that_others_do_not_reach_is_refused(tmp_path: Path) -> None:
    for store in ("sqlite:///rota.db", "etcd://127.0.0.1:2379", "postgresql://u:secret@localhost/x"):
        made = rota("ticket", "create", "b", "--insecure", "--token", "env:X", "--store", store, cwd=tmp_path)
        assert made.code == 2
        assert "another machine does not reach it by this URL" in made.err
        assert "secret" not in made.err


async def test_a_ticket_says_how_nodes_reach_each_other(tmp_path: Path) -> None:
    made = rota("ticket", "create", "b", "--token", "env:X", "--store", "etcd://10.0.0.5", cwd=tmp_path)
    assert made.code == 2
    assert "--tls FOLDER" in made.err
    assert "--insecure" in made.err


async def test_what_is_no_ticket_is_not_repeated(tmp_path: Path) -> None:
    joined = rota("join", "rota_a-token-by-mistake", cwd=tmp_path)
    assert joined.code == 2
    assert "no whole ticket" in joined.err
    assert "mistake" not in joined.err


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://u:secret@h/db", "postgresql://u@h/db"),
        ("postgresql://u:sec@ret@h,g/db?timeout=2s", "postgresql://u@h,g/db?timeout=2s"),
        ("mysql://u:sec:ret@h:3306/db", "mysql://u@h:3306/db"),
        ("etcd://h:2379/x@y", "etcd://h:2379/x@y"),
        ("postgresql://h/db", "postgresql://h/db"),
    ],
)
def test_a_ticket_has_nothing_of_the_stores_password(url: str, told: str) -> None:
    """The password goes up to the last @, as the store reads it."""
    assert without_password(url) == told


async def test_a_machine_that_cannot_keep_what_a_ticket_brings_does_not_spend_it(tmp_path: Path) -> None:
    store, data = f"sqlite:///{tmp_path}/rota.db", tmp_path / "data"
    ticket = tickets.fresh(store="etcd://10.0.0.5", node=NodeId("b"), insecure=True)
    admission = Admission(token=SECRET, files={"key.pem": "the key"})
    async with open_store(store) as raw:
        await tickets.create(raw, raw, ticket, admission, by="ada", expires_in=timedelta(hours=1))
    data.mkdir()
    (data / "tls").touch()  # no folder can be made there
    refused = rota("join", ticket.line(), "--store", store, "--data", data, cwd=tmp_path)
    assert refused.code == 4, refused.err
    assert "The ticket is still good" in refused.err
    assert "Traceback" not in refused.err
    (data / "tls").unlink()
    joined = rota("join", ticket.line(), "--store", store, "--data", data, cwd=tmp_path)
    assert joined.code == 0, joined.err
    assert (data / "token").read_text() == f"{SECRET}\n"
    assert sorted(os.listdir(data)) == ["tls", "token"]
    other = rota("join", ticket.line(), "--store", store, "--data", tmp_path / "other", cwd=tmp_path)
    assert other.code == 4
    assert "used by" in other.err
    assert not any((tmp_path / "other").iterdir())
    async with open_store(store) as raw:
        with pytest.raises(Denied, match="used by"):
            await tickets.opened(raw, ticket)
