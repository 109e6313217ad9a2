"""The stage: an app in virtual time."""

import asyncio
import logging
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest

import rota
from rota import Invalid, Message, Record, Reply
from rota.kit.time.virtual import Deadlock
from rota.testing import Stage, StillRunning, Stuck


@pytest.fixture
def app():
    return rota.App("shop")


@pytest.fixture
def ticker(app):
    """Says a number every ten seconds."""

    @app.resource(silent_after="30s")
    async def ticker(task):
        for count in range(task.saved.get("count", 0), 1000):
            await task.emit({"count": count}, key=count)
            await task.save({"count": count + 1})
            await asyncio.sleep(10)

    return ticker


@pytest.fixture
def plain(app):
    """The same, not async."""

    @app.resource
    def plain(task):
        count = task.saved.get("count", 0)
        while not task.stopping:
            task.emit(f"{count}")
            count += 1
            task.save({"count": count})
            task.stopping.wait("10s")

    return plain


# Tasks.


@pytest.mark.parametrize("kind", ["ticker", "plain"])
def test_time_passes_only_when_told(app, request, kind):
    kind = request.getfixturevalue(kind)
    with Stage(app) as stage:
        task = stage.start(kind("1"))
        assert len(stage.sink.messages) == 1
        stage.advance("9s")
        assert len(stage.sink.messages) == 1
        stage.advance("1s")
        assert len(stage.sink.messages) == 2
        stage.advance(timedelta(hours=1))
        assert len(stage.sink.messages) == 362
        assert task.is_running
        task.stop()
        assert not task.is_running
        stage.advance("1h")
        assert len(stage.sink.messages) == 362


@pytest.mark.parametrize("kind", ["ticker", "plain"])
def test_the_next_task_finds_what_the_last_one_saved(app, request, kind):
    kind = request.getfixturevalue(kind)
    with Stage(app) as stage:
        first = stage.start(kind("1"))
        stage.advance("25s")
        first.stop()
        assert first.saved == {"count": 3}
        second = stage.start(kind("1"))
        assert second.saved == {"count": 4}
        assert second.epoch > first.epoch
        assert stage.start(kind("1"), slot=1).saved == {"count": 1}
        assert stage.start(kind("2")).saved == {"count": 1}


def test_replicas_are_heard_once(app, ticker):
    with Stage(app) as stage:
        for slot in range(3):
            stage.start(ticker("1"), slot=slot)
        stage.start(ticker("2"))
        stage.advance("10s")
        assert len(stage.sink.emitted) == 8
        assert stage.sink.json() == [{"count": 0}, {"count": 0}, {"count": 1}, {"count": 1}]


def test_the_same_again_after_the_window_is_news(app):
    @app.resource
    async def same(task):
        while True:
            await task.emit("same")
            await asyncio.sleep(20)

    with Stage(app) as stage:
        stage.start(same("1"))
        stage.advance("60s")
        assert len(stage.sink.emitted) == 4
        assert stage.sink.messages == [Message("same"), Message("same")]
        stage.sink.clear()
        assert stage.sink.payloads == []


def test_a_task_is_handed_what_a_fleet_hands_it(app):
    seen = []

    @app.resource
    async def room(task):
        seen.append((task.id, task.resource, task.slot, task.spec, bool(task.stopping)))

    with Stage(app) as stage:
        task = stage.start(room("7", depth=3), slot=2)
        assert not task.is_running
    assert seen == [("room/7/2", "7", 2, {"depth": 3, "id": "7"}, False)]


def test_a_silent_task_is_noticed(app):
    @app.resource(silent_after="30s")
    async def room(task):
        await asyncio.sleep(40)
        task.alive()
        await asyncio.Event().wait()

    with Stage(app) as stage:
        task = stage.start(room("1"))
        stage.advance("29s")
        assert not task.is_silent
        stage.advance("2s")
        assert task.is_silent
        stage.advance("10s")
        assert not task.is_silent


@pytest.mark.parametrize("is_async", [True, False])
def test_an_error_comes_out_where_it_happened(app, is_async):
    def fails_here():
        raise ValueError("mine")

    if is_async:

        @app.resource
        async def room(task):
            await asyncio.sleep(5)
            fails_here()
    else:

        @app.resource
        def room(task):
            task.stopping.wait(5)
            fails_here()

    with Stage(app) as stage:
        task = stage.start(room("1"))
        stage.advance("4s")
        with pytest.raises(ValueError, match="mine") as failed:
            stage.advance("4s")
        assert failed.traceback[-1].name == "fails_here"
        assert failed.value.__notes__ == ["in task room/1/0, 0:00:05 into the test"]
        assert not task.is_running
        stage.advance("1h")


def test_an_error_at_the_start_comes_out_at_the_start(app):
    @app.resource
    async def room(task):
        raise ValueError("mine")

    with Stage(app) as stage, pytest.raises(ValueError, match="mine"):
        stage.start(room("1"))


def test_an_error_while_stopping_comes_out_at_the_end(app):
    @app.resource
    async def room(task):
        try:
            await asyncio.sleep(1000)
        finally:
            raise ValueError("mine")

    def body():
        with Stage(app) as stage:
            stage.start(room("1"))

    with pytest.raises(ValueError, match="mine"):
        body()


def test_several_errors_come_out_together(app):
    @app.resource
    async def room(task):
        try:
            await asyncio.sleep(1000)
        finally:
            raise ValueError(task.resource)

    def body():
        with Stage(app) as stage:
            stage.start(room("1"))
            stage.start(room("2"))

    with pytest.raises(BaseExceptionGroup) as failed:
        body()
    assert sorted(str(error) for error in failed.value.exceptions) == ["1", "2"]


def test_an_error_of_the_test_is_not_hidden_by_others(app):
    @app.resource
    async def room(task):
        try:
            await asyncio.sleep(1000)
        finally:
            raise ValueError("mine")

    def body():
        with Stage(app) as stage:
            stage.start(room("1"))
            raise KeyError("the test's")

    with pytest.raises(KeyError):
        body()


def test_who_does_not_stop_is_told_so(app):
    @app.resource
    async def stubborn(task):
        while True:
            try:
                await asyncio.sleep(3)
            except asyncio.CancelledError:
                if task.saved:
                    raise
                await task.save({"asked": True})

    with Stage(app, drain="5s") as stage:
        task = stage.start(stubborn("1"))
        with pytest.raises(StillRunning, match="went on for 5 s; let CancelledError pass"):
            task.stop()


def test_a_plain_task_that_does_not_look_is_killed(app):
    @app.resource
    def deaf(task):
        while True:
            task.emit("on and on")
            task.stopping.wait("1s") and task._call(asyncio.sleep(1))

    threads = threading.active_count()
    with Stage(app, drain="5s") as stage:
        task = stage.start(deaf("1"))
        with pytest.raises(StillRunning, match=r"went on for 5 s; look at task\.stopping now and then"):
            task.stop()
        assert not task.is_running
    assert threading.active_count() == threads


def test_a_plain_task_that_really_sleeps_is_told(app):
    let_go = threading.Event()

    @app.resource
    def sleeper(task):
        let_go.wait(60)

    with Stage(app, patience=0.05) as stage, pytest.raises(Stuck, match=r"wait with stopping\.wait"):
        stage.start(sleeper("1"))
    let_go.set()


def test_an_async_task_cannot_block_the_loop_by_waiting(app):
    @app.resource
    async def room(task):
        task.stopping.wait(5)

    with Stage(app) as stage, pytest.raises(Invalid, match=r"use asyncio\.sleep"):
        stage.start(room("1"))


def test_a_resource_of_another_app_is_not_known(app, ticker):
    other = rota.App("other")
    other.resource(name="tickers")(ticker.function)
    with Stage(other) as stage, pytest.raises(Invalid, match='it has no resource "ticker"; did you mean "tickers"'):
        stage.start(ticker("1"))


# Sources.


def test_a_source_is_asked(app, ticker):
    @ticker.source(every="30m")
    async def tickers():
        await asyncio.sleep(5)
        yield ticker("1", priority=1)
        yield "2"

    with Stage(app) as stage:
        assert stage.query(ticker) == [ticker("1", priority=1), ticker("2")]
        assert stage.now == datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)


def test_a_source_that_takes_too_long(app, ticker):
    @ticker.source(timeout="10s")
    async def tickers():
        await asyncio.sleep(11)
        return []

    with Stage(app) as stage, pytest.raises(TimeoutError, match="not done within 0:00:10"):
        stage.query(ticker)


def test_no_source(app, ticker):
    with Stage(app) as stage, pytest.raises(Invalid, match=r"declare one with @ticker\.source"):
        stage.query(ticker)


# Jobs.


@pytest.mark.parametrize("is_async", [True, False])
def test_a_job_runs_to_its_end(app, capsys, is_async):
    if is_async:

        @app.job
        async def report(run):
            await asyncio.sleep(60)
            print("to", run.due)  # noqa: T201
            print("and err", file=sys.stderr)  # noqa: T201
            run.log.warning("logged %s", run.attempt)
    else:

        @app.job
        def report(run):
            run.stopping.wait("1m")
            print("to", run.due)  # noqa: T201
            print("and err", file=sys.stderr)  # noqa: T201
            run.log.warning("logged %s", run.attempt)

    with Stage(app) as stage:
        outcome = stage.run(report, due="2026-03-01T03:00").check()
    assert (outcome.job, outcome.state, outcome.attempts, outcome.error) == ("report", "succeeded", 1, None)
    assert outcome.due == datetime(2026, 3, 1, 3, tzinfo=UTC)
    assert outcome.output == "to 2026-03-01 03:00:00+00:00\nand err\nWARNING logged 1\n"
    assert outcome.took == timedelta(minutes=1)
    assert capsys.readouterr().out == ""


def test_what_else_prints_is_not_the_runs(app, capsys):
    @app.resource
    async def room(task):
        await asyncio.sleep(5)
        print("from the room")  # noqa: T201

    @app.job
    async def report(run):
        await asyncio.sleep(10)
        print("from the run")  # noqa: T201

    with Stage(app) as stage:
        stage.start(room("1"))
        assert stage.run("report").output == "from the run\n"
    assert capsys.readouterr().out == "from the room\n"


def test_a_runs_log_reaches_the_tests_own_handlers(app, caplog):
    @app.job
    def report(run):
        run.log.info("hello")

    caplog.set_level(logging.INFO)
    with Stage(app) as stage:
        stage.run(report)
    assert caplog.messages == ["hello"]


def test_a_failed_run_has_its_traceback(app):
    @app.job
    def report(run):
        raise ValueError("mine")

    with Stage(app) as stage:
        outcome = stage.run(report)
    assert outcome.state == "failed"
    assert "in report\n" in outcome.output
    assert "ValueError: mine" in outcome.output
    with pytest.raises(ValueError, match="mine") as failed:
        outcome.check()
    assert failed.traceback[-1].name == "report"


def test_retries(app):
    tokens = []

    @app.job(retries=3)
    def flaky(run):
        tokens.append(run.token)
        if run.attempt < 3:
            raise ValueError("not yet")

    with Stage(app) as stage:
        outcome = stage.run(flaky)
    assert (outcome.state, outcome.attempts) == ("succeeded", 3)
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("is_async", [True, False])
def test_a_run_that_takes_too_long(app, is_async):
    if is_async:

        @app.job(timeout="1h")
        async def slow(run):
            await asyncio.sleep(7200)
    else:

        @app.job(timeout="1h")
        def slow(run):
            run.stopping.wait("2h")

    with Stage(app) as stage:
        outcome = stage.run(slow)
        assert (outcome.state, outcome.took) == ("timed out", timedelta(hours=1))
        with pytest.raises(TimeoutError):
            outcome.check()


def test_an_exit_is_a_failure(app):
    @app.job
    def leave(run):
        sys.exit(3)

    with Stage(app) as stage:
        assert stage.run(leave).state == "failed"


def test_a_run_that_waits_for_ever_is_told(app):
    @app.job
    async def forlorn(run):
        await asyncio.Event().wait()

    with Stage(app) as stage:
        outcome = stage.run(forlorn)
        assert isinstance(outcome.error, Deadlock)
        stage.advance("1s")


@pytest.mark.parametrize(
    ("argv", "options", "state", "output"),
    [
        (["echo", "done"], {}, "succeeded", "done\n"),
        (["sh", "-c", "echo $COLOR >&2"], {"env": {"COLOR": "red"}}, "succeeded", "red\n"),
        (["sh", "-c", "echo no; exit 3"], {}, "failed", "no\n"),
        (["no-such-program-here"], {}, "failed", ""),
        (["sh", "-c", "echo slow; exec sleep 60"], {"timeout": "200ms"}, "timed out", "slow\n"),
    ],
)
def test_a_command_really_runs(app, argv, options, state, output):
    command = app.command("it", argv, **options)
    with Stage(app) as stage:
        outcome = stage.run(command)
    assert (outcome.state, outcome.output) == (state, output)


def test_an_unknown_job(app):
    app.command("report", ["true"])
    with Stage(app) as stage, pytest.raises(Invalid, match='it has no job "reprot"; did you mean "report"'):
        stage.run("reprot")


# Due times.


def test_what_is_due_and_when(app):
    for name, options in {
        "daily": {"cron": "0 3 * * *", "tz": "Asia/Shanghai"},
        "often": {"every": "8h"},
        "by-hand": {},
    }.items():
        app.job(name=name, **options)(lambda run: None)
    with Stage(app) as stage:
        found = [(f"{when:%d %H:%M}", name) for when, name in stage.due("2026-01-01", "2026-01-02")]
        assert found == [("01 00:00", "often"), ("01 08:00", "often"), ("01 16:00", "often"), ("01 19:00", "daily")]
        assert stage.due("2026-01-01T00:01", "2026-01-01T08:00") == []


def test_what_is_due_runs_when_it_is_due(app, ticker):
    times = []

    @app.job(every="6h")
    def work(run):
        times.append((f"{run.due:%H:%M}", f"{stage.now:%H:%M}"))

    with Stage(app) as stage:
        stage.start(ticker("1"))
        outcomes = stage.fire("2026-01-01T01:00", "2026-01-01T13:00")
        assert len(stage.sink.messages) > 1000 - 1
    assert [outcome.state for outcome in outcomes] == ["succeeded", "succeeded"]
    assert times == [("06:00", "06:00"), ("12:00", "12:00")]


def test_what_comes_after_runs_after_all_it_waits_for(app):
    order = []

    def job(name, fails=False, **options):
        def work(run):
            order.append(name)
            if fails:
                raise ValueError("no")

        app.job(name=name, **options)(work)

    job("a", cron="0 1 * * *")
    job("b", cron="0 2 * * *")
    job("both", after=["a", "b"])
    job("then", after="both")
    job("broken", fails=True, cron="0 3 * * *")
    job("never", after="broken")
    with Stage(app) as stage:
        stage.fire("2026-01-01", "2026-01-03")
    assert order == ["a", "b", "both", "then", "broken"] * 2


@pytest.mark.parametrize("moment", ["tomorrow", "2026-13-01", ""])
def test_a_bad_date(app, moment):
    with Stage(app) as stage, pytest.raises(Invalid, match="write one like 2026-01-01"):
        stage.due(moment, "2026-01-02")


# Services.


def test_a_request_goes_through_hooks_and_handler(app):
    logic = app.service("logic", port=9900, groups={3: 1})
    story = []
    logic.start_worker(lambda: story.append("start"))
    logic.before_request(lambda request: story.append(f"before {request.cmd} in group {request.group}"))
    logic.stop_worker(lambda: story.append("stop"))

    @logic.on(101)
    async def login(request):
        await asyncio.sleep(1)
        return {"ret": 0, "body": {"sn": request.sn, "host": request.client.host, "got": request.json()}}

    with Stage(app) as stage:
        assert stage.request(logic, 101, {"a": 1}, sn=9) == Reply(b'{"sn":9,"host":"127.0.0.1","got":{"a":1}}')
        assert stage.request(logic, 999) == Reply(ret=-10000)
        assert stage.errors == []
    assert story == ["start", "before 101 in group 3", "stop"]


def test_an_error_of_a_handler_is_a_code_and_kept(app, caplog):
    logic = app.service("logic", port=9900)

    @logic.on(1)
    def broken(request):
        raise ValueError("mine")

    with Stage(app) as stage:
        assert stage.request(logic, 1) == Reply(ret=-10001)
        (error,) = stage.errors
        assert str(error) == "mine"
        assert error.__notes__ == ['in service "logic": cmd 1']
    assert "ValueError: mine" in caplog.text


def test_a_handlers_deadline_is_in_virtual_time(app):
    logic = app.service("logic", port=9900)

    @logic.on(1, timeout="2s")
    async def slow(request):
        await asyncio.sleep(3)
        return b""

    with Stage(app) as stage:
        assert stage.request(logic, 1) == Reply(ret=-10005)


def test_silence_is_none(app):
    logic = app.service("logic", port=9900)
    logic.on(1)(lambda request: None)
    with Stage(app) as stage:
        assert stage.request(logic, 1) is None


# Streams.


class Columns:
    """Like a pyarrow.RecordBatch."""

    def to_pylist(self):
        return [{"n": 1}]


def gen(batch):
    for record in batch:
        yield record.value


async def agen(batch):
    for record in batch:
        yield record.value


async def coro(batch):
    return [record.value for record in batch]


@pytest.mark.parametrize(
    ("function", "rows"),
    [
        (gen, [b"a", b'{"b":1}']),
        (agen, [b"a", b'{"b":1}']),
        (coro, [b"a", b'{"b":1}']),
        (lambda batch: None, []),
        (lambda batch: Columns(), [{"n": 1}]),
    ],
)
def test_a_stream_makes_rows(app, function, rows):
    clicks = app.stream(name="clicks", source="log:///a", sink="memory://")(function)
    with Stage(app) as stage:
        assert stage.feed(clicks, ["a", {"b": 1}]) == rows


def test_offsets_go_on_from_batch_to_batch(app):
    batches = []
    clicks = app.stream(name="clicks", source="log:///a", sink="memory://")(batches.append)
    with Stage(app) as stage:
        stage.feed(clicks, ["a", "b"])
        stage.feed(clicks, ["c"])
        stage.feed(clicks, ["d"], partition=1)
        stage.feed(clicks, [Record(partition=0, offset=90, value=b"e")])
    assert [[record.offset for record in batch] for batch in batches] == [[0, 1], [2], [0], [90]]
    assert [batch.offsets for batch in batches] == [{0: 2}, {0: 3}, {1: 1}, {0: 91}]


def test_an_error_of_a_stream_comes_out(app):
    def broken(batch):
        raise ValueError("mine")

    clicks = app.stream(name="clicks", source="log:///a", sink="memory://")(broken)
    with Stage(app) as stage, pytest.raises(ValueError, match="mine"):
        stage.feed(clicks, ["a"])


# The stage itself.


def test_hooks_for_every_worker_run_first(app):
    story = []

    @app.on_worker_start
    async def connect():
        await asyncio.sleep(1)
        story.append("connected")

    with Stage(app):
        assert story == ["connected"]


def test_a_hook_that_fails_stops_the_stage(app):
    @app.on_worker_start
    def connect():
        raise ValueError("no database")

    with pytest.raises(ValueError, match="no database"), Stage(app):
        pass


def test_an_app_that_makes_no_sense_gets_no_stage(app):
    app.job(name="a", after="b")(lambda run: None)
    with pytest.raises(Invalid, match='after names "b"'):
        Stage(app)


async def test_inside_a_loop_it_says_what_to_do(app):
    with pytest.raises(Invalid, match="write the test with def, not async def"), Stage(app):
        pass


def test_the_date_on_the_stage(app):
    with Stage(app, at="2026-06-01T12:00+02:00") as stage:
        assert stage.now == datetime(2026, 6, 1, 10, tzinfo=UTC)
        stage.advance("1h")
        assert stage.now == datetime(2026, 6, 1, 11, tzinfo=UTC)


def test_a_year_passes_quickly_and_leaves_nothing(app, ticker):
    threads = threading.active_count()
    with Stage(app) as stage:
        stage.start(ticker("1"))
        stage.advance("365d")
        assert len(stage.sink.messages) == 1000
    assert threading.active_count() == threads
