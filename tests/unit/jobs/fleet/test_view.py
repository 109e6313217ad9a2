"""Every node's view of the jobs."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from rota.jobs.core.outcome import bind
from rota.jobs.core.records import Cause, JobCursor, JobRecord, JobSpec, Origin, RunRecord, run_id
from rota.jobs.fleet.view import JobsView
from rota.model import codec, keys
from rota.model.ids import NodeId, Revision, SessionId
from rota.store.port import Change, Entry

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def run(number: int = 0, **changes: object) -> RunRecord:
    due = NOW + number * SECOND
    made = RunRecord(id=run_id("a", due), job="a", due=due, cause=Cause.SCHEDULE, created=NOW)
    return replace(made, **changes)


def change(record: RunRecord | None, revision: int, id: str = "") -> Change:
    key = keys.live_run(record.id if record else id)
    if record is None:
        return Change(key, None)
    return Change(key, Entry(key, codec.encode(record), Revision(revision), Revision(revision)))


def folded(*changes: tuple[Change, int]) -> JobsView:
    view = JobsView()
    for each, revision in changes:
        view.fold((each,), Revision(revision))
    return view


def ready(view: JobsView, at: datetime = NOW, most: int = 9) -> list[str]:
    return [live.run.id for live in view.ready("a", at, most)]


def test_pending_runs_come_in_the_order_of_their_due_times_and_stay_until_they_go_on() -> None:
    view = folded((change(run(2), 1), 1), (change(run(0), 2), 2), (change(run(1), 3), 3))
    assert ready(view, most=2) == [run(0).id, run(1).id]
    assert ready(view) == [run(0).id, run(1).id, run(2).id], "looking takes nothing away"
    view.fold((change(None, 4, run(0).id),), Revision(4))
    assert ready(view) == [run(1).id, run(2).id]
    assert view.waiting["a"] == 2


def test_one_that_waits_for_its_moment_comes_then() -> None:
    view = folded((change(run(0, not_before=NOW + 5 * SECOND), 1), 1), (change(run(1), 2), 2))
    assert ready(view) == [run(1).id]
    assert view.next_ready("a") == NOW + 5 * SECOND
    assert ready(view, NOW + 5 * SECOND) == [run(0).id, run(1).id]


def test_only_runs_of_the_schedule_that_are_ready_are_its_backlog() -> None:
    waits = [run(0), run(1, not_before=NOW + 5 * SECOND), run(2, cause=Cause.MANUAL), run(3, cause=Cause.BACKFILL)]
    view = folded(*((change(each, number), number) for number, each in enumerate(waits, start=1)))
    assert view.waiting["a"] == 4
    assert view.backlog("a", NOW, 10) == 1
    assert view.backlog("a", NOW + 5 * SECOND, 10) == 2
    assert view.backlog("a", NOW + 5 * SECOND, 1) == 1
    view.fold((change(None, 9, run(0).id),), Revision(9))
    assert view.backlog("a", NOW, 10) == 0


def test_one_whose_moment_had_come_is_not_forgotten_if_the_clock_goes_back() -> None:
    view = folded((change(run(0, not_before=NOW + 5 * SECOND), 1), 1))
    assert ready(view, NOW + 6 * SECOND) == [run(0).id]
    assert ready(view, NOW + 4 * SECOND) == []
    assert view.next_ready("a") == NOW + 5 * SECOND
    assert ready(view, NOW + 5 * SECOND) == [run(0).id]


def test_one_by_a_clock_that_was_set_back_does_not_wait_behind_others() -> None:
    later = NOW + timedelta(hours=8)
    old = run(0, created=later, not_before=later + SECOND)
    view = folded((change(old, 1), 1), (change(run(1, not_before=NOW + 60 * SECOND), 2), 2))
    assert ready(view) == [old.id]
    view = folded((change(run(1, not_before=NOW + 60 * SECOND), 1), 1))
    assert ready(view) == []
    view.fold((change(old, 2),), Revision(2))
    assert ready(view, NOW + 10 * SECOND) == [old.id]


def test_bound_runs_are_counted_by_job_and_session() -> None:
    bound = bind(run(), NodeId("n"), SessionId("s"), NOW)
    view = folded((change(run(), 1), 1), (change(bound, 2), 2))
    assert (view.bound["a"], view.waiting["a"], ready(view)) == (1, 0, [])
    assert [live.epoch for live in view.owned(SessionId("s"))] == [2]
    view.fold((change(None, 3, bound.id),), Revision(3))
    assert (view.bound["a"], dict(view.at)) == (0, {})


def test_what_we_wrote_counts_at_once_and_older_words_about_it_do_not() -> None:
    view = folded((change(run(), 1), 1))
    bound = bind(run(), NodeId("n"), SessionId("s"), NOW)
    view.wrote(keys.live_run(run().id), bound, Revision(5))
    assert view.live[run().id].run == bound
    view.fold((change(run(0, why="older"), 3),), Revision(3))
    assert view.live[run().id].run == bound
    view.fold((change(bound, 5),), Revision(5))
    later = replace(bound, stop="enough")
    view.fold((change(later, 7),), Revision(7))
    assert view.live[run().id].run == later


def test_what_we_deleted_does_not_come_back() -> None:
    view = folded((change(run(), 1), 1))
    view.wrote(keys.live_run(run().id), None, Revision(5))
    view.fold((change(run(0, why="older"), 3),), Revision(3))
    assert view.live == {}
    view.fold((change(None, 5, run().id),), Revision(5))
    view.fold((change(run(0, why="again"), 6),), Revision(6))
    assert run().id in view.live


def test_jobs_know_who_comes_after_them_and_changes_make_them_dirty() -> None:
    view = JobsView()
    record = JobRecord(spec=JobSpec(name="b", after=("a",)), origin=Origin.API, since=NOW, at=NOW)
    key = keys.job("b")
    view.fold((Change(key, Entry(key, codec.encode(record), Revision(1), Revision(1))),), Revision(1))
    assert view.followers["a"] == {"b"}
    assert view.dirty == {"b"}
    cursor = keys.job_cursor("b")
    view.wrote(cursor, JobCursor(upto=NOW), Revision(2))
    assert view.cursors["b"] == (2, JobCursor(upto=NOW))
    view.fold((Change(key, None),), Revision(3))
    assert not view.followers["a"]
    assert "b" not in view.jobs
