"""The doors of a node under test, asked as its callers ask them."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from typing import Self

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
            with urllib.request.urlopen(request, timeout=15) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
