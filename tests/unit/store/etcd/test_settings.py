"""What an etcd:// URL says, and what is wrong with some."""

from pathlib import Path

import pytest
import trustme

from rota.model.errors import Invalid
from rota.store import url
from rota.store.etcd import settings
from rota.store.etcd.endpoints import EtcdEndpoint
from rota.store.etcd.settings import EtcdSettings


@pytest.fixture(autouse=True)
def no_password_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_STORE_PASSWORD", raising=False)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """PEM files by the name of their option."""
    authority = trustme.CA()
    pair = authority.issue_cert("client.example")
    paths = {name: tmp_path / f"{name}.pem" for name in ("ca", "cert", "key")}
    authority.cert_pem.write_to_path(paths["ca"])
    pair.cert_chain_pems[0].write_to_path(paths["cert"])
    pair.private_key_pem.write_to_path(paths["key"])
    return paths


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A file with nothing in it."""
    path = tmp_path / "empty.pem"
    path.touch()
    return path


def read(text: str) -> EtcdSettings:
    return settings.read(url.parse(text))


def test_a_bare_host_is_enough() -> None:
    found = read("etcd://node-1")
    assert found.endpoints == (EtcdEndpoint("node-1", 2379),)
    assert (found.namespace, found.timeout, found.tls, found.user) == ("/rota", 5.0, None, None)


def test_everything_at_once(files: dict[str, Path]) -> None:
    query = "&".join(f"{name}={path}" for name, path in files.items())
    found = read(f"etcd://ann:secret@a:1,b:2/prod/eu/?timeout=250ms&server_name=etcd&{query}")
    assert found.endpoints == (EtcdEndpoint("a", 1), EtcdEndpoint("b", 2))
    assert (found.namespace, found.timeout, found.user, found.password) == ("/prod/eu", 0.25, "ann", "secret")
    assert found.tls is not None
    assert found.tls.authority == files["ca"].read_bytes()
    assert found.tls.server_name == "etcd"


def test_secrets_do_not_show(files: dict[str, Path]) -> None:
    query = "&".join(f"{name}={path}" for name, path in files.items())
    shown = repr(read(f"etcd://ann:secret@a?{query}"))
    assert "secret" not in shown
    assert "PRIVATE" not in shown


@pytest.mark.parametrize(
    ("query", "is_on"),
    [("", False), ("tls=off", False), ("tls=on", True), ("ca={ca}", True), ("ca={ca}&tls=off", False)],
)
def test_tls_is_on_when_asked_for_or_when_files_are_named(files: dict[str, Path], query: str, is_on: bool) -> None:
    assert (read("etcd://a?" + query.format(**files)).tls is not None) is is_on


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("etcd://", "names no host", id="no host"),
        pytest.param("etcd://a:b", "write host, host:port", id="port"),
        pytest.param("etcd://a//b", "empty part", id="namespace"),
        pytest.param("etcd://a?speed=9", "unknown option speed", id="option"),
        pytest.param("etcd://ann@a", "user ann has no password", id="password"),
        pytest.param("etcd://a?ca=/nosuch/file", "cannot read ca", id="no file"),
        pytest.param("etcd://a?cert={cert}", "cert and key go together", id="half a pair"),
        pytest.param("etcd://a?ca={empty}", "must be PEM files that fit together", id="empty file"),
        pytest.param("etcd://a?ca={key}", "must be PEM files that fit together", id="not a certificate"),
        pytest.param("etcd://a?cert={ca}&key={key}", "must be PEM files that fit together", id="not a pair"),
    ],
)
def test_what_is_wrong_is_named(files: dict[str, Path], empty: Path, text: str, complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        read(text.format(**files, empty=empty))
