"""What both clients share: where the service is, how requests are numbered and written, how answers are read.

Nothing here waits or holds a socket. `AnswerParser` cuts what comes into answers; a frame that is not whole yet is kept
without being looked at again until it is, so a long answer in small pieces costs no more than its length.
"""

import itertools
import struct
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from rota.client.answer import Answer
from rota.kit.time import durations
from rota.model.config import split_address
from rota.model.errors import Invalid, Unavailable
from rota.model.spec.checks import Check, Duration
from rota.services.core.frames import FrameCodec, Layout, wire

KIND = "client of service"
MAX_FRAME = 16 * 1024 * 1024

Body = bytes | bytearray | memoryview | str


class ServiceAddress(msgspec.Struct, frozen=True):
    """Where a service listens."""

    scheme: str
    host: str
    port: int

    @property
    def is_udp(self) -> bool:
        """Are requests datagrams?"""
        return self.scheme == "udp"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def peer(address: str) -> ServiceAddress:
    """The service at `host:port`, `tcp://host:port` or `udp://host:port`; Invalid says how to write one."""
    if not isinstance(address, str):
        raise Invalid(f"service address {address!r}: write one address as text, like tcp://host:port")
    scheme, separator, rest = address.rpartition("://")
    if separator and scheme not in ("tcp", "udp"):
        raise Invalid(f'service address "{address}": there is no {scheme}://; write tcp://host:port or udp://host:port')
    host, port = split_address(rest)
    if port == 0:
        raise Invalid(f'service address "{address}": 0 is not a port to call; write the one the service listens on')
    return ServiceAddress(scheme or "tcp", host, port)


def unreachable(to: ServiceAddress, within: timedelta, why: str) -> Unavailable:
    """The error of a call that found no connection."""
    reason = f": {why}" if why else ""
    return Unavailable(
        f"{to}: no connection within {durations.render(within)}{reason}; see that the service runs there"
    )


class Exchange:
    """Requests and answers of one client, as frames."""

    def __init__(self, address: str, timeout: Duration, layout: Layout, numbered_by: str, max_frame: int) -> None:
        self.peer = peer(address)
        self.check = Check(KIND, self.peer)
        self.timeout = self.check.duration("timeout", timeout)
        self._wire = wire(layout)
        self._numbered_by = numbered_by
        self._most = self._most_of(layout)
        self._limit = self.check.count("max_frame", max_frame, least=self._wire.size)
        self._count = itertools.count()  # its next() is one step for threads

    def within(self, timeout: Duration | None) -> timedelta:
        """A call's `timeout`, or the client's own if it has none."""
        return self.timeout if timeout is None else self.check.duration("timeout", timeout)

    def number(self) -> int:
        """The next request's number; after the greatest that the field can hold, numbers begin anew."""
        return next(self._count) % self._most + 1

    def request(self, number: int, cmd: int, body: Body, json: object, fields: Mapping[str, Any] | None) -> bytes:
        """A request as a frame; Invalid if it does not fit into one."""
        return self._wire.frame(self._body(body, json), **{**(fields or {}), "cmd": cmd, self._numbered_by: number})

    def intake(self) -> "AnswerParser":
        """The parser of a new stream's answers."""
        return AnswerParser(self._wire, self._numbered_by, self._limit)

    def _body(self, body: Body, json: object) -> bytes:
        if json is not None:
            if body:
                self.check.fail("a call has both body= and json=; give one of them")
            return msgspec.json.encode(json)
        return body.encode() if isinstance(body, str) else bytes(body)

    def _most_of(self, layout: Layout) -> int:
        """The greatest number that the field for it can hold."""
        codes = {field.name: field.code for field in layout.fields}
        if self._numbered_by not in codes or self._numbered_by not in layout.kept:
            kept = ", ".join(name for name in layout.kept if name != "cmd") or "nothing"
            self.check.fail(
                f"an answer in frame {layout.name} does not take over {self._numbered_by} from its request; it takes "
                f"over {kept}: choose one of these with numbered_by="
            )
        code = codes[self._numbered_by]
        if code not in "bBhHiIlLqQ":
            self.check.fail(f"{self._numbered_by} of frame {layout.name} has the code {code!r}, which is no number")
        return int(2 ** (8 * struct.calcsize(layout.order + code) - 1)) - 1


class AnswerParser:
    """Bytes in, answers out; BadFrame if they cannot be answers."""

    def __init__(self, by: FrameCodec, numbered_by: str, limit: int) -> None:
        self._wire, self._numbered_by, self._limit = by, numbered_by, limit
        self._rest = bytearray()
        self._wanted = by.size

    def feed(self, data: bytes) -> list[Answer]:
        """The answers that `data` completed, in order."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return []
            data = bytes(self._rest)
        frames, used = self._wire.split(data, self._limit)
        self._rest = bytearray(data[used:])
        self._wanted = self._wire.needed(bytes(self._rest[: self._wire.size]))
        return [self._answer(cmd, frame) for cmd, frame in frames]

    def _answer(self, cmd: int, frame: bytes) -> Answer:
        header = self._wire.read(frame)
        return Answer(
            ret=header.get("ret", 0), body=self._wire.body(frame), cmd=cmd, sn=header[self._numbered_by], fields=header
        )
