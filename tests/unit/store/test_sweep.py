"""Which leases an observer calls over."""

from rota.model.ids import Instant, LeaseId
from rota.store.sql.sweep import LeaseObserver, LeaseRow


def seen(renewals: int = 0, *, ttl: float = 2.0, is_overdue: bool = True) -> LeaseRow:
    return LeaseRow(LeaseId("l"), renewals, ttl, is_overdue)


def look(
    observer: LeaseObserver, lease: LeaseRow, start: float, end: float, step: float = 0.1, *, can_write: bool = True
) -> float | None:
    """When the observer, looking again and again, first calls the lease over."""
    now = start
    while now <= end:
        if observer.look([lease], Instant(now)):
            return now
        if observer.needs_proof and can_write:
            observer.wrote(Instant(now))
        now += step
    return None


def test_a_lease_that_stands_still_is_over_after_its_ttl_and_not_before() -> None:
    over = look(LeaseObserver(), seen(), 0.0, 5.0)
    assert over is not None
    assert 2.0 <= over <= 2.2


def test_a_renewal_begins_the_count_anew() -> None:
    observer = LeaseObserver()
    assert look(observer, seen(0), 0.0, 1.5) is None
    over = look(observer, seen(1), 1.6, 5.0)
    assert over is not None
    assert over >= 3.6


def test_a_step_of_the_database_clock_ends_nothing() -> None:
    observer = LeaseObserver()
    assert look(observer, seen(is_overdue=False), 0.0, 1.0) is None
    assert look(observer, seen(is_overdue=True), 1.1, 1.9) is None


def test_a_clock_set_back_keeps_a_lease_until_the_clock_agrees() -> None:
    assert look(LeaseObserver(), seen(is_overdue=False), 0.0, 60.0) is None


def test_a_late_look_proves_nothing_about_the_time_between() -> None:
    observer = LeaseObserver()
    assert look(observer, seen(), 0.0, 1.0) is None
    over = look(observer, seen(), 61.0, 70.0)
    assert over is not None
    assert over >= 63.0


def test_a_lease_that_is_gone_is_forgotten() -> None:
    observer = LeaseObserver()
    assert look(observer, seen(), 0.0, 1.5) is None
    assert observer.look([], Instant(1.6)) == []
    over = look(observer, seen(), 1.7, 9.0)
    assert over is not None
    assert over >= 3.7


def test_short_leases_are_looked_at_more_often() -> None:
    observer = LeaseObserver()
    observer.look([seen(ttl=4.0)], Instant(0.0))
    assert observer.interval == 0.2
    observer.look([seen(ttl=3600.0)], Instant(0.1))
    assert observer.interval == 0.5


def test_time_in_which_nobody_could_write_does_not_count() -> None:
    observer = LeaseObserver()
    assert look(observer, seen(), 0.0, 20.0, can_write=False) is None
    over = look(observer, seen(), 20.1, 30.0)
    assert over is not None
    assert over >= 22.0, "a whole ttl after writing works again"


def test_a_dead_lease_beside_one_that_is_renewed_needs_no_proof() -> None:
    observer = LeaseObserver()
    over: list[LeaseId] = []
    now = 0.0
    while not over and now < 10.0:
        dead, live = seen(), LeaseRow(LeaseId("live"), int(now / 0.7), 2.0, is_overdue=False)
        over = [lease.id for lease in observer.look([dead, live], Instant(now))]
        assert not observer.needs_proof
        now += 0.1
    assert over == ["l"]
    assert now <= 2.5


def test_all_leases_get_a_whole_ttl_when_the_first_of_them_is_renewed_after_an_outage() -> None:
    def leases(renewals: int) -> list[LeaseRow]:
        return [LeaseRow(LeaseId("first"), renewals, 2.0, is_overdue=True), seen()]

    observer = LeaseObserver()
    for look_number in range(100):
        assert observer.look(leases(0), Instant(look_number / 10)) == []
    for look_number in range(100, 119):
        assert observer.look(leases(look_number // 5), Instant(look_number / 10)) == []


def crowd(renewals: int = 0) -> list[LeaseRow]:
    return [LeaseRow(LeaseId(f"{number:03}"), renewals, 10.0, is_overdue=False) for number in range(100)]


def test_of_a_large_fleet_few_look_all_the_time() -> None:
    eager, other = LeaseObserver(), LeaseObserver()
    eager.look(crowd(), Instant(0.0), {LeaseId("001")})
    other.look(crowd(), Instant(0.0), {LeaseId("050")})
    assert (eager.interval, other.interval) == (0.5, 2.5)


def test_who_looks_rarely_looks_all_the_time_once_a_lease_seems_to_die() -> None:
    observer, now, over = LeaseObserver(), 0.0, []
    while not over and now < 30.0:
        dead, *live = crowd()
        live = [lease._replace(renewals=int(now / 3)) for lease in live]
        over = observer.look([dead._replace(is_overdue=now >= 10.0), *live], Instant(now), {LeaseId("050")})
        assert observer.interval == (0.5 if now >= 4.0 else 2.5)
        now += observer.interval
    assert [lease.id for lease in over] == ["000"]
    assert now <= 10.0 + 2.5 + 0.5
