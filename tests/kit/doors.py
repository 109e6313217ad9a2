"""The doors of a node under test, asked as its callers ask them."""

import json
import socket
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Self

from rota.kit.record import replace
from tests.kit.node import NodeUnderTest


@dataclass(frozen=True)
class Door:
    """Where a node answers, and what a caller shows it."""

    address: str
    grpc: str
    token: str

    @classmethod
    async def of(cls, node: NodeUnderTest) -> Self:
        """The doors of a node that runs, with its own token."""
        doors = (await node.status())["doors"]
        return cls(doors["http"], doors["grpc"], node.token)

    def showing(self, token: str) -> Self:
        """The same doors, for somebody with another token; an empty one is not shown."""
        return replace(self, token=token)

    def http(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """The status and the body of an answer."""
        shown = {"authorization": f"Bearer {self.token}"} if self.token else {}
        data = None if body is None else json.dumps(body).encode()
        told = {"content-type": "application/json", **shown, **(headers or {})}
        request = urllib.request.Request(f"http://{self.address}{path}", data, told, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


GIGABYTE = 2**30


def large(door: Door, *, is_told: bool = True) -> int:
    """The status for a body of a gigabyte, whether its headers say so or not; 0 if the door just closes."""
    length = f"content-length: {GIGABYTE}" if is_told else "transfer-encoding: chunked"
    lines = ("POST /v1/resources HTTP/1.1", f"host: {door.address}", f"authorization: Bearer {door.token}")
    head = "\r\n".join((*lines, "content-type: application/json", length, "", "")).encode()
    part = b"x" * 65_536
    framed = part if is_told else b"%x\r\n%b\r\n" % (len(part), part)
    host, _, port = door.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=15) as caller:
        try:
            caller.sendall(head)
            for _ in range(GIGABYTE // len(part)):
                caller.sendall(framed)
        except OSError:
            pass  # it has closed the door, and may have said why
        try:
            answer = caller.recv(64)
        except OSError:
            return 0
    return int(answer.split()[1]) if answer else 0
