"""Declaring: what is stored, what stays the user's function, and what is refused at import."""

import functools
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec
import pytest

import rota
from rota import Batch, Invalid, Request, Resource, Run, SyncTask, Task
from rota.jobs.core.spec import FUNCTION

if TYPE_CHECKING:
    from nowhere import Missing

OF_JOBS = ", ".join(sorted(option.name for option in FUNCTION))
"""The options of a job, as they are listed."""


@dataclass
class RoomSpec:
    id: int
    url: str
    depth: int = 1


class Struct(msgspec.Struct):
    url: str


class Typed(TypedDict):
    url: str


@pytest.fixture
def app():
    return rota.App("shop")


def told(function, *args, **kwargs):
    with pytest.raises(Invalid) as refused:
        function(*args, **kwargs)
    return str(refused.value)


# The app itself.


@pytest.mark.parametrize("name", ["", "a b", "-a", "x" * 64, 3])
def test_an_app_has_a_good_name(name):
    assert told(rota.App, name).startswith(f'app "{name}": ')


def test_how_workers_are_made():
    assert rota.App("a").start == "fork"
    assert rota.App("a", start="spawn").start == "spawn"
    assert told(rota.App, "a", start="thread") == 'app "a": start is "thread"; choose fork or spawn'


def test_hooks_for_every_worker(app):
    @app.on_worker_start
    def connect(): ...

    assert app.worker_start_hooks == [connect]
    assert "it must take no argument: def <lambda>()" in told(app.on_worker_start, lambda worker: None)


# Plain calls.


def test_a_declared_function_still_runs(app):
    @app.job(every="1h")
    def report(run):
        """Doc."""
        return run

    @app.stream(source="log:///a", sink="memory://")
    def clicks(batch):
        return [batch]

    assert report("x") == "x"
    assert clicks("b") == ["b"]
    assert (report.__name__, report.__doc__, report.__wrapped__) == ("report", "Doc.", report.function)
    assert app.jobs == {"report": report}
    assert app.streams == {"clicks": clicks}


async def test_a_resource_called_with_a_task_runs_and_with_an_id_makes_a_resource(app):
    @app.resource
    async def room(task):
        return task

    anything = object()
    assert await room(anything) is anything
    assert room("1", priority=3, replicas=2, labels={"a": "b"}, depth=2) == Resource(
        kind="room", id="1", priority=3, replicas=2, labels={"a": "b"}, spec={"depth": 2}
    )


def test_decorators_work_with_and_without_parentheses(app):
    @app.job
    def one(run): ...

    @app.job()
    def two(run): ...

    @app.resource
    async def three(task): ...

    @app.resource(name="four")
    def other(task): ...

    assert list(app.jobs) == ["one", "two"]
    assert list(app.resources) == ["three", "four"]
    assert not app.jobs["one"].spec.is_timed
    assert (three.is_async, other.is_async) == (True, False)


def test_what_looks_async_is_async(app):
    class Callable:
        async def __call__(self, run): ...

    async def function(run, extra=None): ...

    assert app.job(name="a")(Callable()).is_async
    assert app.job(name="b")(functools.partial(function, extra=1)).is_async
    assert not app.job(name="c")(functools.partial(lambda run, extra: None, extra=1)).is_async


# Specs of resources.


@pytest.mark.parametrize(
    ("type_", "fields", "spec"),
    [
        (RoomSpec, {"url": "u"}, RoomSpec(7, "u")),
        (RoomSpec, {"url": "u", "depth": 2}, RoomSpec(7, "u", 2)),
        (Struct, {"url": "u"}, Struct("u")),
        (Typed, {"url": "u"}, {"url": "u"}),
        (dict[str, Any], {"a": 1}, {"a": 1, "id": "7"}),
        (dict[str, str], {"a": "b"}, {"a": "b", "id": "7"}),
        (Any, {"a": 1}, {"a": 1, "id": "7"}),
    ],
)
def test_a_spec_is_what_the_annotation_says(app, type_, fields, spec):
    async def room(task: Task[type_]): ...

    kind = app.resource(room)
    assert kind.decode(fields, "7") == spec
    assert kind("7", **fields).spec == fields


@pytest.mark.parametrize("annotation", [None, Task, SyncTask, Any])
def test_without_a_type_a_spec_is_a_dict(app, annotation):
    def room(task): ...

    if annotation is not None:
        room.__annotations__["task"] = annotation
    assert app.resource(room).decode({"a": 1}, "7") == {"a": 1, "id": "7"}


def test_annotations_may_be_text(app):
    async def room(task: "Task[RoomSpec]") -> "Missing": ...

    assert app.resource(room).decode({"url": "u"}, "7") == RoomSpec(7, "u")


@pytest.fixture
def room(app):
    @app.resource
    async def room(task: Task[RoomSpec]): ...

    return room


@pytest.mark.parametrize(
    ("fields", "id", "says"),
    [
        ({}, "7", 'room "7": field "url" is missing; add it'),
        ({"url": 3}, "7", 'room "7": field "url": expected str, got int'),
        ({"url": "u", "depth": "x"}, "7", 'room "7": field "depth": expected int, got str'),
        ({"url": "u"}, "lobby", 'room "lobby": field "id": expected a whole number, got "lobby"'),
        ({"url": "u"}, None, 'resource "room": field "id" is missing; add it'),
    ],
)
def test_a_wrong_field_is_named(room, fields, id, says):
    assert told(room.decode, fields, id) == says


def test_an_unknown_field_is_refused_where_it_is_written_and_passed_over_where_it_is_stored(room):
    assert told(room, "7", ur="u") == 'room "7": RoomSpec has no field "ur"; did you mean "url"?'
    assert told(room, "7", zzz=1) == 'room "7": RoomSpec has no field "zzz"; there are id, url, depth'
    assert room.decode({"url": "u", "gone": 1}, "7") == RoomSpec(7, "u")


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        (Run, "its argument is a Run; it is given a Task: annotate it so"),
        (int, "its argument is a int; it is given a Task: annotate it so"),
        (Task[int], "Task[int]: a spec has fields; use a dataclass, a msgspec.Struct, a TypedDict or a dict"),
        (Task[list[int]], "Task[list]: a spec has fields; use a dataclass"),
        (SyncTask[RoomSpec], "it is async, and takes a SyncTask; write Task, or make it a plain def"),
        ("Task[Missing]", "the type of its argument cannot be found: name 'Missing' is not defined; import it at run"),
        ("Task[", "the type of its argument is not understood"),
    ],
)
def test_what_a_resource_cannot_take(app, annotation, says):
    async def room(task): ...

    room.__annotations__["task"] = annotation
    assert says in told(app.resource, room)


# Signatures.


def no_argument(): ...
def two_arguments(one, two): ...
def keyword_only(*, task): ...
def needs_keyword(task, *, other): ...
def generator(task):
    yield


async def async_generator(task):
    yield


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (
            no_argument,
            'resource "no_argument": its function takes (); it must take one argument: def no_argument(task)',
        ),
        (two_arguments, "its function takes (one, two); it must take one argument: def two_arguments(task)"),
        (keyword_only, "its function takes (*, task); it must take one argument"),
        (needs_keyword, "its function takes (task, *, other); it must take one argument"),
        (generator, "its function is a generator, which would never be iterated; remove the yield"),
        (async_generator, "its function is a generator, which would never be iterated; remove the yield"),
        (3, 'resource "int": it decorates 3; decorate a function'),
        (RoomSpec, 'resource "RoomSpec": it decorates the class RoomSpec; decorate a function'),
        (lambda task: None, 'resource "<lambda>": this function has no name of its own; give one with name="…"'),
    ],
)
def test_what_cannot_be_a_resource_function(app, function, says):
    assert says in told(app.resource, function)
    assert app.resources == {}


def test_arguments_with_defaults_are_nobodys_business(app):
    @app.job
    def report(run, dry=False): ...

    @app.job
    def flexible(*args, **kwargs): ...

    assert set(app.jobs) == {"report", "flexible"}


@pytest.mark.parametrize(
    ("kind", "annotation", "says"),
    [
        ("job", Task, 'job "work": its argument is a Task; it is given a Run: annotate it so'),
        ("stream", Run, 'stream "work": its argument is a Run; it is given a Batch: annotate it so'),
        ("on", Batch, 'service "logic": cmd 1: its argument is a Batch; it is given a Request: annotate it so'),
    ],
)
def test_one_of_our_other_things_is_refused(app, kind, annotation, says):
    def work(it): ...

    work.__annotations__["it"] = annotation
    decorate = {
        "job": app.job,
        "stream": app.stream(source="log:///a", sink="memory://"),
        "on": app.service("logic", port=1).on(1),
    }[kind]
    assert told(decorate, work) == says


def test_jobs_take_one_argument(app):
    assert "it must take one argument: def no_argument(run)" in told(app.job, no_argument)


# Options.


@pytest.mark.parametrize(
    ("declare", "says"),
    [
        (
            lambda app: app.resource(replcas=2)(two_arguments),
            'resource "two_arguments": there is no option replcas=; did you mean "replicas"?',
        ),
        (
            lambda app: app.job(crn="* * * * *", name="x")(no_argument),
            'job "x": there is no option crn=; did you mean "cron"?',
        ),
        (
            lambda app: app.job(zzz=1)(no_argument),
            f'job "no_argument": there is no option zzz=; there are {OF_JOBS}',
        ),
        (lambda app: app.stream(sink="memory://")(no_argument), 'stream "no_argument": source= is missing; add it'),
        (lambda app: app.service("logic"), 'service "logic": port= is missing; add it'),
        (lambda app: app.service("logic", prt=1), 'service "logic": there is no option prt=; did you mean "port"?'),
        (
            lambda app: app.command("b", ["a"], evry="1d"),
            'command "b": there is no option evry=; did you mean "every"?',
        ),
        (
            lambda app: app.service("logic", port=1).on(1, grup=1)(no_argument),
            'handler "no_argument": there is no option grup=; did you mean "group"?',
        ),
        (
            lambda app: app.resource(lambda task: None, replcas=1),
            'resource "<lambda>": there is no option replcas=; did you mean "replicas"?',
        ),
    ],
)
def test_a_mistyped_option_is_told(app, declare, says):
    assert told(declare, app) == says


def test_an_option_of_another_kind_is_refused(app):
    told_of = told(lambda app: app.service("logic", port=1, argv=[]), app)
    assert told_of.startswith('service "logic": there is no option argv=; there are admin, ')


@pytest.mark.parametrize(
    ("declare", "says"),
    [
        (lambda app: app.resource(replicas=0, name="room"), 'resource "room": replicas is 0; it must be 1 or more'),
        (
            lambda app: app.job(cron="61 * * * *", name="report"),
            'job "report": cron "61 * * * *" has minute 61; minutes are 0-59',
        ),
        (
            lambda app: app.job(cron="* * * * *", every="1s", name="x"),
            'job "x": both cron= and every= given; choose one',
        ),
        (
            lambda app: app.stream(source="kafka://h/t", sink="amqp://h", name="s"),
            'stream "s": sink amqp://… has an unknown scheme; use parquet://',
        ),
    ],
)
def test_a_wrong_value_stops_the_import(app, declare, says):
    assert says in told(declare(app), lambda it: None)


# Names.


def test_a_name_is_given_once_per_kind(app):
    def work(it): ...

    app.resource(work)
    app.job(work)
    assert told(app.resource, work) == 'resource "work": there is one of that name already; give one of them another'
    says = 'job "work": there is a job or command of that name already; give one of them another'
    assert told(app.job, work) == says
    assert "command" in told(app.command, "work", ["true"])
    app.command("other", ["true"])
    assert told(app.job(name="other"), work).startswith('job "other": there is a job or command of that name already')


def test_a_port_is_given_once(app):
    app.service("one", port=9900)
    app.service("two", port=9900, host="10.0.0.1")
    app.service("three", port=9900, tcp=False, udp=True)
    app.service("four", port=0)
    app.service("five", port=0)
    assert told(app.service, "six", port=9900) == 'service "six": port 9900 is that of service "one"; choose another'
    assert "six" not in app.services


def test_an_admin_door_is_that_of_one_service(app):
    app.service("one", port=9900, admin="admin.sock")
    app.service("two", port=9901, admin=("127.0.0.1", 9902))
    for options, taken in [
        ({"port": 1, "admin": "admin.sock"}, 'admin admin.sock is that of service "one"; choose another'),
        ({"port": 1, "admin": "tcp://127.0.0.1:9902"}, 'admin tcp://127.0.0.1:9902 is that of service "two"; choose'),
        ({"port": 1, "admin": "tcp://127.0.0.1:9900"}, 'admin tcp://127.0.0.1:9900 is that of service "one"; choose'),
        ({"port": 9902}, 'port 9902 is that of service "two"; choose another'),
    ]:
        assert taken in told(app.service, "three", **options)
        assert "three" not in app.services


# What refers to others.


def test_after_may_name_what_comes_later(app):
    @app.job(after="second")
    def first(run): ...

    assert told(app.check) == 'job "first": after names "second", which is no job of this app; there are first'

    @app.job(after=app.command("third", ["true"]))
    def second(run): ...

    app.check()
    assert second.spec.after == ("third",)


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ({"a": ["b"], "b": ["a"]}, 'job "a": after goes in a circle: a after b after a; break it'),
        ({"a": [], "b": ["c"], "c": ["d"], "d": ["b"]}, 'job "b": after goes in a circle: b after c after d after b'),
        ({"report": [], "x": ["reprot"]}, 'did you mean "report"?'),
    ],
)
def test_after_makes_sense(app, after, says):
    for name, others in after.items():
        app.job(name=name, after=others or None)(lambda run: None)
    assert says in told(app.check)
    assert says in told(app.summary)


def test_a_diamond_is_no_circle(app):
    for name, others in {"a": None, "b": ["a"], "c": ["a"], "d": ["b", "c"]}.items():
        app.job(name=name, after=others)(lambda run: None)
    app.check()


# Sources.


def test_a_source(app, room):
    @room.source(every="5m")
    async def rooms():
        yield room("1", url="u")

    assert room.own_source.function is rooms
    assert (room.own_source.spec.every, room.own_source.is_async) == (timedelta(minutes=5), True)
    assert "it has rooms already, and now again; keep one" in told(room.source(), named("again"))


def named(name):
    def function(): ...

    function.__name__ = name
    return function


def test_a_source_takes_nothing(room):
    assert "it must take no argument: def <lambda>()" in told(room.source(), lambda task: [])
    assert told(room.source(evry="1s"), no_argument).startswith('source of resource "no_argument": there is no option')


def test_what_a_source_may_list(app, room):
    @app.resource
    async def other(task): ...

    @app.resource
    async def plain(task): ...

    assert plain.listed("1") == plain("1")
    assert room.listed(room("1", url="u")).spec == {"url": "u"}
    assert told(room.listed, other("1")) == (
        'source of resource "room": it lists a resource of kind "other"; list room(…), or ids as str'
    )
    assert "it lists 3; list room(…), or ids as str" in told(room.listed, 3)


# Services.


@pytest.fixture
def logic(app):
    return app.service("logic", port=9900, groups={1: 8, 2: 2})


def test_handlers_are_looked_up_by_cmd(app, logic):
    @logic.on(101, group=1, timeout="2s")
    @logic.on(102, group=2)
    def login(request: Request): ...

    assert app.services["logic"].handlers[101].function is login
    assert logic.handlers[101].spec.timeout == timedelta(seconds=2)
    assert logic.handlers[102].spec.group == 2


def test_one_cmd_has_one_handler(logic):
    logic.on(101, group=1)(named_handler("login"))
    assert told(logic.on(101, group=2), named_handler("logout")) == (
        'service "logic": cmd 101 is handled by login and by logout; give one of them another number'
    )


def named_handler(name):
    def function(request): ...

    function.__name__ = name
    return function


def test_routes_split_a_service(logic):
    routes = rota.Routes()
    own = routes.before_request(named_handler("own"))
    everyone = routes.before_service_request(named_handler("everyone"))

    @routes.on(201, group=2, idempotent=True)
    def chat(request): ...

    logic.include(routes)
    assert logic.handlers[201].function is chat
    assert logic.handlers[201].spec.idempotent
    assert logic.handlers[201].hooks.before_request == [own]
    assert logic.hooks.before_request == [everyone]


def test_routes_belong_to_one_service_and_are_whole_by_then(logic):
    routes = rota.Routes()
    logic.include(routes)
    assert told(logic.include, routes) == 'service "logic": service "logic" has these routes already; include them once'
    assert told(routes.on(1), named_handler("late")) == (
        'routes "late": service "logic" has these routes already; include them after the last handler'
    )
    assert "include takes rota.Routes" in told(logic.include, "routes")


def test_routes_are_checked_against_the_service_they_join(logic):
    logic.on(101, group=1)(named_handler("login"))
    for cmd, options, says in [
        (101, {"group": 1}, "cmd 101 is handled by login and by mine"),
        (5, {}, "cmd 5: there are several groups; say which with group=, one of 1, 2"),
        (5, {"group": 9}, "cmd 5: group is 9; the service has 1, 2"),
    ]:
        routes = rota.Routes()
        routes.on(cmd, **options)(named_handler("mine"))
        assert says in told(logic.include, routes)


@pytest.mark.parametrize(
    ("hook", "count"),
    [
        ("start_worker", 0),
        ("open_conn", 0),
        ("before_first_request", 1),
        ("before_request", 1),
        ("after_request", 2),
        ("before_response", 2),
        ("after_response", 2),
        ("close_conn", 0),
        ("stop_worker", 0),
    ],
)
def test_every_hook_is_checked_and_kept(logic, hook, count):
    good, bad = [lambda: 0, lambda a: 0, lambda a, b: 0][count], lambda a, b, c: 0
    assert getattr(logic, hook)(good) is good
    assert getattr(logic.hooks, hook) == [good]
    assert told(getattr(logic, hook), bad).startswith(f'service "logic": {hook} <lambda>: its function takes (a, b, c)')


@pytest.mark.parametrize("hook", ["before_response", "after_response"])
def test_hooks_around_a_response_are_not_async(logic, hook):
    async def late(request, reply): ...

    assert f'service "logic": {hook} late: it is async; write it with def' in told(getattr(logic, hook), late)


def test_a_stream_is_as_its_options_say():
    @rota.App("shop").stream(
        source="log:///a", sink="memory://", start="2026-01-31T12:00+00:00", upto="latest", tasks_most=3
    )
    def clicks(batch: Batch) -> None: ...

    assert (clicks.spec.start, clicks.spec.upto, clicks.spec.tasks_most) == ("2026-01-31T12:00:00+00:00", "latest", 3)
