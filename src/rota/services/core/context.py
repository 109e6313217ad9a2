"""What a handler is given and answers with: a request, who asks, a reply.

They are plain objects over a small door, so that a worker, a test and the simulator can hand out the same ones.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from rota.model.errors import Invalid
from rota.model.payload import payload_bytes, shown


class Client(msgspec.Struct, frozen=True):
    """Who asks."""

    host: str
    port: int


class Reply(msgspec.Struct, frozen=True):
    """An answer: its code, 0 for well done, its body, and what else its header says."""

    body: bytes = b""
    ret: int = 0
    fields: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Fields of the header besides `ret`; an answer has its request's cmd and number unless they are here."""

    @classmethod
    def of(cls, value: object) -> "Reply":
        """What a handler returned, as an answer; Invalid if it is none.

        Bytes and str are a body; a dict has `ret`, `body`, and fields of the header.
        """
        match value:
            case bytes():
                return cls(value)
            case Reply():
                return value
            case bytearray() | memoryview() | str():
                return cls(body=payload_bytes(value))
            case Mapping() if all(isinstance(name, str) for name in value):
                fields = {name: value[name] for name in value if name not in ("ret", "body")}
                ret, body = value.get("ret", 0), value.get("body", b"")
                if isinstance(ret, int) and -(1 << 31) <= ret < 1 << 31:
                    return cls(payload_bytes(body), int(ret), fields)
        raise Invalid(
            f"a handler returned {shown(value)}; return a Reply, bytes, str, None, "
            'or a dict like {"ret": 0, "body": b"…"}'
        )


class RequestDoor(Protocol):
    """Where a request came from, and where its answer goes."""

    def reply(self, request: "Request", reply: Reply) -> None:
        """Send the answer to a request that came by here; Invalid if its header has no such field."""

    def client(self) -> Client | None:
        """Who asks."""

    def fields(self) -> dict[str, Any]:
        """The header, by name."""


class Request:
    """One call of a client."""

    is_answered = False
    """Has an answer been sent? There is at most one."""

    is_interrupted = False
    """Did a hook say that the handler is not to run?"""

    is_over = False
    """Has its handler ended?"""

    def __init__(self, service: str, cmd: int, sn: int, body: bytes, group: int, door: RequestDoor) -> None:
        self.service, self.cmd, self.sn, self.body, self.group = service, cmd, sn, body, group
        self._door = door

    @property
    def client(self) -> Client | None:
        """Who asks."""
        return self._door.client()

    @property
    def fields(self) -> dict[str, Any]:
        """The header, by name: for frames that say more than cmd and number."""
        return self._door.fields()

    def json(self) -> Any:
        """The body, read as JSON."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError as error:
            raise Invalid(f"the body of cmd {self.cmd} is not JSON: {error}") from None

    def write(self, value: object) -> bool:
        """Answer now, before the handler ends; what it returns later is dropped. False if it was answered already.

        Invalid if the handler has ended: the worker may be at work on another request by then.
        """
        if self.is_answered:
            return False
        reply = value if isinstance(value, Reply) else Reply.of(value)
        self.is_answered = True
        try:
            self._door.reply(self, reply)
        except Invalid:  # a field that its frame does not have: nothing was sent
            self.is_answered = False
            raise
        return True

    def interrupt(self, value: object = None) -> bool:
        """In a before hook: do not run the handler, and answer with `value`, or not at all if that is None."""
        self.is_interrupted = True
        return value is None or self.write(value)

    def __repr__(self) -> str:
        return f"<Request {self.service} cmd {self.cmd} sn {self.sn}>"
