"""Names of sockets that are too long, in folders that may be so themselves."""

import socket
import tempfile
from pathlib import Path

import pytest

from rota.runtime.system.short_path import LONGEST, short


@pytest.mark.parametrize("has_deep_temporary_files", [False, True])
def test_a_socket_of_a_deep_folder_can_be_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_deep_temporary_files: bool
) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    if has_deep_temporary_files:
        monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with short(deep / "control.sock") as name, socket.socket(socket.AF_UNIX) as door:
        assert len(str(name)) <= LONGEST
        door.bind(str(name))
    assert [path.name for path in deep.iterdir()] == ["control.sock"]
    assert not name.parent.exists()
