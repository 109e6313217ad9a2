"""Accounts of callers: what is used is gone, and comes back with time."""

from rota.doors.guard.account import Accounts
from rota.kit.time.instant import Instant


def at(seconds: float) -> Instant:
    return Instant(seconds)


def test_a_new_caller_may_use_a_full_account() -> None:
    accounts = Accounts(burst=2, rate=0.5)
    assert accounts.wait("ada", at(0)) == 0
    accounts.charge("ada", 1.5, at(0))
    assert accounts.wait("ada", at(0)) == 0


def test_an_overdrawn_account_is_waited_for_and_fills_with_time() -> None:
    accounts = Accounts(burst=2, rate=0.5)
    accounts.charge("ada", 5, at(0))
    assert accounts.wait("ada", at(0)) == 6
    assert accounts.wait("ada", at(4)) == 2
    assert accounts.wait("ada", at(6)) == 0


def test_an_account_is_never_more_than_full_and_a_clock_that_goes_back_takes_nothing() -> None:
    accounts = Accounts(burst=2, rate=0.5)
    accounts.charge("ada", 1, at(100))
    accounts.charge("ada", 0, at(50))
    accounts.charge("ada", 3, at(10_000))
    assert accounts.wait("ada", at(10_000)) == 2


def test_callers_do_not_share_an_account() -> None:
    accounts = Accounts(burst=1, rate=1)
    accounts.charge("ada", 9, at(0))
    assert accounts.wait("bob", at(0)) == 0


def test_only_so_many_accounts_are_kept() -> None:
    accounts = Accounts(burst=1, rate=1, most=2)
    for name in ("ada", "bob", "cyd"):
        accounts.charge(name, 5, at(0))
    assert [accounts.wait(name, at(0)) for name in ("ada", "bob", "cyd")] == [0, 4, 4]
