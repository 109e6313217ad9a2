"""Declarations in stores of the version before, as that wrote them: read as they were meant, and written the same.

What is written the same, a node of that version reads while it runs beside one of this version; fields that it does not
know it leaves alone.
"""

import json
from datetime import UTC, datetime, timedelta

import pytest

import rota
from rota.jobs.core.records import JobRecord, JobSpec, Mode, OnLost, Origin
from rota.model import codec
from rota.resources.core.records import KindRecord
from rota.streams.core.records import StreamRecord
from rota.streams.core.spec import declared, spec_of

FUNCTION = (
    b'{"v":1,"spec":{"name":"report","cron":"0 3 * * *","every":null,"tz":"Asia/Shanghai","after":[],"misfire":"all(3)"'
    b',"jitter":"PT300S","timeout":"PT3600S","retries":2,"on_lost":"fail","concurrency":null,"labels":{"zone":"a"},"mod'
    b'e":"process","argv":[],"env":{},"cwd":null},"origin":"app","since":"2026-01-31T12:00:00Z","by":"n1","at":"2026-01'
    b'-31T12:00:00Z","enabled":true,"app":"shop"}'
)
BY_HAND = (
    b'{"v":1,"spec":{"name":"by_hand","cron":null,"every":null,"tz":"UTC","after":[],"misfire":"once","jitter":"P0D","t'
    b'imeout":null,"retries":0,"on_lost":"retry","concurrency":1,"labels":{},"mode":"warm","argv":[],"env":{},"cwd":nul'
    b'l},"origin":"app","since":"2026-01-31T12:00:00Z","by":"n1","at":"2026-01-31T12:00:00Z","enabled":true,"app":"shop'
    b'"}'
)
PROGRAM = (
    b'{"v":1,"spec":{"name":"backup","cron":null,"every":null,"tz":"UTC","after":["report"],"misfire":"once","jitter":"'
    b'P0D","timeout":null,"retries":0,"on_lost":"retry","concurrency":1,"labels":{},"mode":"process","argv":["pg_dump",'
    b'"shop"],"env":{"A":"b"},"cwd":"/srv"},"origin":"app","since":"2026-01-31T12:00:00Z","by":"n1","at":"2026-01-31T12'
    b':00:00Z","enabled":true,"app":"shop"}'
)
ROOM = (
    b'{"v":1,"name":"room","app":"shop","replicas":2,"exclusive":false,"runs_alone":false,"silent_after":"PT90S","start'
    b'_within":"PT30S","labels":{"zone":"a"},"source_every":"PT300S","source_timeout":"PT10S","schema":{"type":"object"'
    b'},"no_schema":"","affinity":{"apart":{"kind":"room"}}}'
)
PUMP = (
    b'{"v":1,"name":"pump","app":"shop","replicas":1,"exclusive":true,"runs_alone":true,"silent_after":"PT30S","start_w'
    b'ithin":"PT30S","labels":{},"source_every":null,"source_timeout":null,"schema":{"type":"object"},"no_schema":"","a'
    b'ffinity":{}}'
)
OF_A_STREAM = (
    b'{"v":1,"name":"stream:clicks","app":"shop","replicas":2,"exclusive":false,"runs_alone":true,"silent_after":"PT30S'
    b'","start_within":"PT30S","labels":{"disk":"ssd"},"source_every":null,"source_timeout":null,"schema":null,"no_sche'
    b'ma":"","affinity":{}}'
)
CLICKS = (
    b'{"v":1,"name":"clicks","app":"shop","digest":"e806cbae9ce5a54","spec":{"name":"clicks","source":"kafka://h/clicks'
    b'","sink":"parquet:///clicks","tasks":2,"replicas":2,"duration":"PT1800S","completion_timeout":"PT1800S","pause_ti'
    b'meout":"PT10S","batch_timeout":"PT300S","start":"latest","start_delay":"P0D","vanished":"halt","labels":{"disk":"'
    b'ssd"},"is_async":false,"checkpoint_rows":5000000,"checkpoint_bytes":268435456,"checkpoint_every":"PT600S","late":'
    b'null,"early":null,"late_start":"2026-01-31T12:00:00Z","max_errors":0,"idle_after":null,"at_a_time":null,"batch":2'
    b'000,"upto":null,"ranges":{},"tasks_most":4,"scale_out_lag":6000000,"scale_in_lag":1000000,"scale_over":"PT600S"}}'
)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def check_kept(before: bytes, now: bytes) -> None:
    """All that the version before wrote must be there as it was; other fields may be there, too."""
    old, new = json.loads(before), json.loads(now)
    spec = {**new["spec"], **old["spec"]} if "spec" in old else None
    assert {**new, **old, **({"spec": spec} if spec else {})} == new


@pytest.mark.parametrize(
    ("stored", "spec"),
    [
        pytest.param(
            FUNCTION,
            JobSpec(
                name="report",
                cron="0 3 * * *",
                tz="Asia/Shanghai",
                misfire="all(3)",
                jitter=timedelta(minutes=5),
                timeout=timedelta(hours=1),
                retries=2,
                on_lost=OnLost.FAIL,
                concurrency=None,
                labels={"zone": "a"},
                mode=Mode.PROCESS,
            ),
            id="a function",
        ),
        pytest.param(BY_HAND, JobSpec(name="by_hand"), id="with nothing said"),
        pytest.param(
            PROGRAM,
            JobSpec(
                name="backup",
                after=("report",),
                mode=Mode.PROCESS,
                argv=("pg_dump", "shop"),
                env={"A": "b"},
                cwd="/srv",
            ),
            id="a program",
        ),
    ],
)
def test_a_job_of_the_version_before_is_read_and_written_as_it_was(stored: bytes, spec: JobSpec) -> None:
    record = codec.decode(JobRecord, stored)
    assert record == JobRecord(spec=spec, origin=Origin.APP, since=NOON, at=NOON, by="n1", app="shop")
    check_kept(stored, codec.encode(record))


def shop() -> rota.App:
    """The app whose declarations the version before wrote."""
    app = rota.App("shop")

    @app.resource(
        replicas=2,
        sink="amqp://user:secret@h",
        labels={"zone": "a"},
        affinity={"apart": {"kind": "room"}},
        silent_after="1m30s",
    )
    async def room(task): ...

    @room.source(every="5m", timeout="10s")
    def rooms():
        return []

    @app.resource(exclusive=True)
    async def pump(task): ...

    @app.stream(
        source="kafka://h/clicks",
        sink="parquet:///clicks",
        tasks=2,
        replicas=2,
        duration="30m",
        checkpoint_every="10m",
        late_start="2026-01-31T12:00+00:00",
        labels={"disk": "ssd"},
        tasks_most=4,
        max_errors=0,
    )
    def clicks(batch): ...

    return app


def test_kinds_are_read_and_written_as_they_were() -> None:
    records = [kind.record("shop") for kind in shop().summary().kinds]
    assert [codec.decode(KindRecord, stored) for stored in (ROOM, PUMP, OF_A_STREAM)] == records
    for stored, record in zip((ROOM, PUMP, OF_A_STREAM), records, strict=True):
        check_kept(stored, codec.encode(record))


def test_streams_are_read_and_written_as_they_were() -> None:
    (spec,) = shop().summary().streams
    assert spec_of(codec.decode(StreamRecord, CLICKS)) == spec
    check_kept(CLICKS, codec.encode(declared("shop", spec)))
