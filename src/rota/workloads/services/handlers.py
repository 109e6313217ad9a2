"""A service's functions, as its workers look them up."""

from collections.abc import Callable
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Handler:
    """A function that answers one cmd, and the hooks of its own routes."""

    spec: HandlerSpec
    function: Function
    hooks: Hooks
