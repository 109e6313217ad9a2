"""The small certificate authority: what it makes is what TLS takes, and says whose it is."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from rota.kit.crypto import authority
from rota.kit.crypto.authority import Pair

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def root() -> Pair:
    return authority.found("rota authority", NOW, 3650 * DAY)


def test_a_certificate_says_whose_it_is_and_where_it_may_be_used(root: Pair) -> None:
    made = authority.issue(root, "n1", ["n1.example.com", "10.0.0.5", "::1"], "node", NOW, 30 * DAY)
    found = authority.read(made.cert)
    assert (found.name, found.kind) == ("n1", "node")
    assert found.hosts == ("n1.example.com", "10.0.0.5", "::1")
    assert (found.begins, found.ends) == (NOW - authority.SKEW, NOW + 30 * DAY)
    assert authority.read_der(ssl.PEM_cert_to_DER_cert(made.cert.decode())) == found


def test_every_certificate_has_its_own_serial_and_key(root: Pair) -> None:
    one, other = (authority.issue(root, "n1", ["n1"], "node", NOW, DAY) for _ in range(2))
    assert authority.read(one.cert).serial != authority.read(other.cert).serial
    assert one.key != other.key
    assert one.key.decode() not in repr(one)


def test_a_certificate_does_not_outlive_its_authority() -> None:
    short = authority.found("short", NOW, DAY)
    made = authority.issue(short, "n1", ["n1"], "node", NOW, 30 * DAY)
    assert authority.read(made.cert).ends == NOW + DAY


def test_what_is_issued_cannot_issue_and_a_caller_cannot_answer(root: Pair) -> None:
    made = x509.load_pem_x509_certificate(authority.issue(root, "ci", [], "client", NOW, DAY).cert)
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    uses = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(uses) == [x509.ExtendedKeyUsageOID.CLIENT_AUTH]


def test_the_tls_library_takes_them(root: Pair, tmp_path: Path) -> None:
    made = authority.issue(root, "n1", ["n1.example.com"], "node", NOW, DAY)
    for name, content in (("ca", root.cert), ("cert", made.cert), ("key", made.key)):
        (tmp_path / name).write_bytes(content)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    client.load_verify_locations(tmp_path / "ca")
    assert shaken(server, client, "n1.example.com")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shaken(server, client, "evil.example.com")


def shaken(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> bool:
    """Whether both ends get through a handshake, in memory."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(back, there, server_hostname=host), server.wrap_bio(there, back, server_side=True)]
    for _ in range(5):
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
    return not ends


def test_a_certificate_of_another_authority_has_no_kind(root: Pair) -> None:
    assert authority.read(root.cert).kind == ""
    assert authority.read(root.cert).name == "rota authority"
    with pytest.raises(ValueError, match="Unable to load PEM"):
        authority.read(b"no certificate")
