"""An app in data."""

from datetime import timedelta

import pytest

import rota
from rota.model.errors import Invalid
from rota.sdk import summary


def everything():
    app = rota.App("shop", start="spawn")

    @app.resource(replicas=2, sink="amqp://h", labels={"zone": "a"})
    async def room(task): ...

    @room.source(every="5m", timeout="10s")
    def rooms():
        return []

    @app.resource(exclusive=True)
    async def pump(task): ...

    @app.resource
    def scraper(task): ...

    logic = app.service("logic", port=9900, groups={1: 8, 2: 2}, timeout="5s", udp=True, admin=("::1", 9901))

    @logic.on(101, group=1, timeout="2s")
    def login(request): ...

    @logic.on(102, group=2, idempotent=True)
    async def logout(request): ...

    @app.job(cron="0 3 * * *", tz="Asia/Shanghai", timeout="1h", retries=2, misfire="all(3)")
    def report(run): ...

    app.command("backup", ["pg_dump", "shop"], after=report, env={"A": "b"})

    @app.stream(source="kafka://h/clicks", sink="parquet:///clicks", tasks=2, replicas=2, duration="30m")
    def clicks(batch): ...

    return app


def test_a_summary_survives_the_way_to_the_agent():
    made = everything().summary()
    assert summary.decode(summary.encode(made)) == made


def test_an_empty_app_has_one_too():
    made = rota.App("empty").summary()
    assert made == summary.AppSummary(name="empty", start="fork")
    assert summary.decode(summary.encode(made)) == made


def test_it_says_who_needs_a_process_of_its_own():
    made = everything().summary()
    assert {each.name: each.runs_alone for each in made.resources} == {"room": False, "pump": True, "scraper": True}


def test_it_says_how_often_a_source_is_asked():
    room, pump, _ = everything().summary().resources
    assert (room.source_every, room.source_timeout) == (timedelta(minutes=5), timedelta(seconds=10))
    assert (pump.source_every, pump.source_timeout) == (None, None)


def test_a_service_has_its_handlers_and_the_limits_of_their_requests():
    (logic,) = everything().summary().services
    assert logic.groups == {1: 8, 2: 2}
    assert [(each.cmd, each.group, each.idempotent) for each in logic.handlers] == [(101, 1, False), (102, 2, True)]
    assert [logic.timeout_of(each) for each in logic.handlers] == [timedelta(seconds=2), timedelta(seconds=5)]
    assert logic.has_loop
    assert (logic.tcp, logic.udp, logic.hosts, logic.port) == (True, True, ("127.0.0.1",), 9900)


def test_jobs_commands_and_streams_are_their_specs():
    app = everything()
    made = app.summary()
    assert made.jobs == (app.jobs["report"].spec,)
    assert made.commands == (app.commands["backup"].spec,)
    assert made.commands[0].after == ("report",)
    assert made.streams == (app.streams["clicks"].spec,)


def test_a_stream_is_a_kind_that_runs_alone():
    made = everything().summary()
    assert made.kinds[:-1] == made.resources
    kind = made.kinds[-1]
    assert (kind.name, kind.replicas, kind.runs_alone, kind.exclusive) == ("stream:clicks", 2, True, False)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"name":1,"start":"fork"}'])
def test_what_is_no_summary(data):
    with pytest.raises(Invalid, match="no summary of an app"):
        summary.decode(data)
