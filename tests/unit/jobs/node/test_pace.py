"""How many attempts an executor may hold."""

from rota.jobs.node.pace import Paces


def test_a_job_that_nobody_has_seen_counts_as_long() -> None:
    assert Paces().depth("new") == 1


def test_the_shorter_the_more() -> None:
    paces = Paces()
    for job, seconds in {"a": 0.0001, "b": 0.003, "c": 0.01, "d": 1.0}.items():
        paces.note(job, seconds)
    assert [paces.depth(job) for job in "abcd"] == [8, 4, 2, 1]


def test_one_long_attempt_is_enough_and_many_short_ones_make_up_for_it() -> None:
    paces = Paces()
    for _ in range(100):
        paces.note("a", 0.0001)
    paces.note("a", 3.0)
    assert paces.depth("a") == 1
    for _ in range(40):
        paces.note("a", 0.0001)
    assert paces.depth("a") == 8
