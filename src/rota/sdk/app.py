"""The app: a register of what a user's file declares.

A decorator checks its options at once, so that a mistake stops the import with a sentence about it, and stores a frozen
spec. Nothing is started, no loop, no thread, no connection: a loader forks after importing this. What refers to
something declared further down (`after=`) is checked by `check`, which `load` and `summary` call.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, ParamSpec, TypeVar, overload

from rota.jobs.core.circle import circle
from rota.jobs.core.spec import read_program
from rota.kit.record import replace
from rota.model.spec.checks import Check, Duration, did_you_mean
from rota.resources.core.spec import ResourceSpec
from rota.sdk.declared import Command, Job, ResourceKind, Stream
from rota.sdk.functions import Function, check_function, name_of
from rota.sdk.options import checked
from rota.sdk.service import Service
from rota.sdk.summary import AppSummary
from rota.services.core.context import Request
from rota.services.core.frames import BOX, Layout
from rota.services.core.routing import ByField, ByRange
from rota.services.core.spec import ServiceSpec, read_service

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D")
H = TypeVar("H", bound=Callable[[], Awaitable[None] | None])
After = str | Job[Any, Any] | Command | Sequence[str | Job[Any, Any] | Command]


class App:
    """Everything one file, or package, wants to keep running."""

    def __init__(self, name: str, *, start: Literal["fork", "spawn"] = "fork") -> None:
        check = Check("app", name)
        self.name = check.name(name)
        self.start = check.choice("start", start, ("fork", "spawn"))
        self.resources: dict[str, ResourceKind] = {}
        self.services: dict[str, Service] = {}
        self.jobs: dict[str, Job[Any, Any]] = {}
        self.commands: dict[str, Command] = {}
        self.streams: dict[str, Stream[Any, Any]] = {}
        self.worker_start_hooks: list[Function] = []

    @overload
    def resource(self, function: Function, /) -> ResourceKind: ...

    @overload
    def resource(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        replicas: int = 1,
        exclusive: bool = False,
        silent_after: Duration = "30s",
        start_within: Duration = "30s",
        sink: str | None = None,
        labels: Mapping[str, str] | None = None,
        affinity: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Callable[[Function], ResourceKind]: ...

    @checked("resource")
    def resource(self, function: Function | None = None, /, **options: Any) -> Any:
        """Decorates the function that holds one resource of a kind, until it is stopped.

        It takes a `Task`, or a `SyncTask` if it is not async. Every resource is held by `replicas` such tasks.
        """
        return _decorate(function, lambda it: _register("resource", self.resources, ResourceKind(it, options)))

    @checked("service")
    def service(
        self,
        name: str,
        *,
        port: int,
        host: str | Sequence[str] = "127.0.0.1",
        tcp: bool = True,
        udp: bool = False,
        groups: Mapping[int, int] | None = None,
        concurrency: int = 1,
        timeout: Duration | None = None,
        queue: int = 1000,
        queue_bytes: int = 64 << 20,
        max_frame: int = 1 << 20,
        client_timeout: Duration | None = None,
        auto_answer_on_fail: bool = True,
        frame: Layout = BOX,
        route: ByField | ByRange | Callable[[Request], int] | None = None,
        max_clients: int = 10_000,
        proxies: int = 1,
        all_out_first: bool = False,
        admin: str | tuple[str, int] | None = None,
        admin_username: str | None = None,
        admin_password: str | None = None,
    ) -> Service:
        """A listener; `groups` says how many workers each group has. Declare handlers with its `on`.

        `admin` is where the original control tool reaches it: a socket's path, or a host and a port.
        """
        spec = read_service(_given(locals()))
        service = _register("service", self.services, Service(spec, route if callable(route) else None))
        self._check_ports(spec)
        return service

    @overload
    def job(self, function: Callable[P, R], /) -> Job[P, R]: ...

    @overload
    def job(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str | None = None,
        timeout: Duration | None = None,
        retries: int = 0,
        on_lost: Literal["retry", "fail"] = "retry",
        misfire: str | None = None,
        concurrency: int | None = 1,
        after: After | None = None,
        labels: Mapping[str, str] | None = None,
        jitter: Duration | None = None,
        process: bool = False,
    ) -> Callable[[Callable[P, R]], Job[P, R]]: ...

    @checked("job")
    def job(self, function: Callable[P, R] | None = None, /, **options: Any) -> Any:
        """Decorates a function that runs at due times: by `cron`, at a period (`every`), `after` other jobs, or by
        hand.

        With `process` each attempt has a process of its own: what it leaks or breaks ends with it.
        """
        return _decorate(function, lambda it: self._register_job("job", self.jobs, Job(it, options)))

    @checked("command")
    def command(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str | None = None,
        timeout: Duration | None = None,
        retries: int = 0,
        on_lost: Literal["retry", "fail"] = "retry",
        misfire: str | None = None,
        concurrency: int | None = 1,
        after: After | None = None,
        labels: Mapping[str, str] | None = None,
        jitter: Duration | None = None,
    ) -> Command:
        """A job whose work is a program."""
        return self._register_job("command", self.commands, Command(read_program(_given(locals()))))

    @checked("stream")
    def stream(
        self,
        *,
        source: str,
        sink: str,
        name: str | None = None,
        tasks: int = 1,
        replicas: int = 1,
        duration: Duration = "1h",
        completion_timeout: Duration = "30m",
        pause_timeout: Duration = "10s",
        batch_timeout: Duration = "5m",
        start: str | datetime = "latest",
        start_delay: Duration = "0s",
        upto: str | datetime | None = None,
        vanished: Literal["halt", "earliest", "latest"] = "halt",
        checkpoint_rows: int = 5_000_000,
        checkpoint_bytes: int = 256 * 1024 * 1024,
        checkpoint_every: Duration | None = None,
        late: Duration | None = None,
        early: Duration | None = None,
        late_start: str | datetime | None = None,
        max_errors: int | None = None,
        idle_after: Duration | None = None,
        at_a_time: int | None = None,
        batch: int = 2000,
        tasks_most: int | None = None,
        scale_out_lag: int = 6_000_000,
        scale_in_lag: int = 1_000_000,
        scale_over: Duration = "10m",
        labels: Mapping[str, str] | None = None,
    ) -> Callable[[Callable[P, R]], Stream[P, R]]:
        """Decorates a function that makes rows of a batch of records."""
        options = _given(locals())
        return lambda function: _register("stream", self.streams, Stream(function, options))

    def on_worker_start(self, function: H) -> H:
        """Decorates a function () that runs in every worker after the fork, before the worker takes any work."""
        check_function(Check("on_worker_start", name_of(function)), function)
        self.worker_start_hooks.append(function)
        return function

    def check(self) -> None:
        """Raises Invalid if a declaration refers to something that does not exist."""
        jobs: dict[str, Job[Any, Any] | Command] = {**self.jobs, **self.commands}
        for name, job in jobs.items():
            for other in job.spec.after:
                if other not in jobs:
                    guess = did_you_mean(other, jobs) or f"; there are {', '.join(jobs)}"
                    self._check_job(name).fail(f'after names "{other}", which is no job of this app{guess}')
        for name in jobs:
            if found := circle(name, {each: jobs[each].spec.after for each in jobs}):
                self._check_job(name).fail(f"after goes in a circle: {' after '.join(found)}; break it")

    def summary(self) -> AppSummary:
        """This app in data."""
        self.check()
        return AppSummary(
            name=self.name,
            start=self.start,
            resources=tuple(_resource_spec(kind) for kind in self.resources.values()),
            services=tuple(_service_spec(service) for service in self.services.values()),
            jobs=tuple(job.spec for job in self.jobs.values()),
            commands=tuple(command.spec for command in self.commands.values()),
            streams=tuple(stream.spec for stream in self.streams.values()),
        )

    def _register_job(self, kind: str, register: dict[str, D], declared: D) -> D:
        name: str = declared.name  # type: ignore[attr-defined]  # a Job or a Command
        if name in self.jobs or name in self.commands:
            Check(kind, name).fail("there is a job or command of that name already; give one of them another")
        return _register(kind, register, declared)

    def _check_job(self, name: str) -> Check:
        return Check("job" if name in self.jobs else "command", name)

    def _check_ports(self, spec: ServiceSpec) -> None:
        mine = _places(spec)
        for other in self.services.values():
            taken = next((mine[place] for place in _places(other.spec) if place in mine), None)
            if other.name != spec.name and taken:
                del self.services[spec.name]
                Check("service", spec.name).fail(f'{taken} is that of service "{other.name}"; choose another')

    def __repr__(self) -> str:
        return f"<App {self.name}>"


def _given(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a declaration, taken from the parameters of its method."""
    return {name: value for name, value in parameters.items() if name != "self"}


def _decorate(function: Function | None, declare: Callable[[Function], D]) -> D | Callable[[Function], D]:
    """For `@app.job` and `@app.job(…)` alike."""
    return declare if function is None else declare(function)


def _register(kind: str, register: dict[str, D], declared: D) -> D:
    name: str = declared.name  # type: ignore[attr-defined]  # every declaration has one
    if name in register:
        Check(kind, name).fail("there is one of that name already; give one of them another")
    register[name] = declared
    return declared


def _places(spec: ServiceSpec) -> dict[tuple[object, ...], str]:
    """The ports where a service listens, and the option that names each."""
    protocols = [name for name, is_on in (("tcp", spec.tcp), ("udp", spec.udp)) if is_on and spec.port]
    places: dict[tuple[object, ...], str] = {
        (protocol, host, spec.port): f"port {spec.port}" for protocol in protocols for host in spec.hosts
    }
    if spec.admin is not None:
        address = spec.admin.address
        places[(address,) if isinstance(address, str) else ("tcp", *address)] = f"admin {spec.admin}"
    return places


def _resource_spec(kind: ResourceKind) -> ResourceSpec:
    """A kind with what is known of it once the whole app is declared."""
    source = kind.own_source.spec if kind.own_source else None
    schema, no_schema = kind.spec_type.schema()
    return replace(
        kind.spec,
        source_every=source.every if source else None,
        source_timeout=source.timeout if source else None,
        schema=schema,
        no_schema=no_schema,
    )


def _service_spec(service: Service) -> ServiceSpec:
    """A service with what is known of it once the whole app is declared."""
    handlers = tuple(handler.spec for handler in service.handlers.values())
    return replace(service.spec, handlers=handlers, has_loop=service.has_loop)
