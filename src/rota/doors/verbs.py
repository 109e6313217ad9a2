"""Verbs: what can be asked of a fleet, each described once, where its operation is.

    @verb("POST", "/v1/runs/{job}/{moment}/interrupt", Access.OPERATE, rpc="Runs.Interrupt", body=ReasonBody)
    async def interrupt_run(store: Store, run: RunId, *, by: str, why: str = "", wait: Wait = None) -> RunView:
        \"\"\"Stop a run; with `wait`, return when it is over, or when that time is.\"\"\"

The signature is the request: the caller sends each parameter, with the type it has there, unless it is one of `OURS`,
which the node fills in. A parameter that the path names is in the path, one that the record of the body names is in the
body, and the others are in the query. The return type is the answer, unless `answer` names the record that holds it.
HTTP, gRPC, the command line's requests to a server, the description of the API, the table of roles and the audit trail
follow from it (`doors.http.verbs`, `doors.grpc.verbs`, `cli.reach.remote`, `openapi`); docs/adr has the reasons.

Importing a module inspects nothing: the first use of a verb reads its signature, and caches the result.
"""

import asyncio
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto
from functools import cache, cached_property
from inspect import isasyncgenfunction
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from rota.doors.paging import paged
from rota.doors.parameters import Parameter
from rota.fleet.core.access.gate import Access
from rota.kit.record import replace
from rota.model.ids import Revision

F = TypeVar("F", bound=Callable[..., Any])

OPERATIONS: dict[str, Access] = {}
"""Every operation by name, and what it needs."""

STREAMING: set[str] = set()
"""Operations with a streamed answer. The doors judge their callers again meanwhile."""

HEAVY: set[str] = set()
"""Operations that compute or read much; few of them run at a time (`doors.guard.budget`)."""

PATIENCE = timedelta(seconds=10)
"""How long an operation waits for the leader if its callers cannot say so."""

OURS: Mapping[str, Callable[[Any], Any]] = {
    "store": lambda call: call.store,
    "clock": lambda call: call.clock,
    "by": lambda call: call.by,
    "access": lambda call: call.caller.access,
    "most": lambda call: call.caller.access,
    "logs": lambda call: call.behind.present_logs(),
    "log_at": lambda call: call.behind.log_at,
    "steer": lambda call: call.behind.steer,
    "tallies": lambda call: call.behind.tallies,
    "was_passed_on": lambda call: call.was_passed_on,
    "patience": lambda call: call.bounded(PATIENCE),
    "sleep": lambda _: asyncio.sleep,
}
"""Parameters that the node fills in from the call, unless their type says that the caller sends them."""


def needs(access: Access, *, heavy: bool = False) -> Callable[[F], F]:
    """Declares an operation that is no verb; TypeError if there is one of its name."""

    def declare(function: F) -> F:
        if function.__name__ in OPERATIONS:
            raise TypeError(f"there are two operations {function.__name__}; give {function.__module__}'s another name")
        OPERATIONS[function.__name__] = access
        if heavy:
            HEAVY.add(function.__name__)
        if isasyncgenfunction(function):
            STREAMING.add(function.__name__)
        return function

    return declare


class Sort(Enum):
    """The kinds of values that a parameter takes."""

    TEXT = auto()
    COUNT = auto()
    FLAG = auto()
    SPAN = auto()
    TIME = auto()
    TEXTS = auto()
    AFTER = auto()
    """The revision after which a watch resumes."""

    LIST = auto()
    OBJECT = auto()
    ANY = auto()
    """Any JSON value; the operation checks it."""


class Where(Enum):
    """Where a request over HTTP has a parameter."""

    PATH = auto()
    QUERY = auto()
    BODY = auto()
    WHOLE = auto()
    """The parameter is the body itself."""

    HEADER = auto()


class VerbField(msgspec.Struct, frozen=True):
    """A parameter that the caller sends."""

    name: str
    """Its name in the signature."""

    key: str
    """Its name at the doors."""

    sort: Sort
    where: Where
    is_needed: bool
    """Is it required?"""

    is_nullable: bool
    """Does null in a body count as left out?"""

    parameter: Parameter | None
    """What it means; None: the record of the body says so."""


class Verb(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """An operation, and how clients call it at the doors."""

    name: str
    function: Callable[..., Any]
    method: str
    path: str
    rpc: str = ""
    """Service and method of gRPC, such as `Runs.Get`; empty: it cannot be asked over gRPC."""

    body: type[msgspec.Struct] | None = None
    """The record of the body."""

    answer: type[msgspec.Struct] | None = None
    """The record of the answer; None: what the operation returns."""

    makes: bool = False
    """Does it make something? Then HTTP answers 201."""

    deletes: bool = False
    """Does it delete something? Then HTTP answers 204, without a body."""

    found_at: str = ""
    """The path of the thing it made, with fields of the answer as placeholders."""

    is_versioned: bool = False
    """Has the answer an ETag? Then its record has a field `version`."""

    page_by: Callable[[Any], str] | None = None
    """The name of an entry, for a list that is read whole and answered in pages; None: it is no such list."""

    shown: Callable[[Any], Any] | None = None
    """The function that shows an entry of such a list; None: as it is."""

    goes_on: str = ""
    """The events of its streamed answer over HTTP, if it has one."""

    codes: tuple[str, ...] = ()
    """Codes of errors that are its own."""

    is_noted: bool = False
    """Is it recorded in the audit trail although it changes nothing in the store? Then it takes no idempotency key
    either."""

    is_secret: bool = False
    """Is its answer sent only once, and never kept for a repeat?"""

    @cached_property
    def fields(self) -> tuple[VerbField, ...]:
        """The parameters that the caller sends, in the order of the signature."""
        return tuple(_fields(self))

    @cached_property
    def _ours(self) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
        asked = {field.name for field in self.fields}
        names = [name for name in inspect.signature(self.function).parameters if name not in asked]
        return tuple((name, OURS[name]) for name in names)

    @cached_property
    def record(self) -> Any:
        """The type of the answer."""
        return self.answer or get_type_hints(self.function)["return"]

    @cached_property
    def _echoed(self) -> tuple[str, ...]:
        asked = {field.name for field in self.fields}
        return tuple(name for name in self.record.__struct_fields__ if name in asked)

    @cached_property
    def _is_whole(self) -> bool:
        """Does the operation return the whole answer?"""
        returned = get_type_hints(self.function)["return"]
        return returned in (self.answer, Any) or get_origin(returned) is dict

    @cached_property
    def holds(self) -> str:
        """The field of the answer that holds what the operation returned; empty: that is the answer."""
        if self.answer is None or self._is_whole:
            return ""
        others = [name for name in self.answer.__struct_fields__ if name not in self._echoed]
        return others[0] if len(others) == 1 or self.page_by else ""

    @property
    def answers_as_asked(self) -> bool:
        """Does its answer contain only values of the request?"""
        return self.answer is not None and set(self._echoed) == set(self.answer.__struct_fields__)

    def wrap(self, found: Any, given: Mapping[str, Any]) -> Any:
        """The record of the answer: what the operation returned, or that together with values of the request."""
        if self.answer is None or self._is_whole:
            return found
        echoed = {name: given[name] for name in self._echoed}
        if self.holds:
            return self.answer(**echoed, **{self.holds: found})
        others = [name for name in self.answer.__struct_fields__ if name not in echoed]
        return self.answer(**echoed, **{name: getattr(found, name) for name in others})

    def begin(self, call: Any, given: Mapping[str, Any]) -> Any:
        """Call the operation with the caller's values and those that the node fills in."""
        return self.function(**{name: fill(call) for name, fill in self._ours}, **given)

    async def ask(self, call: Any, given: Mapping[str, Any]) -> Any:
        """The result of the operation, with what the doors add to it."""
        found = await self.begin(call, given)
        more = MORE.get(self.name)
        return await more(call.store, found) if more else found

    def note(self, given: Mapping[str, Any]) -> str:
        """The audit text of a verb that changes nothing in the store."""
        said = ((field, given.get(field.name)) for field in self.fields)
        words = ("all" if field.sort is Sort.LIST and not each else str(each) for field, each in said)
        return " ".join([self.name, *words])

    def page(self, found: Any, limit: int | None, token: str | None) -> Any:
        """A page of a list that was read whole, as the record of the answer."""
        assert self.page_by is not None
        listing = self.record.__struct_fields__[0]
        items = found if isinstance(found, tuple) else getattr(found, listing)
        page, further = paged(items, self.page_by, limit=limit, token=token)
        fields = {listing: tuple(map(self.shown, page)) if self.shown else page, "next": further}
        return self.record(**fields) if found is items else replace(found, **fields)

    @property
    def access(self) -> Access:
        """What its caller must be allowed to do."""
        return OPERATIONS[self.name]

    @property
    def keeps_keys(self) -> bool:
        """Does the operation handle idempotency keys itself?"""
        return any(field.where is Where.HEADER and field.sort is Sort.TEXT for field in self.fields)

    @property
    def is_body_needed(self) -> bool:
        """Must there be a body?"""
        if self.body is None:
            return False
        needed = [field for field in msgspec.structs.fields(self.body) if field.required]
        return bool(needed) or getattr(self.body, "is_needed", False)

    def query(self) -> tuple[str, ...]:
        """The names of the query parameters."""
        paging = ("limit", "token") if self.page_by else ()
        return (*(field.key for field in self.fields if field.where is Where.QUERY), *paging)


VERBS: dict[str, Verb] = {}
"""Every verb, by the name of its operation."""

MORE: dict[str, Callable[[Any, Any], Any]] = {}
"""Operation → what adds to its answer at the doors, given the store."""


def verb(method: str, path: str, access: Access, *, heavy: bool = False, **how: Any) -> Callable[[F], F]:
    """Declares an operation and how it is asked; `how` are fields of `Verb`."""

    def declare(function: F) -> F:
        name = function.__name__
        needs(access, heavy=heavy)(function)
        VERBS[name] = Verb(name=name, function=function, method=method, path=path, **how)
        return function

    return declare


def adds_to(name: str) -> Callable[[F], F]:
    """Declares what adds to the answer of an operation at the doors."""

    def declare(function: F) -> F:
        MORE[name] = function
        return function

    return declare


# Signatures


def _fields(verb: Verb) -> Iterable[VerbField]:
    hints = get_type_hints(verb.function, include_extras=True)
    in_body = get_type_hints(verb.body) if verb.body else {}
    for name, each in inspect.signature(verb.function).parameters.items():
        parameter = _parameter_of(hints[name])
        if parameter is None and name in OURS:
            continue
        key = (parameter.name if parameter else "") or name
        yield VerbField(
            name=name,
            key=key,
            sort=_sort(hints[name]),
            where=_where(verb, name, key, parameter, in_body),
            is_needed=each.default is each.empty,
            is_nullable=NoneType in get_args(in_body.get(key)),
            parameter=parameter,
        )


def _where(verb: Verb, name: str, key: str, parameter: Parameter | None, in_body: Collection[str]) -> Where:
    if parameter is not None and parameter.header:
        return Where.HEADER
    if f"{{{key}}}" in verb.path or (parameter is not None and parameter.parts):
        return Where.PATH
    if key in in_body:
        return Where.BODY
    if verb.body is not None and parameter is None:
        return Where.WHOLE
    if parameter is None:
        raise TypeError(f"{verb.name}: parameter {name} has no description; give it a type of doors.parameters")
    return Where.QUERY


def _parameter_of(hint: Any) -> Parameter | None:
    """The `Parameter` that a type is annotated with, if any."""
    return next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Parameter)), None)


_SORTS: Mapping[Any, Sort] = {
    str: Sort.TEXT,
    int: Sort.COUNT,
    bool: Sort.FLAG,
    timedelta: Sort.SPAN,
    datetime: Sort.TIME,
    Revision: Sort.AFTER,
}


def _sort(hint: Any) -> Sort:
    kind = _bare(hint)
    if (origin := get_origin(kind)) in (list, Collection, Sequence, Iterable):
        return Sort.TEXTS if get_args(kind)[0] is str else Sort.LIST
    return Sort.OBJECT if origin is Mapping else _SORTS.get(kind, Sort.ANY)


def _bare(hint: Any) -> Any:
    """A type without its annotations, and without None."""
    if get_origin(hint) is Annotated:
        return _bare(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        kinds = [each for each in get_args(hint) if each is not NoneType]
        return _bare(kinds[0]) if len(kinds) == 1 else object
    return hint


@cache
def by_rpc() -> Mapping[str, Verb]:
    """The verbs that can be asked over gRPC, by service and method."""
    return {each.rpc: each for each in VERBS.values() if each.rpc}
