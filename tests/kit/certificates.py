"""Certificates for tests, made by Rota's own authority."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from rota.kit.crypto import authority
from rota.kit.crypto.authority import Kind
from rota.kit.files import write_secret

LIFE = timedelta(days=1)


class Authority:
    """An authority, and folders with what it issues."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pair = authority.found("tests", datetime.now(UTC), LIFE)

    def issue(self, name: str, *hosts: str, kind: Kind = "node", folder: str = "") -> Path:
        """The folder of a certificate's holder."""
        made = authority.issue(self._pair, name, hosts or ("127.0.0.1", "localhost"), kind, datetime.now(UTC), LIFE)
        place = self._folder / (folder or name)
        place.mkdir(parents=True, exist_ok=True)
        (place / "cert.pem").write_bytes(made.cert)
        write_secret(place / "key.pem", made.key.decode().rstrip())
        (place / "ca.pem").write_bytes(self._pair.cert)
        return place


def serial(folder: Path) -> str:
    """The serial of the certificate in a folder."""
    return authority.read((folder / "cert.pem").read_bytes()).serial
