"""What a list changes, when it is held, and who asks for it when."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.kit.record import replace
from rota.model.ids import NodeId, Revision, TermNumber
from rota.resources.core.listing import (
    FRESH,
    GRACE,
    ApplyListing,
    HoldListing,
    ListedResource,
    QuerySource,
    WaitUntil,
    compare,
    digest_of,
    explain,
    is_failing,
    left_alone,
    next_query,
    problem,
)
from rota.resources.core.records import NEVER, KindRecord, Listing, Query, ResourceRecord, SyncRequest
from tests.kit.kinds import KIND

T0 = datetime(2026, 1, 1, tzinfo=UTC)
A, B = NodeId("a"), NodeId("b")


def after(**time: float) -> datetime:
    return T0 + timedelta(**time)


def record(id: str, origin: str = "source", **fields: Any) -> ResourceRecord:
    return ResourceRecord(uid=f"uid of {id}", kind="room", id=id, created=T0, origin=origin, **fields)


def stored(ids: str, origin: str = "source") -> dict[str, ResourceRecord]:
    return {id: record(id, origin) for id in ids}


def listed(ids: str) -> list[ListedResource]:
    return [ListedResource(id=id) for id in ids]


def last(held: str = "", error: str = "", nonce: str = "1", node: NodeId = A) -> Listing:
    """An outcome that held these ids."""
    digest = digest_of(held) if held else ""
    return Listing(kind="room", nonce=nonce, node=node, at=T0, held=digest, error=error)


def names(found: ApplyListing | HoldListing) -> tuple[str, str, str]:
    """The ids that come, change and go."""
    assert isinstance(found, ApplyListing), found
    parts = found.add, found.change, found.remove
    first, second, third = ("".join(each.id for each in part) for part in parts)  # type: ignore[attr-defined]
    return first, second, third


# Comparing


@pytest.mark.parametrize(
    ("there", "now", "before", "force", "expected"),
    [
        pytest.param("", "abc", None, False, ("abc", "", ""), id="the first load"),
        pytest.param("", "", None, False, ("", "", ""), id="nothing, and nothing there"),
        pytest.param("abc", "abc", None, False, ("", "", ""), id="the same"),
        pytest.param("abcd", "bcde", None, False, ("e", "", "a"), id="one comes, one goes"),
        pytest.param("abcd", "ab", None, False, ("", "", "cd"), id="half of them go"),
        pytest.param("abcd", "a", None, True, ("", "", "bcd"), id="more than half, by force"),
        pytest.param("abcd", "", None, True, ("", "", "abcd"), id="all, by force"),
        pytest.param("abcd", "a", last("a"), False, ("", "", "bcd"), id="more than half, confirmed"),
        pytest.param("abcd", "xy", last("yx"), False, ("xy", "", "abcd"), id="all replaced, confirmed in any order"),
    ],
)
def test_what_a_list_changes(
    there: str, now: str, before: Listing | None, force: bool, expected: tuple[str, str, str]
) -> None:
    assert names(compare(stored(there), listed(now), before, force=force)) == expected


@pytest.mark.parametrize(
    ("there", "now", "before", "why"),
    [
        pytest.param("a", "", None, "the list is empty, and there are 1", id="empty"),
        pytest.param("abcd", "a", None, "the list drops 3 of 4", id="more than half"),
        pytest.param("ab", "xyz", None, "the list drops 2 of 2", id="others in their place"),
        pytest.param("abcd", "a", last("b"), "the list drops 3 of 4", id="another than the one that was held"),
        pytest.param("abcd", "a", last(), "the list drops 3 of 4", id="none was held"),
    ],
)
def test_which_lists_are_held(there: str, now: str, before: Listing | None, why: str) -> None:
    assert compare(stored(there), listed(now), before, force=False) == HoldListing(why, digest_of(now))


def test_an_empty_list_is_confirmed_by_another() -> None:
    first = compare(stored("ab"), [], None, force=False)
    assert isinstance(first, HoldListing)
    assert names(compare(stored("ab"), [], replace(last(), held=first.digest), force=False)) == ("", "", "ab")


def test_what_others_added_is_left_alone_and_not_counted() -> None:
    there = {**stored("ab"), **stored("xyz", "api")}
    found = compare(there, listed("ax"), None, force=False)
    assert names(found) == ("", "", "b")
    assert isinstance(found, ApplyListing)
    assert found.left == ("x",)
    assert left_alone(found.left) == "left alone, as others added them: x"
    assert left_alone(tuple("abcdefg")) == "left alone, as others added them: a, b, c, d, e and 2 more"


def test_a_change_keeps_who_it_is_and_what_a_source_does_not_say() -> None:
    before = record("a", priority=1, spec={"x": 1}, cost=3, pin=B)
    found = compare({"a": before}, [ListedResource(id="a", priority=2, labels={"zone": "z"})], None, force=False)
    assert isinstance(found, ApplyListing)
    assert found.change == (replace(before, priority=2, spec={}, labels={"zone": "z"}),)


IDS = st.sets(st.sampled_from("abcdefghij"))


@given(ours=IDS, theirs=IDS, now=IDS, force=st.booleans())
def test_applying_and_comparing_again_changes_nothing(
    ours: set[str], theirs: set[str], now: set[str], force: bool
) -> None:
    there = {**stored("".join(ours)), **stored("".join(theirs), "api")}
    found = compare(there, listed("".join(now)), None, force=force)
    if isinstance(found, HoldListing):
        assert not force
        found = compare(there, listed("".join(now)), replace(last(), held=found.digest), force=False)
    assert isinstance(found, ApplyListing)
    for each in found.remove:
        assert there.pop(each.id).origin == "source"
    there |= {each.id: each for each in found.change} | {each.id: record(each.id) for each in found.add}
    assert there.keys() == now | theirs
    again = compare(there, listed("".join(now)), None, force=False)
    # Nothing is left to drop, so nothing is held, unless the list is empty and so is what there is of the source.
    assert isinstance(again, ApplyListing)
    assert (*again.add, *again.change, *again.remove) == ()


@given(ours=IDS, now=IDS)
def test_without_confirmation_at_most_half_goes_and_never_all(ours: set[str], now: set[str]) -> None:
    found = compare(stored("".join(ours)), listed("".join(now)), None, force=False)
    if isinstance(found, ApplyListing):
        assert len(found.remove) * 2 <= len(ours)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        pytest.param(
            [ListedResource(id="a"), ListedResource(id="a", priority=1)], "twice, and differently", id="twice"
        ),
        pytest.param([ListedResource(id="")], "no id", id="no id"),
        pytest.param([ListedResource(id="a/b")], "no id", id="a slash"),
        pytest.param([ListedResource(id="a\nb")], "no id", id="not printable"),
        pytest.param([ListedResource(id="é" * 101)], "no id", id="too long"),
        pytest.param([ListedResource(id="a", priority=10**9)], "priority", id="priority"),
        pytest.param([ListedResource(id="a", replicas=0)], "replicas", id="no replicas"),
        pytest.param([ListedResource(id="a", replicas=1001)], "replicas", id="too many replicas"),
        pytest.param([ListedResource(id="a", spec={"x": "y" * 8192})], "spec has 8200 bytes", id="a large spec"),
        pytest.param([ListedResource(id="a", labels={"x": "y" * 8192})], "labels has 8200 bytes", id="large labels"),
    ],
)
def test_what_cannot_be_listed(bad: list[ListedResource], why: str) -> None:
    assert why in problem(bad, KIND)


def test_an_exclusive_kind_has_one_task_each() -> None:
    exclusive = replace(KIND, exclusive=True)
    assert "exclusive" in problem([ListedResource(id="a", replicas=2)], exclusive)
    assert (
        problem([ListedResource(id="a", replicas=1), ListedResource(id="b"), ListedResource(id="b")], exclusive) == ""
    )


# Asking


def query(nonce: str = "1", node: NodeId = A, term: int = 7, **fields: Any) -> Query:
    return Query(kind="room", node=node, nonce=nonce, asked=T0, term=TermNumber(term), **fields)


def ask(
    asked: Query | None,
    outcome: Listing | None = None,
    sync: tuple[SyncRequest, Revision] | None = None,
    nodes: dict[NodeId, int] | None = None,
    began: datetime = T0,
    now: datetime = T0,
    kind: KindRecord = KIND,
) -> QuerySource | WaitUntil:
    there = {A: 0, B: 0} if nodes is None else nodes
    return next_query(kind, asked, outcome, sync, there, TermNumber(7), began, now)


SYNC = SyncRequest(kind="room", force=True), Revision(40)
LATE = after(seconds=60) + GRACE


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(ask(None), QuerySource(A, False, NEVER), id="never asked"),
        pytest.param(ask(None, nodes={A: 2, B: 1}), QuerySource(B, False, NEVER), id="the idlest is asked"),
        pytest.param(ask(None, nodes={}), WaitUntil(None), id="nobody can be asked"),
        pytest.param(ask(None, kind=replace(KIND, source_every=None)), WaitUntil(None), id="no source"),
        pytest.param(ask(query(), now=after(seconds=5)), WaitUntil(LATE), id="under way"),
        pytest.param(ask(query("2"), last(nonce="1"), now=after(seconds=5)), WaitUntil(LATE), id="the answer is older"),
        pytest.param(ask(query(force=True), now=LATE), QuerySource(B, True, NEVER), id="late"),
        pytest.param(
            ask(query(), nodes={A: 0}, now=LATE), QuerySource(A, False, NEVER), id="late, and there is no other"
        ),
        pytest.param(ask(query(), nodes={B: 0}), QuerySource(B, False, NEVER), id="gone"),
        pytest.param(ask(query(), last()), WaitUntil(after(minutes=30)), id="answered"),
        pytest.param(ask(query(), last(), now=after(minutes=30)), QuerySource(A, False, NEVER), id="due"),
        pytest.param(
            ask(query(force=True), last(), now=after(minutes=31)), QuerySource(A, False, NEVER), id="force is over"
        ),
        pytest.param(ask(query(), last(error="oh")), WaitUntil(T0 + FRESH), id="failed"),
        pytest.param(
            ask(query(), last(error="oh"), now=T0 + FRESH), QuerySource(B, False, NEVER), id="failed, by another"
        ),
        pytest.param(ask(query(), last(), SYNC), QuerySource(A, True, Revision(40)), id="wanted now"),
        pytest.param(
            ask(query(sync=Revision(9)), sync=SYNC), QuerySource(A, True, Revision(40)), id="wanted, and under way"
        ),
        pytest.param(
            ask(query(sync=Revision(40)), last(), now=after(minutes=30)),
            QuerySource(A, False, Revision(40)),
            id="remembered",
        ),
        pytest.param(
            ask(query(term=6), last(), began=after(seconds=59), now=after(seconds=59)),
            WaitUntil(after(minutes=30)),
            id="a new leader, soon after",
        ),
        pytest.param(
            ask(query(term=6), last(), began=after(seconds=61), now=after(seconds=61)),
            QuerySource(A, False, NEVER),
            id="a new leader, later",
        ),
        pytest.param(
            ask(query(term=6), began=after(seconds=61), now=after(seconds=61)),
            WaitUntil(LATE),
            id="a new leader, and the query is under way",
        ),
    ],
)
def test_who_is_asked_when(found: QuerySource | WaitUntil, expected: QuerySource | WaitUntil) -> None:
    assert found == expected


# In words

QUERY = Query(kind="room", node=NodeId("n1"), nonce="1", asked=datetime(2026, 1, 1, tzinfo=UTC), term=TermNumber(1))
LISTING = Listing(kind="room", nonce="1", node=NodeId("n1"), at=QUERY.asked, count=3, added=2, removed=1)


@pytest.mark.parametrize(
    ("query", "listing", "words"),
    [
        (None, None, ["it has not been queried yet"]),
        (QUERY, None, ["n1 was asked at 2026-01-01 00:00:00 UTC", "has not answered yet"]),
        (QUERY, LISTING, ["n1 asked it at", "3 listed, 2 added, 0 changed, 1 removed", "every 30m"]),
        (QUERY, replace(LISTING, error="no such table"), ["got no list", "old one of 3 stays", "no such table"]),
        (QUERY, replace(LISTING, held="x", why="the list is empty, and there are 3"), ["held", "--force", "is empty"]),
    ],
)
def test_what_came_of_a_query_is_told_in_a_sentence(
    query: Query | None, listing: Listing | None, words: list[str]
) -> None:
    kind = replace(KIND, source_every=timedelta(minutes=30))
    said = explain(kind, query, listing)
    assert all(word in said for word in words), said
    assert is_failing(listing) == (listing is not None and bool(listing.error or listing.held))


def test_a_kind_without_a_source_says_so() -> None:
    assert "no source" in explain(replace(KIND, source_every=None), None, None)
