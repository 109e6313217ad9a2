"""A service's functions, as its workers look them up."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from rota.services.core.spec import HandlerSpec

Function = Callable[..., Any]


class Hooks(msgspec.Struct, frozen=True):
    """Functions that run around requests, in the order they were declared."""

    start_worker: list[Function] = msgspec.field(default_factory=list)
    open_conn: list[Function] = msgspec.field(default_factory=list)
    before_first_request: list[Function] = msgspec.field(default_factory=list)
    before_request: list[Function] = msgspec.field(default_factory=list)
    after_request: list[Function] = msgspec.field(default_factory=list)
    before_response: list[Function] = msgspec.field(default_factory=list)
    after_response: list[Function] = msgspec.field(default_factory=list)
    close_conn: list[Function] = msgspec.field(default_factory=list)
    stop_worker: list[Function] = msgspec.field(default_factory=list)

    def functions(self) -> Iterator[Function]:
        """All of them."""
        for hook in self.__struct_fields__:
            yield from getattr(self, hook)


class Handler(msgspec.Struct, frozen=True):
    """A function that answers one cmd, and the hooks of its own routes."""

    spec: HandlerSpec
    function: Function
    hooks: Hooks


class Timer(msgspec.Struct, frozen=True):
    """A function that a worker calls periodically."""

    period: float
    """Seconds from one call to the next."""

    function: Function
