import json
from datetime import UTC, datetime, timedelta

import pytest

from rota.jobs.core.records import BOUND, OVER, Cause, JobSpec, Mode, RunRecord, RunState, job_of, order_for, run_id
from rota.model import codec
from rota.model.errors import Invalid
from rota.model.ids import Revision

DUE = datetime(2026, 3, 1, 2, 30, tzinfo=UTC)
RUN = RunRecord(id=run_id("report", DUE), job="report", due=DUE, cause=Cause.SCHEDULE, created=DUE)


def test_a_run_comes_back_as_it_was_and_leaves_out_what_it_does_not_say() -> None:
    data = codec.encode(RUN)
    assert codec.decode(RunRecord, data) == RUN
    assert set(json.loads(data)) == {"v", "id", "job", "due", "cause", "created"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b'{"v":2,"id":"a"}', "version 2, this Rota knows 1; upgrade this node", id="newer"),
        pytest.param(b'{"v":1,"id":7}', "broken runrecord record", id="a field of the wrong type"),
        pytest.param(b'{"id":"a"}', "no runrecord record", id="no version"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        codec.decode(RunRecord, data)


def test_ids_of_a_job_sort_by_due_time() -> None:
    times = [DUE + timedelta(milliseconds=step) for step in (0, 1, 999, 1000, 60_000, 86_400_000)]
    ids = [run_id("report", due) for due in times]
    assert ids == sorted(ids)
    assert ids[0] == "report/20260301T023000.000Z"
    assert job_of(ids[0]) == "report"


def test_a_state_is_pending_bound_or_over() -> None:
    assert {RunState.PENDING} | BOUND | OVER == set(RunState)
    assert not BOUND & OVER


def test_the_epoch_is_the_revision_that_bound_it() -> None:
    assert RUN.epoch_at(Revision(7)) == 7
    later = RunRecord(id="a/b", job="a", due=DUE, cause=Cause.MANUAL, created=DUE, epoch=7)
    assert later.epoch_at(Revision(9)) == 7


def test_a_command_is_ordered_as_a_process_of_its_own() -> None:
    told = order_for(RUN, JobSpec(name="report", argv=("true",)), Revision(5))
    assert (told.mode, told.argv, told.epoch, told.due) == (Mode.PROCESS, ("true",), 5, DUE)
