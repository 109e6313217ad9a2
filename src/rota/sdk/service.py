"""Services and routes: which function answers which cmd, and the hooks around it.

`Routes` lets handlers live in files of their own: it collects them, and `service.include(routes)` takes them in. Hooks
of a service run for all its requests; `before_request` and `after_request` of routes run for their own.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from rota.model.spec.checks import Check, Duration
from rota.sdk.declared import check_handler
from rota.sdk.functions import Function, check_function, is_async, name_of
from rota.sdk.options import checked
from rota.services.core.handlers import Handler, Hooks, Timer
from rota.services.core.spec import HOOKS, ServiceSpec, read_handler

F = TypeVar("F", bound=Callable[..., Any])


class _Pending(msgspec.Struct, frozen=True):
    """A handler of routes that no service has taken in yet."""

    cmd: int
    options: dict[str, Any]
    function: Function


class Routes:
    """Handlers that a service takes in with `include`."""

    def __init__(self) -> None:
        self.handlers: list[_Pending] = []
        self.hooks = Hooks()
        self.service_hooks = Hooks()
        self.included_in: str | None = None

    @checked("routes")
    def on(
        self, cmd: int, *, group: int | None = None, timeout: Duration | None = None, idempotent: bool = False
    ) -> Callable[[F], F]:
        """Decorates the function that answers `cmd`."""

        def declare(function: F) -> F:
            self._check_open(function)
            check_handler(Check("handler", name_of(function)), function)
            options = {"group": group, "timeout": timeout, "idempotent": idempotent}
            self.handlers.append(_Pending(cmd, options, function))
            return function

        return declare

    def before_request(self, function: F) -> F:
        """Decorates a hook (request) that runs before each of these handlers."""
        return self._hook(self.hooks, "before_request", function)

    def after_request(self, function: F) -> F:
        """Decorates a hook (request, error) that runs after each of these handlers."""
        return self._hook(self.hooks, "after_request", function)

    def before_service_request(self, function: F) -> F:
        """Decorates a hook (request) that runs before every handler of the service."""
        return self._hook(self.service_hooks, "before_request", function)

    def after_service_request(self, function: F) -> F:
        """Decorates a hook (request, error) that runs after every handler of the service."""
        return self._hook(self.service_hooks, "after_request", function)

    def _hook(self, hooks: Hooks, hook: str, function: F) -> F:
        self._check_open(function)
        return _add_hook(hooks, Check("routes", hook), hook, function)

    def _check_open(self, function: object) -> None:
        if self.included_in is not None:
            Check("routes", name_of(function)).fail(
                f'service "{self.included_in}" has these routes already; include them after the last handler'
            )


class Service:
    """A listener: declare what it answers with `on`, and what runs around that with the hooks."""

    def __init__(self, spec: ServiceSpec, router: Function | None = None) -> None:
        self.spec = spec
        self.name = spec.name
        self.router = router
        """The function that chooses the group of a request; None if there is none."""

        self.handlers: dict[int, Handler] = {}
        self.timers: list[Timer] = []
        self.hooks = Hooks()
        if router is not None:
            check_function(self._check().about("route"), router, "request")

    @property
    def has_loop(self) -> bool:
        """Do its workers need an event loop?"""
        functions = [
            *(handler.function for handler in self.handlers.values()),
            *(timer.function for timer in self.timers),
            *self.hooks.functions(),
            *(function for handler in self.handlers.values() for function in handler.hooks.functions()),
        ]
        return any(map(is_async, functions))

    @checked("handler")
    def on(
        self, cmd: int, *, group: int | None = None, timeout: Duration | None = None, idempotent: bool = False
    ) -> Callable[[F], F]:
        """Decorates the function that answers `cmd`: it is given the request, and returns the reply, or None."""

        def declare(function: F) -> F:
            check_handler(self._check().about(f"cmd {cmd}"), function)
            options = {"group": group, "timeout": timeout, "idempotent": idempotent}
            self._add(cmd, options, function, Hooks())
            return function

        return declare

    def include(self, routes: Routes) -> None:
        """Take in the handlers and hooks of `routes`."""
        if not isinstance(routes, Routes):
            self._check().fail(f"include takes rota.Routes, not {routes!r}")
        if routes.included_in is not None:
            self._check().fail(f'service "{routes.included_in}" has these routes already; include them once')
        for pending in routes.handlers:
            self._add(pending.cmd, pending.options, pending.function, routes.hooks)
        self.hooks.before_request.extend(routes.service_hooks.before_request)
        self.hooks.after_request.extend(routes.service_hooks.after_request)
        routes.included_in = self.name

    def every(self, period: Duration) -> Callable[[F], F]:
        """Decorates a function () that each worker of the service calls periodically, between its requests."""
        found = self._check().about("every").duration("period", period)

        def declare(function: F) -> F:
            check_function(self._check().about(f"every {name_of(function)}"), function)
            self.timers.append(Timer(found.total_seconds(), function))
            return function

        return declare

    def start_worker(self, function: F) -> F:
        """Decorates a hook () that runs when a worker starts."""
        return _add_hook(self.hooks, self._check(), "start_worker", function)

    def open_conn(self, function: F) -> F:
        """Decorates a hook () that runs when a worker has its connection to the proxy."""
        return _add_hook(self.hooks, self._check(), "open_conn", function)

    def before_first_request(self, function: F) -> F:
        """Decorates a hook (request) that runs before a worker's first request."""
        return _add_hook(self.hooks, self._check(), "before_first_request", function)

    def before_request(self, function: F) -> F:
        """Decorates a hook (request) that runs before each handler; `request.interrupt` skips the handler."""
        return _add_hook(self.hooks, self._check(), "before_request", function)

    def after_request(self, function: F) -> F:
        """Decorates a hook (request, error) that runs after each handler; the error is None if there was none."""
        return _add_hook(self.hooks, self._check(), "after_request", function)

    def before_response(self, function: F) -> F:
        """Decorates a hook (request, reply) that runs before an answer is sent. Not async."""
        return _add_hook(self.hooks, self._check(), "before_response", function)

    def after_response(self, function: F) -> F:
        """Decorates a hook (request, reply) that runs after an answer was sent. Not async."""
        return _add_hook(self.hooks, self._check(), "after_response", function)

    def close_conn(self, function: F) -> F:
        """Decorates a hook () that runs when a worker's connection to the proxy has ended."""
        return _add_hook(self.hooks, self._check(), "close_conn", function)

    def stop_worker(self, function: F) -> F:
        """Decorates a hook () that runs when a worker stops."""
        return _add_hook(self.hooks, self._check(), "stop_worker", function)

    def _add(self, cmd: object, options: dict[str, Any], function: Function, hooks: Hooks) -> None:
        spec = read_handler(self.spec, cmd, options, is_async=is_async(function))
        if (other := self.handlers.get(spec.cmd)) is not None:
            both = f"{name_of(other.function)} and by {name_of(function)}"
            self._check().fail(f"cmd {cmd} is handled by {both}; give one of them another number")
        self.handlers[spec.cmd] = Handler(spec, function, hooks)

    def _check(self) -> Check:
        return Check("service", self.name)

    def __repr__(self) -> str:
        return f"<service {self.name}>"


def _add_hook(hooks: Hooks, check: Check, hook: str, function: F) -> F:
    """Check a hook and store it."""
    mine = check.about(f"{hook} {name_of(function)}")
    check_function(mine, function, *HOOKS[hook])
    if hook.endswith("_response") and is_async(function):
        mine.fail("it is async; write it with def, since it also runs inside request.write")
    getattr(hooks, hook).append(function)
    return function
