"""Declarations in stores of the version before, as that wrote them: read as they were meant, and written the same.

What is written the same, a node of that version reads while it runs beside one of this version.
"""

import json
from datetime import UTC, datetime, timedelta

import pytest

from rota.model import codec
from rota.model.job import JobRecord, JobSpec, Mode, OnLost, Origin

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
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


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
    assert json.loads(codec.encode(record)) == json.loads(stored)
