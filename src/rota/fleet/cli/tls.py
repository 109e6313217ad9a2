"""`rota tls`: a small certificate authority in a folder, and certificates that it signs.

`tls/ca` has the authority and a copy of each certificate it issued; `tls/NAME` is what the holder of a certificate is
given: `cert.pem`, `key.pem`, `ca.pem`.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import click
import msgspec

from rota.cli import options
from rota.cli.options import Duration, Shape
from rota.cli.reach.on_store import on_store
from rota.cli.reach.who import me
from rota.cli.terminal import tables
from rota.cli.verbs import ListingGroup
from rota.fleet.access.certificates import AUTHORITY, CERT, KEY
from rota.kit.files import write_secret
from rota.kit.time.clock import SYSTEM
from rota.model.config import check_node_id
from rota.model.errors import Conflict, Denied, Invalid, NotFound

try:
    from rota.kit.crypto import authority
    from rota.kit.crypto.authority import Certificate, Kind, Pair
except ModuleNotFoundError as error:  # cryptography is an extra
    raise Invalid(f"rota tls needs {error.name}, which is not installed; pip install 'rota[tls]'") from None

HEADINGS = "NAME", "KIND", "SERIAL", "ENDS", "HOSTS"
_HOST = re.compile(r"[A-Za-z0-9.:_*-]{1,253}")

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("tls"),
    show_default=True,
    help="Where the authority and its certificates are.",
)
name_argument = click.argument("name", metavar="NAME")


@click.group(cls=ListingGroup)
def command() -> None:
    """Make certificates for nodes and callers, renew and revoke them.

    `rota tls` alone is `rota tls ls`.
    """


@command.command()
@folder_option
@click.option("--life", type=Duration(), default="3650d", show_default=True, help="How long the authority is valid.")
@options.output(Shape.OBJECT)
def init(folder: Path, life: timedelta) -> None:
    """Make a certificate authority. Keep its key in a safe place: it can sign certificates for any name.

    Example: rota tls init
    """
    place = folder / "ca"
    if (place / KEY).exists():
        raise Conflict(f"there is an authority in {place}; use it, or name another folder with --folder")
    _write(place, authority.found("rota authority", SYSTEM.wall(), life))
    tables.answer({"folder": str(place)})
    tables.say(f"the authority is in {place}; next: rota tls issue NODE --host HOST")


@command.command()
@name_argument
@click.option("--host", "hosts", multiple=True, metavar="HOST", help="A name or address of the node; may be repeated.")
@click.option("--client", is_flag=True, help="For a gRPC client, not for a node.")
@click.option("--life", type=Duration(), default="30d", show_default=True, help="How long the certificate is valid.")
@folder_option
@options.output(Shape.OBJECT)
def issue(name: str, hosts: tuple[str, ...], client: bool, life: timedelta, folder: Path) -> None:
    """Make a certificate for a node, or for a gRPC client.

    Example: rota tls issue n1 --host n1.example.com --host 10.0.0.5
    """
    check_node_id(name)
    if wrong := next((host for host in hosts if not _HOST.fullmatch(host)), None):
        raise Invalid(f'--host "{wrong}" is no name or address; write n1.example.com or 10.0.0.5')
    if not hosts and not client:
        raise Invalid("a node is reached under some name or address; say so with --host, or --client for a caller")
    issued = _issue(folder, name, hosts, "client" if client else "node", life)
    made = folder / name
    use = "show it to the gRPC door" if client else f"start the node with rota node --id {name} --tls {made}"
    tables.answer({"folder": str(made), **msgspec.structs.asdict(issued)})
    tables.say(f"the certificate is in {made}; {use}")


@command.command()
@name_argument
@click.option("--life", type=Duration(), default="30d", show_default=True, help="How long the new one is valid.")
@folder_option
@options.output(Shape.OBJECT)
def renew(name: str, life: timedelta, folder: Path) -> None:
    """Make a new certificate with a new key for the same holder and hosts; a running node uses it without a restart.

    The old one stays valid until it expires or is revoked.

    Example: rota tls renew n1
    """
    newest = max(_issued_to(folder, name), key=lambda each: each.begins)
    kind: Kind = "client" if newest.kind == "client" else "node"
    issued = _issue(folder, name, newest.hosts, kind, life)
    tables.answer({"folder": str(folder / name), **msgspec.structs.asdict(issued)})
    tables.say(f"the new certificate is in {folder / name}; bring the folder to where the old one is")


@command.command()
@name_argument
@click.option("--older", is_flag=True, help="Only those before the newest.")
@folder_option
@options.store
@options.output(Shape.LIST)
def revoke(name: str, older: bool, folder: Path, store: str) -> None:
    """Revoke all certificates of a holder: every node refuses them a moment later.

    Example: rota tls revoke n1
    """
    from rota.fleet.doors.certificates import revoke_certificates  # noqa: PLC0415

    now = SYSTEM.wall()
    issued = sorted(_issued_to(folder, name), key=lambda each: each.begins)
    meant = [each for each in (issued[:-1] if older else issued) if each.ends > now]
    if not meant:
        raise NotFound(f"{name} has no {'older ' if older else ''}certificate that is still good")
    serials = [(each.serial, each.ends) for each in meant]
    revoked = on_store(store, lambda open: revoke_certificates(open, SYSTEM, name, serials, by=me()))
    tables.answer(revoked)
    for each in revoked:
        tables.say(f"certificate {each.serial} of {name} is revoked")


@command.command()
@folder_option
@options.output(Shape.LIST)
def ls(folder: Path) -> None:
    """List the certificates that the authority has issued.

    Example: rota tls ls
    """
    found = sorted(_issued(folder), key=lambda each: (each.name, each.begins))
    tables.answer(found)
    rows = [(each.name, each.kind, each.serial, f"{each.ends:%Y-%m-%d %H:%M}", ",".join(each.hosts)) for each in found]
    tables.show(HEADINGS, rows, "no certificates; make one with: rota tls issue NODE --host HOST")


def _issue(folder: Path, name: str, hosts: tuple[str, ...], kind: Kind, life: timedelta) -> Certificate:
    """Make a certificate, put a copy beside the authority, and the rest into its holder's folder."""
    if life <= timedelta():
        raise Invalid(f"--life is {life}; it must be above zero")
    if name == "ca":
        raise Invalid('"ca" is the authority\'s own folder; choose another name')
    signer = _authority(folder)
    made = authority.issue(signer, name, hosts, kind, SYSTEM.wall(), life)
    copies = folder / "ca" / "issued"
    copies.mkdir(exist_ok=True)
    issued = authority.read(made.cert)
    (copies / f"{issued.serial}.pem").write_bytes(made.cert)
    _write(folder / name, made)
    (folder / name / AUTHORITY).write_bytes(signer.cert)
    return issued


def _write(folder: Path, pair: Pair) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        write_secret(folder / KEY, pair.key.decode().rstrip("\n"))
        (folder / CERT).write_bytes(pair.cert)
    except OSError as error:
        raise Denied(f"tls {folder}: {error.strerror}; choose another place with --folder") from error


def _authority(folder: Path) -> Pair:
    place = folder / "ca"
    try:
        return Pair((place / CERT).read_bytes(), (place / KEY).read_bytes())
    except FileNotFoundError:
        raise NotFound(
            f"there is no authority in {place}; make one with rota tls init, or name it with --folder"
        ) from None
    except OSError as error:
        raise Denied(f"authority {place}: {error.strerror}; run this as the user who made it") from error


def _issued(folder: Path) -> Iterator[Certificate]:
    _authority(folder)
    for file in (folder / "ca" / "issued").glob("*.pem"):
        yield authority.read(file.read_bytes())


def _issued_to(folder: Path, name: str) -> list[Certificate]:
    found = [each for each in _issued(folder) if each.name == name]
    if not found:
        names = ", ".join(sorted({each.name for each in _issued(folder)})) or "none"
        raise NotFound(f'no certificate was issued to "{name}"; there are: {names}')
    return found
