"""What holds runs and jobs back, in words: each thing by itself."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from rota.jobs.core.due import BACKLOG
from rota.jobs.core.records import Cause, JobRecord, JobSpec, JobSuccess, Origin, Outcome, RunRecord, RunState, Try
from rota.jobs.core.why import NOTHING, JobSeen, why_job, why_run
from rota.kit.record import replace
from rota.model.ids import NodeId, Revision

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
LATER = NOW + timedelta(seconds=30)
RUN = RunRecord(id="report/1", job="report", due=NOW, cause=Cause.MANUAL, created=NOW)
JOB = JobRecord(spec=JobSpec(name="report"), origin=Origin.API, since=NOW, at=NOW)
FAILED = Outcome(state=RunState.FAILED, started=NOW, seconds=1.0, error="no luck")


def changed(run: RunRecord = RUN, **changes: object) -> RunRecord:
    return msgspec.structs.replace(run, **changes)


@pytest.mark.parametrize(
    ("run", "waiting", "says", "reasons"),
    [
        pytest.param(RUN, None, NOTHING, (), id="nothing"),
        pytest.param(RUN, "2 of it run already", "it waits", ("2 of it run already",), id="a limit"),
        pytest.param(
            changed(cause=Cause.SCHEDULE, not_before=LATER),
            "not asked",
            "it waits",
            ("its jitter holds it back until 2026-11-18 12:00:30 UTC",),
            id="jitter",
        ),
        pytest.param(
            changed(
                attempt=2,
                not_before=LATER,
                earlier=(Try(attempt=1, epoch=1, node=NodeId("a"), ended=NOW, outcome=FAILED),),
            ),
            None,
            "it waits",
            ("attempt 2 is held back after no luck until 2026-11-18 12:00:30 UTC",),
            id="back-off",
        ),
        pytest.param(changed(stop="by me"), None, "it waits", ("it is to be interrupted: by me",), id="stopping"),
        pytest.param(
            changed(state=RunState.RUNNING, node=NodeId("a")), None, "it is running on a, attempt 1", (), id="it runs"
        ),
        pytest.param(
            changed(state=RunState.FAILED, outcome=FAILED),
            None,
            "it is over: failed",
            ("its error: no luck",),
            id="over",
        ),
    ],
)
def test_what_holds_a_run_back(run: RunRecord, waiting: str | None, says: str, reasons: tuple[str, ...]) -> None:
    held = why_run(run, JOB, NOW, waiting)
    assert (held.says, held.reasons) == (says, reasons)


def test_a_run_whose_job_is_gone_says_so_and_one_behind_others_how_many() -> None:
    assert why_run(RUN, None, NOW, None).reasons == ("its job is gone",)
    assert why_run(RUN, JOB, NOW, "its limit", 3).reasons == ("its limit", "3 runs of its job were due before it")


SEEN = JobSeen(
    record=JOB, created=Revision(5), cursor=None, successes={}, bound=1, pending=2, backlog=0, refused=""
)  # fmt: skip


def spec(**changes: object) -> JobRecord:
    return replace(JOB, spec=replace(JOB.spec, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "begins"),
    [
        pytest.param(SEEN, ["it has no schedule"], id="no schedule"),
        pytest.param(replace(SEEN, record=replace(JOB, enabled=False)), ["it is disabled"], id="disabled"),
        pytest.param(
            replace(
                SEEN,
                record=spec(after=("first", "second")),
                successes={"first": (Revision(6), JobSuccess(run="r", at=NOW))},
            ),
            ["it comes after second, which"],
            id="after another",
        ),
        pytest.param(
            replace(SEEN, record=spec(every=timedelta(minutes=1)), backlog=BACKLOG),
            ["10 runs of its schedule wait"],
            id="backlog",
        ),
        pytest.param(
            replace(SEEN, record=replace(spec(every=timedelta(minutes=1)), since=NOW - timedelta(hours=1))),
            ["its due times since 2026-11-18 11:00:00"],
            id="late",
        ),
        pytest.param(
            replace(SEEN, record=spec(every=timedelta(minutes=1)), refused="no node can run it"),
            ["a run of it gets no node now: no node can run it"],
            id="no node",
        ),
    ],
)
def test_what_holds_a_job_back(seen: JobSeen, begins: list[str]) -> None:
    held = why_job(seen, NOW)
    assert held.says.startswith("1 runs have a node, 2 wait")
    assert len(held.reasons) == len(begins)
    assert all(reason.startswith(begin) for reason, begin in zip(held.reasons, begins, strict=True))
