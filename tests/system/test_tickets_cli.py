"""`rota ticket` and `rota join`, as far as they need no second machine (test_several_machines has that)."""

from pathlib import Path

from tests.kit.cli import rota


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
