"""A small certificate authority: bytes in, bytes out, the time as an argument.

`found` makes an authority, `issue` a certificate that it signs, `read` says what is in one. Keys are on the
curve P-256. Who a certificate is for stands in it as a URI, `rota:node:NAME` or `rota:client:NAME`; its hosts are those
under which others may reach its holder.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address
from typing import Literal, TypeAlias

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Kind: TypeAlias = Literal["node", "client"]

SKEW = timedelta(minutes=5)
"""How far a certificate begins in the past, for clocks that are slow."""

SCHEME = "rota"


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    cert: bytes
    key: bytes = field(repr=False)


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a certificate."""

    name: str
    kind: str
    """`node`, `client`, or empty if another authority made it."""

    serial: str
    """In hex: the one name that no other certificate of its authority has."""

    hosts: tuple[str, ...]
    begins: datetime
    ends: datetime


def found(name: str, now: datetime, life: timedelta) -> Pair:
    """A new authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_others=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(made, key)


def issue(authority: Pair, name: str, hosts: Sequence[str], kind: Kind, now: datetime, life: timedelta) -> Pair:
    """A certificate that the authority signs, with a key of its own; it does not outlive the authority."""
    issuer = x509.load_pem_x509_certificate(authority.cert)
    signer = serialization.load_pem_private_key(authority.key, None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is of another sort")
    key = ec.generate_private_key(ec.SECP256R1())
    both = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if kind == "node":
        both.append(ExtendedKeyUsageOID.SERVER_AUTH)
    names = [x509.UniformResourceIdentifier(f"{SCHEME}:{kind}:{name}"), *(_host(host) for host in hosts)]
    made = (
        x509.CertificateBuilder(issuer.subject, _name(name), key.public_key(), x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(min(now + life, issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_others=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return _pair(made, key)


@lru_cache(maxsize=1024)
def read(pem: bytes) -> Certificate:
    """What is in a certificate; ValueError if it is none."""
    return _read(x509.load_pem_x509_certificate(pem))


@lru_cache(maxsize=1024)
def read_der(der: bytes) -> Certificate:
    """The same, from the bytes that a TLS connection gives."""
    return _read(x509.load_der_x509_certificate(der))


def _read(found: x509.Certificate) -> Certificate:
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    uris = [uri.split(":", 2) for uri in names.get_values_for_type(x509.UniformResourceIdentifier)]
    ours = next((uri for uri in uris if len(uri) == 3 and uri[0] == SCHEME), None)
    common = [str(part.value) for part in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return Certificate(
        name=ours[2] if ours else next(iter(common), ""),
        kind=ours[1] if ours else "",
        serial=f"{found.serial_number:x}",
        hosts=(*names.get_values_for_type(x509.DNSName), *addresses),
        begins=found.not_valid_before_utc,
        ends=found.not_valid_after_utc,
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_others: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_others,
        key_cert_sign=signs_others,
        crl_sign=signs_others,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(made: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(made.public_bytes(serialization.Encoding.PEM), private)
