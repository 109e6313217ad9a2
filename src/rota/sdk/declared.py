"""What the decorators return: a declaration that is still the user's function.

Calling one plainly runs the function, so it can be tested and used as if nothing had happened. Everything Rota knows of
it is in `spec`; nothing is started by declaring.
"""

import functools
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

from rota.jobs.core.records import JobSpec
from rota.jobs.core.spec import read_function
from rota.model.errors import Invalid
from rota.model.spec.checks import Check, Duration
from rota.resources.core import spec as resources
from rota.resources.core.spec import Resource, SourceSpec, read_kind, read_source
from rota.sdk.context import Run, SyncTask, Task
from rota.sdk.functions import Function, check_function, first_annotation, is_async, name_of
from rota.sdk.options import checked
from rota.sdk.specs import spec_type
from rota.services.core.context import Request
from rota.streams.core.context import Batch
from rota.streams.core.spec import StreamSpec

P = ParamSpec("P")
R = TypeVar("R")
Listed = AsyncIterable[Resource | str] | Iterable[Resource | str] | Awaitable[Iterable[Resource | str]]
"""What a source gives: resources, or their ids; yielded or returned, async or not."""

OWN = ("priority", "replicas", "labels", "tags", "affinity")
"""Fields of a resource that are not for its function."""

SourceFunction = Callable[[], Listed]
F = TypeVar("F", bound=SourceFunction)


class ResourceSource:
    """Where the resources of a kind are listed."""

    def __init__(self, function: SourceFunction, spec: SourceSpec) -> None:
        self.function, self.spec = function, spec
        self.is_async = spec.is_async


class ResourceKind:
    """A kind of resource. `room(task)` runs its function; `room("21452505", priority=1)` makes a `Resource`."""

    def __init__(self, function: Function, options: Mapping[str, Any]) -> None:
        name = options.get("name") or name_of(function)
        check = Check(resources.KIND, name)
        check_function(check, function, "task")
        self.is_async = is_async(function)
        self.spec = read_kind({**options, "name": name}, is_async=self.is_async)
        self.name = self.spec.name
        self.function = function
        self.spec_type = spec_type(check, first_annotation(check, function), is_async=self.is_async)
        self.own_source: ResourceSource | None = None
        """Its source, if it has one."""

        functools.update_wrapper(self, function)

    @overload
    def __call__(self, first: str, /, **fields: Any) -> Resource: ...

    @overload
    def __call__(self, first: Task[Any], /) -> Awaitable[None]: ...

    @overload
    def __call__(self, first: SyncTask[Any], /) -> None: ...

    @overload
    def __call__(self, first: object, /, *args: Any, **kwargs: Any) -> Any: ...

    def __call__(self, first: object, /, *args: Any, **kwargs: Any) -> Any:
        """A resource if the first argument is a str, its id; otherwise what the function returns.

        `priority`, `replicas`, `labels`, `tags` and `affinity` are the resource's own; every other field is for the
        function, in `task.spec`.
        """
        if isinstance(first, str) and not args:
            return self._resource(first, kwargs)
        return self.function(first, *args, **kwargs)

    def decode(self, fields: Mapping[str, Any], id: str | None = None) -> Any:
        """The value of `task.spec` for a resource with these fields; Invalid names the field that is wrong."""
        return self.spec_type.decode(Check(self.name, id) if id else Check("resource", self.name), fields, id)

    @checked("source of resource")
    def source(self, *, every: Duration = "30m", timeout: Duration = "60s") -> Callable[[F], F]:
        """Decorates the function that lists the resources: it is called when a term begins, and every `every`."""

        def declare(function: F) -> F:
            check = Check("source of resource", self.name)
            if self.own_source is not None:
                check.fail(f"it has {name_of(self.own_source.function)} already, and now {name_of(function)}; keep one")
            check_function(check, function, may_yield=True)
            spec = read_source(self.name, {"every": every, "timeout": timeout}, is_async=is_async(function))
            self.own_source = ResourceSource(function, spec)
            return function

        return declare

    def listed(self, item: object) -> Resource:
        """One item of a source as a resource; Invalid if it is none of this kind."""
        if isinstance(item, str):
            return self._resource(item, {})
        if isinstance(item, Resource) and item.kind == self.name:
            return item
        shown = f'a resource of kind "{item.kind}"' if isinstance(item, Resource) else repr(item)
        raise Invalid(f'source of resource "{self.name}": it lists {shown}; list {self.name}(…), or ids as str')

    def _resource(self, id: str, fields: Mapping[str, Any]) -> Resource:
        own = {name: fields[name] for name in OWN if name in fields}
        rest = {name: value for name, value in fields.items() if name not in own}
        resource = Resource.parse(kind=self.name, id=id, **own, spec=rest)
        self.spec_type.decode(Check(self.name, id), resource.spec, id, strict=True)
        return resource

    def __repr__(self) -> str:
        return f"<resource {self.name}>"


class Job(Generic[P, R]):
    """A job. Calling it runs its function, here and now."""

    def __init__(self, function: Callable[P, R], options: Mapping[str, Any]) -> None:
        name = options.get("name") or name_of(function)
        check = Check("job", name)
        check_function(check, function, "run")
        _check_argument(check, function, Run)
        self.is_async = is_async(function)
        self.spec = read_function({**options, "name": name})
        self.name = self.spec.name
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<job {self.name}>"


class Command:
    """A job whose work is a program."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.name = spec.name

    def __repr__(self) -> str:
        return f"<command {self.name}>"


class Stream(Generic[P, R]):
    """A stream. Calling it runs its function on one batch."""

    def __init__(self, function: Callable[P, R], options: Mapping[str, Any]) -> None:
        name = options.get("name") or name_of(function)
        check = Check("stream", name)
        check_function(check, function, "batch", may_yield=True)
        _check_argument(check, function, Batch)
        self.is_async = is_async(function)
        self.spec = StreamSpec.parse(**{**options, "name": name}, is_async=self.is_async)
        self.name = self.spec.name
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<stream {self.name}>"


def check_handler(check: Check, function: Function) -> None:
    """Invalid unless `function` can answer a request."""
    check_function(check, function, "request")
    _check_argument(check, function, Request)


def _check_argument(check: Check, function: Function, given: type) -> None:
    """Raises Invalid if the function annotates its argument as another of Rota's types."""
    annotation = first_annotation(check, function)
    if annotation in {Task, SyncTask, Run, Request, Batch} - {given}:
        name = getattr(annotation, "__name__", annotation)
        check.fail(f"its argument is a {name}; it is given a {given.__name__}: annotate it so")
