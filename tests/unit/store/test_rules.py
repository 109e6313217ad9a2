"""What every store accepts; the laws' own tests (`tests/contract`) try the same through each adapter."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.errors import Invalid
from rota.model.ids import Revision
from rota.store import Absent, At, Delete, Put, rules


@pytest.mark.parametrize("key", ["/a", "/a/b", "/nodes/a-b_c.d:1", "/é", "/中/😀", "/ ", "/a b", "/" + "a" * 511])
def test_a_path_is_a_key(key):
    rules.check_key(key)
    rules.check_prefix(key)


@pytest.mark.parametrize("prefix", ["/", "/a/", "/a/b/"])
def test_a_path_with_an_open_end_is_a_prefix_but_no_key(prefix):
    rules.check_prefix(prefix)
    with pytest.raises(Invalid):
        rules.check_key(prefix)


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("", "start with /"),
        ("a", "start with /"),
        (None, "start with /"),
        (b"/a", "start with /"),
        ("/a/", "empty part"),
        ("/a//b", "empty part"),
        ("/a\0", "unprintable"),
        ("/a\tb", "unprintable"),
        ("/\u200b", "unprintable"),
        ("/\ud800", "not valid Unicode"),
        ("/" + "a" * 512, "513 bytes"),
        ("/" + "é" * 256, "513 bytes"),
    ],
)
def test_a_bad_key_is_told_what_is_wrong(key, complaint):
    with pytest.raises(Invalid, match=complaint) as error:
        rules.check_key(key)
    assert len(str(error.value).splitlines()) == 1


@given(st.text())
def test_a_key_that_passes_survives_the_trip_through_bytes(text):
    try:
        rules.check_key(text)
    except Invalid:
        return
    assert text.encode().decode() == text
    assert 2 <= len(text.encode()) <= rules.MAX_KEY_BYTES
    rules.check_prefix(text)


def test_a_commit_at_its_limits_passes():
    writes = [Put(f"/{number}", b"") for number in range(rules.MAX_WRITES - 1)]
    expect = [Absent(f"/e/{number}") for number in range(rules.MAX_EXPECTATIONS)]
    assert rules.check_commit([*writes, Put("/big", bytes(rules.MAX_VALUE_BYTES))], expect) == tuple(expect)


def test_expectations_may_come_from_a_generator():
    expected = rules.check_commit([Delete("/a")], (At(key, Revision(1)) for key in ("/a", "/b")))
    assert expected == (At("/a", Revision(1)), At("/b", Revision(1)))


@pytest.mark.parametrize(
    ("writes", "expect", "complaint"),
    [
        ([], [], "without writes"),
        ([Delete(f"/{number}") for number in range(101)], [], "101 writes"),
        ([Put("/a", bytes(rules.MAX_VALUE_BYTES)), Put("/b", b"x")], [], "1048577 bytes"),
        ([Put("/a", b""), Delete("/a")], [], "written twice"),
        ([Put("/a", "text")], [], "values are bytes"),
        ([Put("/a", bytearray(b"x"))], [], "values are bytes"),
        ([Absent("/a")], [], "neither Put nor Delete"),
        ([Delete("a")], [], "start with /"),
        ([Delete("/a")], [Absent("/b"), At("/b", Revision(1))], "expected twice"),
        ([Delete("/a")], [Absent("b")], "start with /"),
        ([Delete("/a")], [Put("/b", b"")], "neither At nor Absent"),
        ([Delete("/a")], [Absent(f"/{number}") for number in range(129)], "129 expectations"),
    ],
)
def test_a_bad_commit_is_told_what_is_wrong(writes, expect, complaint):
    with pytest.raises(Invalid, match=complaint):
        rules.check_commit(writes, expect)


@pytest.mark.parametrize("ttl", [rules.MIN_TTL, timedelta(seconds=10), rules.MAX_TTL])
def test_a_lease_of_a_second_to_a_day_passes(ttl):
    rules.check_ttl(ttl)


@pytest.mark.parametrize("ttl", [timedelta(), -rules.MIN_TTL, timedelta(seconds=0.999), timedelta(days=1, seconds=1)])
def test_a_lease_beyond_that_is_invalid(ttl):
    with pytest.raises(Invalid, match="ttl must be"):
        rules.check_ttl(ttl)


def test_a_page_holds_at_least_one_entry():
    for limit in (None, 1, 10_000):
        rules.check_scan("/", None, limit)
    for limit in (0, -1):
        with pytest.raises(Invalid, match="at least one"):
            rules.check_scan("/", None, limit)
