"""A service's functions, as its workers look them up."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from rota.workloads.services.spec import HandlerSpec

Function = Callable[..., Any]


@dataclass(frozen=True)
class Hooks:
    """Functions that run around requests, in the order they were declared."""

    start_worker: list[Function] = field(default_factory=list)
    open_conn: list[Function] = field(default_factory=list)
    before_first_request: list[Function] = field(default_factory=list)
    before_request: list[Function] = field(default_factory=list)
    after_request: list[Function] = field(default_factory=list)
    before_response: list[Function] = field(default_factory=list)
    after_response: list[Function] = field(default_factory=list)
    close_conn: list[Function] = field(default_factory=list)
    stop_worker: list[Function] = field(default_factory=list)

    def functions(self) -> Iterator[Function]:
        """All of them."""
        for hook in fields(self):
            yield from getattr(self, hook.name)


@dataclass(frozen=True)
class Handler:
    """A function that answers one cmd, and the hooks of its own routes."""

    spec: HandlerSpec
    function: Function
    hooks: Hooks


@dataclass(frozen=True)
class Timer:
    """A function that a worker calls again and again."""

    period: float
    """Seconds from one call to the next."""

    function: Function
