"""What a user declares of a service's admin door, where the original control tool reaches it. Pure.

The door is a unix socket or a TCP port. Name and password may be written out, or be references (`env:NAME`,
`file:PATH`), which the node looks up where it runs. Without them every client that reaches the door is let in, so a
port that other machines can reach requires a password.
"""

import ipaddress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Self

from rota.model.config import split_address
from rota.model.errors import Invalid
from rota.model.spec.checks import Check

ADMIN_OPTIONS = ("admin", "admin_username", "admin_password")
"""The options of a service's admin door."""

TCP = "tcp://"
REFERENCES = ("env:", "file:")


@dataclass(frozen=True, kw_only=True)
class AdminSpec:
    """An admin door."""

    address: str | tuple[str, int]
    """A socket's path, which lies in the node's data folder unless it is absolute; or host and port."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, check: Check, *, admin: object, admin_username: object, admin_password: object) -> Self | None:
        """The declaration, checked; None if there is no such door."""
        if admin is None:
            for option, value in (("admin_username", admin_username), ("admin_password", admin_password)):
                if value is not None:
                    check.fail(f'{option} is given, but no admin door; add admin="admin.sock", or leave {option} out')
            return None
        spec = cls(
            address=_address(check, admin),
            username=_secret(check, "admin_username", admin_username),
            password=_secret(check, "admin_password", admin_password),
        )
        if spec.username is not None and spec.password is None:
            check.fail("admin_username is given without admin_password; add it, or leave both out")
        if isinstance(spec.address, tuple) and spec.password is None and not _is_loopback(spec.address[0]):
            check.fail(
                f"admin is {spec}, which other machines may reach, without a password; "
                "add admin_password=, or listen on 127.0.0.1"
            )
        return spec

    def __str__(self) -> str:
        """The address, as the control tool takes it."""
        if isinstance(self.address, str):
            return self.address
        host, port = self.address
        return f"{TCP}[{host}]:{port}" if ":" in host else f"{TCP}{host}:{port}"


def _address(check: Check, admin: object) -> str | tuple[str, int]:
    if isinstance(admin, list | tuple) and len(admin) == 2:
        return check.text("admin", admin[0]), check.count("admin", admin[1], least=1, most=65535)
    if not isinstance(admin, str):
        check.fail(f'admin is {admin!r}; write a path like "admin.sock", or ("127.0.0.1", 9901)')
    if admin.startswith(TCP):
        return _host_and_port(check, admin)
    if not admin or "://" in admin or not admin.isprintable():
        check.fail(f'admin is "{admin}"; write a path like "admin.sock", or tcp://127.0.0.1:9901')
    path = PurePosixPath(admin)
    if ".." in path.parts:
        check.fail(f'admin is "{admin}"; write a path within the data folder, or an absolute one')
    return str(path)


def _host_and_port(check: Check, admin: str) -> tuple[str, int]:
    try:
        host, port = split_address(admin.removeprefix(TCP))
    except Invalid as error:
        check.fail(f"admin: {error}")
    return host, check.count("admin", port, least=1, most=65535)


def _secret(check: Check, option: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        check.fail(f'{option} is no text; write it out, or where it is: "env:NAME" or "file:PATH"')
    if value in REFERENCES:
        check.fail(f'{option} is "{value}"; write what follows, like "env:ADMIN_PASSWORD" or "file:/etc/shop/password"')
    return value


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
