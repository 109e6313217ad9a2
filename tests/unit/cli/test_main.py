"""What process lists show of a command."""

import pytest
import setproctitle

from rota.cli.main import hide_passwords


@pytest.fixture
def titles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    given: list[str] = []
    monkeypatch.setattr(setproctitle, "setproctitle", given.append)
    return given


def test_a_password_in_a_url_is_taken_out(titles: list[str]) -> None:
    hide_passwords(
        ["rota", "node", "--store", "postgresql://me:secret@db/rota", "--relay-sink=amqp://me:other@b/", "x.py"]
    )
    assert titles == ["rota node --store postgresql://me:…@db/rota --relay-sink=amqp://me:…@b/ x.py"]


def test_other_commands_are_left_as_they_are(titles: list[str]) -> None:
    hide_passwords(["rota", "node", "--store", "etcd://127.0.0.1:2379,127.0.0.1:2380", "--http", "[::1]:7700", "x.py"])
    assert titles == []
