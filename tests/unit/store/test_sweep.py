"""Which leases an observer calls over."""

from rota.model.ids import Instant, LeaseId
from rota.store.sql.sweep import Observer, Seen


def seen(renewals: int = 0, *, ttl: float = 2.0, is_overdue: bool = True) -> Seen:
    return Seen(LeaseId("l"), renewals, ttl, is_overdue)


def look(observer: Observer, lease: Seen, start: float, end: float, step: float = 0.1) -> float | None:
    """When the observer, looking again and again, first calls the lease over."""
    now = start
    while now <= end:
        if observer.look([lease], Instant(now)):
            return now
        now += step
    return None


def test_a_lease_that_stands_still_is_over_after_its_ttl_and_not_before() -> None:
    over = look(Observer(), seen(), 0.0, 5.0)
    assert over is not None
    assert 2.0 <= over <= 2.2


def test_a_renewal_begins_the_count_anew() -> None:
    observer = Observer()
    assert look(observer, seen(0), 0.0, 1.5) is None
    over = look(observer, seen(1), 1.6, 5.0)
    assert over is not None
    assert over >= 3.6


def test_a_step_of_the_database_clock_ends_nothing() -> None:
    observer = Observer()
    assert look(observer, seen(is_overdue=False), 0.0, 1.0) is None
    assert look(observer, seen(is_overdue=True), 1.1, 1.9) is None


def test_a_clock_set_back_keeps_a_lease_until_the_clock_agrees() -> None:
    assert look(Observer(), seen(is_overdue=False), 0.0, 60.0) is None


def test_a_late_look_proves_nothing_about_the_time_between() -> None:
    observer = Observer()
    assert look(observer, seen(), 0.0, 1.0) is None
    over = look(observer, seen(), 61.0, 70.0)
    assert over is not None
    assert over >= 63.0


def test_a_lease_that_is_gone_is_forgotten() -> None:
    observer = Observer()
    assert look(observer, seen(), 0.0, 1.5) is None
    assert observer.look([], Instant(1.6)) == []
    over = look(observer, seen(), 1.7, 9.0)
    assert over is not None
    assert over >= 3.7


def test_short_leases_are_looked_at_more_often() -> None:
    observer = Observer()
    observer.look([seen(ttl=4.0)], Instant(0.0))
    assert observer.interval == 0.2
    observer.look([seen(ttl=3600.0)], Instant(0.1))
    assert observer.interval == 0.5
