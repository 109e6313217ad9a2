"""What a user may declare, and what is said about what they may not."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.jobs.core.records import Mode, OnLost
from rota.jobs.core.spec import read_function, read_job, read_program
from rota.kit.record import replace
from rota.model import codec
from rota.model.errors import Invalid
from rota.resources.core.spec import Resource, read_kind, read_source
from rota.services.core.admin_spec import AdminSpec
from rota.services.core.spec import read_handler, read_service
from rota.streams.core.records import StreamRecord
from rota.streams.core.spec import StreamSpec, backfill, declared, spec_of

BAD_NAMES = ["", "a b", "-a", ".a", "ä", "a/b", "x" * 64, "a:b", "a\n", "_a"]
GOOD_NAMES = ["a", "A9", "daily_report", "a.b-c", "x" * 63, "0"]


def resource(is_async=True, **options):
    return read_kind({"name": "room", **options}, is_async=is_async)


def service(**options):
    return read_service({"name": "logic", "port": 9900, **options})


def job(**options):
    return read_function({"name": "report", **options})


def command(**options):
    return read_program({"name": "backup", "argv": ["pg_dump"], **options})


def stream(**options):
    urls = {"source": "kafka://localhost:9092/clicks", "sink": "parquet:///data"}
    return StreamSpec.parse(**{"name": "clicks", "is_async": False, **urls, **options})


TWO_GROUPS = service(groups={1: 8, 2: 2})


def handler(service=TWO_GROUPS, cmd=101, **options):
    return read_handler(service, cmd, options, is_async=False)


def source(**options):
    return read_source("room", options, is_async=True)


def one(**options):
    return Resource.parse(**{"kind": "room", "id": "1", "spec": {}, **options})


MAKERS = [resource, service, job, command, stream]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("name", GOOD_NAMES)
def test_a_good_name(make, name):
    assert make(name=name).name == name


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name(make, name):
    with pytest.raises(Invalid, match="use letters, digits"):
        make(name=name)


@pytest.mark.parametrize("make", MAKERS)
def test_a_name_is_a_str(make):
    with pytest.raises(Invalid, match="the name is 3; it must be a str"):
        make(name=3)


@pytest.mark.parametrize(
    ("make", "options", "field", "value"),
    [
        (resource, {}, "replicas", 1),
        (resource, {"replicas": 3}, "replicas", 3),
        (resource, {}, "silent_after", timedelta(seconds=30)),
        (resource, {"silent_after": "1m30s"}, "silent_after", timedelta(seconds=90)),
        (resource, {"silent_after": timedelta(seconds=5)}, "silent_after", timedelta(seconds=5)),
        (resource, {}, "runs_alone", False),
        (resource, {"exclusive": True}, "runs_alone", True),
        (resource, {"is_async": False}, "runs_alone", True),
        (resource, {}, "sink", None),
        (resource, {"sink": "amqp://user:secret@host/vhost"}, "sink", "amqp://user:secret@host/vhost"),
        (resource, {"sink": "stdout://"}, "sink", "stdout://"),
        (resource, {"labels": {"zone": "a"}}, "labels", {"zone": "a"}),
        (source, {}, "every", timedelta(minutes=30)),
        (source, {"every": "1s"}, "every", timedelta(seconds=1)),
        (one, {}, "priority", 0),
        (one, {"priority": -3}, "priority", -3),
        (one, {"replicas": 2}, "replicas", 2),
        (one, {"spec": {"at": timedelta(seconds=1)}}, "spec", {"at": "PT1S"}),
        (service, {}, "hosts", ("127.0.0.1",)),
        (service, {"host": ["127.0.0.1", "::1"]}, "hosts", ("127.0.0.1", "::1")),
        (service, {"port": 0}, "port", 0),
        (service, {"port": 65535}, "port", 65535),
        (service, {}, "groups", {1: 1}),
        (service, {"groups": {1: 8, 2: 2}}, "groups", {1: 8, 2: 2}),
        (service, {"tcp": False, "udp": True}, "udp", True),
        (service, {"timeout": "2s"}, "timeout", timedelta(seconds=2)),
        (service, {}, "admin", None),
        (service, {"admin": "admin.sock"}, "admin", AdminSpec(address="admin.sock")),
        (service, {"admin": "/run/shop/admin.sock"}, "admin", AdminSpec(address="/run/shop/admin.sock")),
        (service, {"admin": ("127.0.0.1", 9901)}, "admin", AdminSpec(address=("127.0.0.1", 9901))),
        (service, {"admin": "tcp://[::1]:9901"}, "admin", AdminSpec(address=("::1", 9901))),
        (service, {"admin": "tcp://localhost:9901"}, "admin", AdminSpec(address=("localhost", 9901))),
        (
            service,
            {"admin": ("0.0.0.0", 9901), "admin_username": "ann", "admin_password": "env:PASSWORD"},
            "admin",
            AdminSpec(address=("0.0.0.0", 9901), username="ann", password="env:PASSWORD"),
        ),
        (handler, {"group": 2}, "group", 2),
        (handler, {"group": 1, "cmd": -5}, "cmd", -5),
        (handler, {"service": service(groups={7: 1})}, "group", 7),
        (handler, {"group": 1, "timeout": "2s"}, "timeout", timedelta(seconds=2)),
        (job, {}, "is_timed", False),
        (job, {"cron": "0 3 * * *"}, "is_timed", True),
        (job, {"every": "1d"}, "is_timed", True),
        (job, {"after": "a"}, "is_timed", False),
        (job, {}, "mode", Mode.WARM),
        (job, {"process": True}, "mode", Mode.PROCESS),
        (job, {"on_lost": "fail"}, "on_lost", OnLost.FAIL),
        (job, {"cron": "@daily"}, "cron", "0 0 * * *"),
        (job, {"cron": "  0  3 * *  MON-FRI "}, "cron", "0 3 * * MON-FRI"),
        (job, {"cron": "0 3 * * *", "tz": "Asia/Shanghai"}, "tz", "Asia/Shanghai"),
        (job, {}, "tz", "UTC"),
        (job, {"cron": "* * * * *", "misfire": "all(5)"}, "misfire", "all(5)"),
        (job, {"cron": "* * * * *"}, "misfire", "once"),
        (job, {"every": "1h", "jitter": "5m"}, "jitter", timedelta(minutes=5)),
        (job, {}, "concurrency", 1),
        (job, {"concurrency": None}, "concurrency", None),
        (job, {"retries": 0}, "retries", 0),
        (job, {"after": ["a", "b"]}, "after", ("a", "b")),
        (command, {"argv": ("a", "")}, "argv", ("a", "")),
        (command, {}, "mode", Mode.PROCESS),
        (command, {"env": {"A": "b"}}, "env", {"A": "b"}),
        (command, {"cwd": "here"}, "cwd", "here"),
        (command, {"every": "1d"}, "every", timedelta(days=1)),
        (stream, {}, "duration", timedelta(hours=1)),
        (stream, {"source": "log:///path"}, "source", "log:///path"),
        (stream, {"sink": "postgresql://h/db"}, "sink", "postgresql://h/db"),
        (
            stream,
            {"source": "kafka://ann@h/t?password_file=a&key=b.pem"},
            "source",
            "kafka://ann@h/t?password_file=a&key=b.pem",
        ),
        (stream, {"start": "earliest"}, "start", "earliest"),
        (stream, {"start": "2026-01-31T12:00+00:00"}, "start", "2026-01-31T12:00:00+00:00"),
        (stream, {"start": datetime(2026, 1, 31, tzinfo=UTC)}, "start", "2026-01-31T00:00:00+00:00"),
        (stream, {"upto": "latest"}, "upto", "latest"),
        (stream, {"tasks": 2, "replicas": 2}, "tasks", 2),
        (stream, {"checkpoint_every": "10m"}, "checkpoint_every", timedelta(minutes=10)),
        (stream, {"late_start": "2026-01-31T12:00+00:00"}, "late_start", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (stream, {"max_errors": 0}, "max_errors", 0),
        (stream, {}, "idle_after", None),
    ],
)
def test_what_is_right(make, options, field, value):
    assert getattr(make(**options), field) == value


@pytest.mark.parametrize(
    ("make", "options", "says"),
    [
        (resource, {"replicas": 0}, 'resource "room": replicas is 0; it must be 1 or more'),
        (resource, {"replicas": -1}, 'resource "room": replicas is -1; it must be 1 or more'),
        (resource, {"replicas": "2"}, 'resource "room": replicas is "2"; it must be a whole number'),
        (resource, {"replicas": 2.0}, 'resource "room": replicas is 2.0; it must be a whole number'),
        (resource, {"replicas": True}, 'resource "room": replicas is True; it must be a whole number'),
        (resource, {"exclusive": 1}, 'resource "room": exclusive is 1; it must be True or False'),
        (
            resource,
            {"exclusive": True, "replicas": 2},
            'resource "room": it is exclusive, and replicas is 2; an exclusive resource has one task: choose one',
        ),
        (
            resource,
            {"silent_after": "30"},
            'resource "room": silent_after: "30" is not a duration; '
            "write a number and a unit, like 30s, 1h30m or 250ms",
        ),
        (
            resource,
            {"silent_after": 30},
            'resource "room": silent_after is 30; write a duration like "30s", or a timedelta',
        ),
        (resource, {"silent_after": "1ms"}, 'resource "room": silent_after is 1ms; it must be 1s or more'),
        (
            resource,
            {"silent_after": timedelta(seconds=-1)},
            'resource "room": silent_after is -1 day, 23:59:59; it must be 1s or more',
        ),
        (
            resource,
            {"sink": "ampq://u:secret@h"},
            'resource "room": sink ampq://… has an unknown scheme; use amqp://, amqps://, kafka://, file://, '
            'stdout:// or memory://; did you mean "amqp"?',
        ),
        (resource, {"sink": "stdout"}, 'resource "room": sink "stdout" is not a URL; write one like amqp://…'),
        (resource, {"sink": "u:secret@host"}, 'resource "room": sink "…@host" is not a URL; write one like'),
        (
            resource,
            {"sink": "amqp://h?exchange"},
            'resource "room": sink amqp://…: "?exchange" is not a list of options',
        ),
        (resource, {"sink": 3}, 'resource "room": sink is 3; it must be a URL, like amqp://…'),
        (resource, {"labels": ["a"]}, 'resource "room": labels is [\'a\']; write a dict, like {"zone": "a"}'),
        (resource, {"labels": {"a": 1}}, 'resource "room": labels has "a": 1; both must be str'),
        (resource, {"name": "<lambda>"}, 'resource "<lambda>": this function has no name of its own; give one with'),
        (source, {"every": "0s"}, 'source of resource "room": every is 0s; it must be 1s or more'),
        (source, {"timeout": "0s"}, 'source of resource "room": timeout is 0s; it must be longer than nothing'),
        (one, {"id": ""}, "room \"\": the id is ''; it must be a str that is not empty"),
        (one, {"id": 3}, 'room "3": the id is 3; it must be a str that is not empty'),
        (one, {"id": "a/b"}, 'room "a/b": an id has at most 200 bytes, all printable, and no "/"; choose another'),
        (one, {"id": "a\nb"}, "an id has at most 200 bytes"),
        (one, {"id": "x" * 201}, "an id has at most 200 bytes"),
        (one, {"priority": "high"}, "room \"1\": priority is 'high'; it must be a whole number"),
        (one, {"replicas": 0}, 'room "1": replicas is 0; it must be 1 or more'),
        (one, {"spec": {"f": object()}}, 'room "1": its fields must be plain data that JSON can hold'),
        (service, {"port": 65536}, 'service "logic": port is 65536; it must be from 0 to 65535'),
        (service, {"port": -1}, 'service "logic": port is -1; it must be from 0 to 65535'),
        (service, {"port": "9900"}, 'service "logic": port is "9900"; it must be a whole number'),
        (service, {"groups": {1: 0}}, 'service "logic": groups[1] is 0; it must be 1 or more'),
        (service, {"groups": {1: "8"}}, 'service "logic": groups[1] is "8"; it must be a whole number'),
        (service, {"groups": {"1": 8}}, "service \"logic\": groups has the group '1'; groups are whole numbers"),
        (service, {"groups": {True: 8}}, 'service "logic": groups has the group True; groups are whole numbers'),
        (service, {"groups": {}}, 'service "logic": groups is {}; write how many workers each group has, like {1: 8'),
        (service, {"groups": 8}, 'service "logic": groups is 8; write how many workers each group has, like {1: 8'),
        (service, {"tcp": False}, 'service "logic": it listens to neither tcp nor udp; switch one on'),
        (service, {"host": []}, 'service "logic": host is empty; write an address, like 127.0.0.1'),
        (service, {"host": ""}, 'service "logic": host is ""; it must be a str that is not empty'),
        (service, {"concurrency": 0}, 'service "logic": concurrency is 0; it must be 1 or more'),
        (service, {"queue": 0}, 'service "logic": queue is 0; it must be 1 or more'),
        (service, {"max_frame": 23}, 'service "logic": max_frame is 23; it must be from 24 to 268435421'),
        (service, {"timeout": "soon"}, 'service "logic": timeout: "soon" is not a duration'),
        (service, {"admin": 9901}, 'service "logic": admin is 9901; write a path like "admin.sock", or ("127.0.0.1"'),
        (service, {"admin": ""}, 'service "logic": admin is ""; write a path like "admin.sock", or tcp://127.0.0.1'),
        (service, {"admin": "a\0b"}, 'write a path like "admin.sock", or tcp://127.0.0.1:9901'),
        (service, {"admin": "udp://h:1"}, 'service "logic": admin is "udp://h:1"; write a path like "admin.sock"'),
        (service, {"admin": "../admin.sock"}, 'admin is "../admin.sock"; write a path within the data folder, or an'),
        (service, {"admin": "tcp://127.0.0.1"}, 'service "logic": admin: "127.0.0.1" is not an address; write host:'),
        (service, {"admin": ("127.0.0.1", 0)}, 'service "logic": admin is 0; it must be from 1 to 65535'),
        (service, {"admin": "tcp://127.0.0.1:0"}, 'service "logic": admin is 0; it must be from 1 to 65535'),
        (service, {"admin": ("127.0.0.1", 9900)}, "admin is tcp://127.0.0.1:9900, where its clients are served"),
        (service, {"admin": ("0.0.0.0", 9901)}, "admin is tcp://0.0.0.0:9901, which other machines may reach, without"),
        (service, {"admin": "tcp://[::]:9901"}, "admin is tcp://[::]:9901, which other machines may reach, without a"),
        (
            service,
            {"admin": ("shop.test", 9901)},
            "which other machines may reach, without a password; add admin_passwo",
        ),
        (service, {"admin_password": "x"}, 'admin_password is given, but no admin door; add admin="admin.sock", or'),
        (service, {"admin": "a", "admin_username": "ann"}, "admin_username is given without admin_password; add it"),
        (service, {"admin": "a", "admin_password": 5}, "admin_password is no text; write it out, or where it is:"),
        (service, {"admin": "a", "admin_password": ""}, "admin_password is no text; write it out, or where it is:"),
        (service, {"admin": "a", "admin_password": "env:"}, 'admin_password is "env:"; write what follows, like "env:'),
        (handler, {}, 'service "logic": cmd 101: there are several groups; say which with group=, one of 1, 2'),
        (handler, {"group": 3}, 'service "logic": cmd 101: group is 3; the service has 1, 2: choose one, or add it'),
        (handler, {"group": "1"}, "service \"logic\": cmd 101: group is '1'; the service has 1, 2"),
        (handler, {"cmd": "101"}, 'service "logic": cmd is "101"; it must be a whole number'),
        (handler, {"cmd": 1 << 31}, 'service "logic": cmd is 2147483648; it must be from -2147483648 to 2147483647'),
        (handler, {"group": 1, "timeout": 2}, 'service "logic": cmd 101: timeout is 2; write a duration like "30s"'),
        (handler, {"group": 1, "idempotent": "yes"}, 'service "logic": cmd 101: idempotent is "yes"; it must be True'),
        (job, {"cron": "61 * * * *"}, 'job "report": cron "61 * * * *" has minute 61; minutes are 0-59'),
        (job, {"cron": 5}, 'job "report": cron is 5; write an expression like "0 3 * * *"'),
        (job, {"cron": "* * * * *", "every": "1s"}, 'job "report": both cron= and every= given; choose one'),
        (job, {"cron": "* * * * *", "after": "a"}, 'job "report": both cron= and after= given; choose one'),
        (job, {"every": "1s", "after": "a"}, 'job "report": both every= and after= given; choose one'),
        (job, {"every": "999ms"}, 'job "report": every is 999ms; it must be 1s or more'),
        (job, {"every": "1h", "jitter": "1h"}, 'job "report": jitter is 1:00:00, and it is due every 1:00:00; make'),
        (job, {"jitter": "1s"}, 'job "report": jitter= without cron= or every=; it has no due times: leave it out'),
        (job, {"misfire": "skip"}, 'job "report": misfire= without cron= or every=; it has no due times: leave it out'),
        (job, {"every": "1h", "tz": "UTC"}, 'job "report": tz= without cron=; a time zone only matters to a cron'),
        (job, {"every": "1h", "misfire": "always"}, "job \"report\": misfire is 'always'; choose skip, once, all, or"),
        (job, {"every": "1h", "misfire": "all(0)"}, 'job "report": misfire is "all(0)"; write skip'),
        (job, {"every": "1h", "misfire": 3}, 'job "report": misfire is 3; choose skip, once, all, or all with a limit'),
        (
            job,
            {"cron": "* * * * *", "tz": "Europe/Berln"},
            'job "report": tz is "Europe/Berln"; write the name of a time zone, like Europe/Berlin; '
            'did you mean "Europe/Berlin"?',
        ),
        (job, {"cron": "* * * * *", "tz": "../etc"}, 'job "report": tz is "../etc"; write the name of a time zone'),
        (job, {"cron": "* * * * *", "tz": "Europe"}, 'job "report": tz is "Europe"; write the name of a time zone'),
        (job, {"cron": "* * * * *", "tz": ""}, 'job "report": tz is ""; write the name of a time zone'),
        (job, {"cron": "* * * * *", "tz": 8}, 'job "report": tz is 8; write the name of a time zone'),
        (job, {"retries": -1}, 'job "report": retries is -1; it must be 0 or more'),
        (job, {"concurrency": 0}, 'job "report": concurrency is 0; it must be 1 or more'),
        (job, {"on_lost": "restart"}, 'job "report": on_lost is "restart"; choose retry or fail'),
        (job, {"argv": ["a"]}, 'job "report": there is no option argv=; there are after, concurrency, cron, every,'),
        (command, {"process": True}, 'command "backup": there is no option process=; there are after, argv, conc'),
        (job, {"timeout": "0s"}, 'job "report": timeout is 0s; it must be longer than nothing'),
        (job, {"after": "report"}, 'job "report": it comes after itself; name another job'),
        (job, {"after": []}, 'job "report": after is empty; name a job, or leave it out'),
        (job, {"after": ["a", "a"]}, 'job "report": after names "a" twice; once is enough'),
        (job, {"after": 3}, 'job "report": after has 3; write names, or the decorated functions themselves'),
        (
            command,
            {"argv": "pg_dump shop"},
            "command \"backup\": argv is a str; write a list of words: ['pg_dump', 'shop']",
        ),
        (
            command,
            {"argv": None},
            'command "backup": argv is None; write the program and its arguments, like ["pg_dump"',
        ),
        (command, {"argv": []}, 'command "backup": argv is []; write the program and its arguments, like ["pg_dump"'),
        (command, {"argv": [""]}, 'command "backup": the first word of argv is empty; it must be the program'),
        (command, {"argv": ["a", 3]}, 'command "backup": argv has 3; every word must be a str'),
        (command, {"cron": "x"}, 'command "backup": cron "x" has 1 fields; write five'),
        (command, {"env": {"A": 1}}, 'command "backup": env has "A": 1; both must be str'),
        (command, {"cwd": ""}, 'command "backup": cwd is ""; it must be a str that is not empty'),
        (stream, {"tasks": 0}, 'stream "clicks": tasks is 0; it must be 1 or more'),
        (stream, {"replicas": 0}, 'stream "clicks": replicas is 0; it must be 1 or more'),
        (stream, {"max_errors": -1}, 'stream "clicks": max_errors is -1; it must be 0 or more'),
        (stream, {"at_a_time": 0}, 'stream "clicks": at_a_time is 0; it must be 1 or more'),
        (stream, {"late_start": "soon"}, 'stream "clicks": late_start is "soon"; write a time like "2026-'),
        (stream, {"late_start": 3}, 'stream "clicks": late_start is 3; write a time like "2026-'),
        (stream, {"late_start": "2026-01-31T12:00"}, "which is not the same everywhere; add its zone"),
        (
            stream,
            {"late": "1h", "late_start": "2026-01-31T12:00+00:00"},
            'stream "clicks": late and late_start both say what is too old; give one of them',
        ),
        (stream, {"duration": "1"}, 'stream "clicks": duration: "1" is not a duration'),
        (stream, {"source": "parquet:///x"}, 'stream "clicks": source parquet://… has an unknown scheme; use'),
        (stream, {"source": None}, 'stream "clicks": source is None; it must be a URL, like kafka://…'),
        (stream, {"sink": "parket:///x"}, 'did you mean "parquet"?'),
        (stream, {"sink": "postgresql://ann@h/db?password=x"}, "say where the password is: password_file=PATH or"),
        (
            stream,
            {"source": "kafka://ann@h/clicks?consumer.sasl.password=pssst"},
            'stream "clicks": source kafka://… has consumer.sasl.password= in it, and is shown to all who may look; le',
        ),
        (
            stream,
            {"start": "earlist"},
            'stream "clicks": start is "earlist"; choose earliest or latest; did you mean "earliest"?',
        ),
        (stream, {"start": "2026-01-31T12:00"}, "which is not the same everywhere; add its zone"),
        (stream, {"upto": "earliest"}, 'stream "clicks": upto is "earliest"; choose latest'),
        (stream, {"tasks": 3, "tasks_most": 2}, "tasks_most is 2, and tasks is 3; give as many or more"),
        (stream, {"scale_in_lag": 7, "scale_out_lag": 7}, "scale_in_lag must be less than scale_out_lag"),
        (stream, {"vanished": "skip"}, 'stream "clicks": vanished is "skip"; choose halt, earliest or latest'),
    ],
)
def test_what_is_wrong_is_told_by_name_with_the_next_move(make, options, says):
    with pytest.raises(Invalid) as told:
        make(**options)
    assert says in str(told.value)


def test_a_secret_is_never_shown():
    for maker, option in [(resource, "sink"), (stream, "source"), (stream, "sink")]:
        with pytest.raises(Invalid) as told:
            maker(**{option: "htp://user:secret@host"})
        assert "secret" not in str(told.value)
    assert "secret" not in repr(service(admin="admin.sock", admin_password="secret"))


def test_a_streams_digest_is_of_where_it_reads_and_goes_and_of_nothing_else():
    one = stream(duration="1h", replicas=1)
    assert stream(duration="2h", replicas=2, tasks=3).digest == one.digest
    assert stream(source="log:///elsewhere").digest != one.digest
    assert stream(sink="parquet:///elsewhere").digest != one.digest


def test_a_streams_declaration_comes_back_from_the_store_as_it_was():
    spec = stream(late_start="2026-01-31T12:00+00:00", checkpoint_every="10m", labels={"disk": "ssd"})
    record = codec.decode(StreamRecord, codec.encode(declared("shop", spec)))
    assert spec_of(record) == spec
    with pytest.raises(Invalid, match="its declaration is not understood"):
        spec_of(replace(record, spec={"name": 1}))


def test_a_stream_that_fills_a_gap_reads_its_ranges_and_takes_what_is_late():
    spec = StreamSpec.parse(
        name="s", source="log:///a", sink="parquet:///b", late="1h", early="1h", idle_after="5m", is_async=False
    )
    filling = backfill(spec, "s~1", {0: (5, 9)})
    assert (filling.name, filling.late, filling.early, filling.idle_after) == ("s~1", None, None, None)
    assert (filling.digest, filling.ends_as, spec.ends_as) == (spec.digest, "ranges", "")
    assert spec_of(declared("shop", filling)) == filling
    record = codec.decode(StreamRecord, codec.encode(declared("shop", filling)))
    assert spec_of(record) == filling


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"argv": ["a"]}, "a job needs a name; name is missing"),
        ({"name": "a"}, 'job "a": outside of apps a job runs a program, so give argv, like ["pg_dump", "shop"]'),
        ({"name": "a", "cwd": "/"}, 'job "a": outside of apps a job runs a program, so give argv, like ["pg_dump"'),
        ({"name": "a", "argv": ["b"], "retry": 3}, 'job "a": there is no field "retry"; did you mean "retries"?'),
        ({"name": "a", "argv": ["b"], "process": True}, 'job "a": there is no field "process"; there are name, cron, '),
        ({"name": "a", "argv": "b c"}, "job \"a\": argv is a str; write a list of words: ['b', 'c']"),
        ({"name": "a", "argv": ["b"], "every": "1"}, 'job "a": every: "1" is not a duration; write a number and'),
        ({"name": "a b", "argv": ["b"]}, 'job "a b": use letters, digits, ".", "_" and "-" in a name, at most 63, '),
        ({"name": "<a>", "argv": ["b"]}, 'job "<a>": use letters, digits, ".", "_" and "-" in a name, at most 63, '),
    ],
)
def test_a_job_of_a_file_or_a_caller_is_refused_in_the_same_words(fields, says):
    with pytest.raises(Invalid) as told:
        read_job(fields)
    assert str(told.value).startswith(says)


def test_a_field_that_is_none_counts_as_left_out():
    given = {"name": "a", "argv": ["b"]}
    nothing = dict.fromkeys(("cron", "tz", "after", "retries", "on_lost", "concurrency", "labels", "cwd"))
    assert read_job({**given, **nothing}) == read_job(given)
