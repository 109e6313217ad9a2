"""The certificates of a node: what is wrong with them is said at once, and renewed ones are taken."""

import asyncio
import ssl
from pathlib import Path

import pytest

from rota.fleet.access import certificates
from rota.fleet.access.certificates import Folder, keep_fresh
from rota.model.errors import Denied, Invalid
from tests.kit.certificates import Authority


def test_files_that_fit_together_are_good(tmp_path: Path) -> None:
    folder = Folder(Authority(tmp_path).issue("n1"))
    folder.check()
    assert folder.server_context(asks_back=True).verify_mode is ssl.CERT_REQUIRED
    assert folder.server_context().verify_mode is ssl.CERT_NONE
    assert folder.client_context().check_hostname


@pytest.mark.parametrize("name", ["cert.pem", "key.pem", "ca.pem"])
def test_a_file_that_is_missing_or_broken_is_named(tmp_path: Path, name: str) -> None:
    folder = Folder(Authority(tmp_path).issue("n1"))
    (folder.path / name).write_text("no PEM")
    with pytest.raises(Invalid, match="must be PEM files that fit together"):
        folder.check()
    (folder.path / name).unlink()
    with pytest.raises(Invalid, match=f"there is no {name}; make it with rota tls issue"):
        folder.check()


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    folder = Folder(Authority(tmp_path).issue("n1"))
    folder.key.chmod(0o644)
    with pytest.raises(Denied, match=r"may be read by others \(mode 0644\); run: chmod 600"):
        folder.check()


def test_the_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    root = Authority(tmp_path)
    folder, other = Folder(root.issue("n1")), Folder(root.issue("n2"))
    folder.key.write_bytes(other.key.read_bytes())
    with pytest.raises(Invalid, match="fit together"):
        folder.check()


async def test_renewed_files_are_taken_and_broken_ones_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "LOOK", certificates.LOOK / 1000)
    root = Authority(tmp_path)
    folder, taken = Folder(root.issue("n1")), asyncio.Event()

    class Watched(ssl.SSLContext):
        def load_cert_chain(self, *files: object) -> None:  # type: ignore[override]
            super().load_cert_chain(*files)  # type: ignore[arg-type]
            taken.set()

    keeping = asyncio.create_task(keep_fresh(folder, Watched(ssl.PROTOCOL_TLS_SERVER)))
    await asyncio.sleep(0)
    folder.cert.write_text("half")
    for _ in range(10):
        await asyncio.sleep(0.01)
    assert not taken.is_set()
    root.issue("n1")
    await asyncio.wait_for(taken.wait(), 60)
    keeping.cancel()
    await asyncio.wait([keeping])
