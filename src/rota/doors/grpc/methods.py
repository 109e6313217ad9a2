"""Methods of the gRPC contracts: which operation answers, and what it gets besides the request."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta
from typing import Any, ClassVar, TypeAlias, TypeVar

import grpc
import msgspec
from google.protobuf.message import Message

from rota.doors.behind import NodeBackend
from rota.doors.limits import check_wait
from rota.doors.watches import Watches
from rota.fleet.core.access.gate import Access, AdmittedCaller
from rota.kit.time.clock import Clock
from rota.store.port import Store

T = TypeVar("T")

MARGIN = timedelta(milliseconds=200)
"""How long before the caller's deadline a wait ends, so that the answer arrives in time."""


NOBODY = AdmittedCaller("", Access.VIEW)
"""The caller's name where there is no doorkeeper."""


class GrpcCall(msgspec.Struct, frozen=True):
    """What an operation needs beside the request."""

    store: Store
    """The store; what is changed in it says who did."""

    behind: NodeBackend
    remaining: timedelta | None
    """How long the caller still waits; None: without limit."""

    caller: AdmittedCaller = NOBODY
    origin: str = "grpc"
    """Where the caller is."""

    was_passed_on: ClassVar[bool] = False
    """Nodes pass requests on over HTTP."""

    @property
    def by(self) -> str:
        """The name recorded for what this call changes."""
        return self.caller.name or "api"

    @property
    def clock(self) -> Clock:
        """The node's clock."""
        return self.behind.clock

    def note(self, *what: str) -> None:
        """Add an operation that changes nothing in the store to the audit trail."""
        self.behind.note(by=self.caller.name, origin=self.origin, what=" ".join(what))

    def bounded(self, wait: timedelta) -> timedelta:
        """A wait that ends in time for the caller."""
        return wait if self.remaining is None else max(timedelta(), min(wait, self.remaining - MARGIN))

    def wait(self, wait: timedelta) -> timedelta:
        """How long the caller wants to wait, in time for its deadline."""
        check_wait(wait)
        return self.bounded(wait)


Answer: TypeAlias = Callable[[GrpcCall, Any], Awaitable[Message]]


class Method(msgspec.Struct, frozen=True):
    """The operation behind a method, and how it is asked."""

    operation: str
    answer: Answer
    conflict: grpc.StatusCode = grpc.StatusCode.ABORTED


class StreamingMethod(msgspec.Struct, frozen=True):
    """The operation behind a streaming method; it yields batches of messages."""

    operation: str
    answer: Callable[[GrpcCall, Watches, Any], AsyncGenerator[list[Message], None]]
