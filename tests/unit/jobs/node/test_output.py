"""Output and answers in one pipe, and logs that are bounded."""

from itertools import pairwise
from random import Random

import pytest

from rota.jobs.node.output import ATOMIC, CHUNK, AttemptAnswer, Bounded, Cutter, encode, shortened
from rota.runtime.pipes.brief import MARK

KEY = bytes(range(1, MARK + 1))


def parts(cutter: Cutter, *pieces: bytes) -> list[bytes | AttemptAnswer]:
    """What comes of pieces, with output joined."""
    found: list[bytes | AttemptAnswer] = []
    for piece in pieces:
        for each in cutter.feed(piece):
            if isinstance(each, bytes) and found and isinstance(found[-1], bytes):
                found[-1] += each
            else:
                found.append(each)
    return found


def test_output_and_answers_come_apart_in_order() -> None:
    one, two = AttemptAnswer(1, seconds=0.5), AttemptAnswer(2, "ValueError: no", 3)
    stream = b"hello\n" + encode(KEY, one) + encode(KEY, two) + b"\x00\xff after"
    assert parts(Cutter(KEY), stream) == [b"hello\n", one, two, b"\x00\xff after"]


@pytest.mark.parametrize("seed", range(20))
def test_it_does_not_matter_how_the_stream_is_cut(seed: int) -> None:
    random = Random(seed)
    expected: list[bytes | AttemptAnswer] = []
    stream = b""
    for number in range(30):
        # Output that is made of beginnings of the mark is the worst there is.
        output = b"".join(KEY[: random.randrange(MARK)] for _ in range(random.randrange(4)))
        expected += [output] if output else []
        expected.append(AttemptAnswer(number, "x" * random.randrange(300)))
        stream += output + encode(KEY, expected[-1])
    cuts = sorted(random.sample(range(len(stream)), 100))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    cutter = Cutter(KEY)
    assert parts(cutter, *pieces) == expected
    assert cutter.end() == b""


def test_what_only_looked_like_an_answer_is_output() -> None:
    cutter = Cutter(KEY)
    assert list(cutter.feed(b"abc" + KEY[:5])) == [b"abc"]
    assert cutter.end() == KEY[:5]


@pytest.mark.parametrize("text", ["", "short", "caf\udce9", "x" * 10_000, "ä" * 10_000, "\ud800" * 3000])
def test_any_error_fits_into_an_answer_that_is_never_mixed_with_output(text: str) -> None:
    answer = AttemptAnswer(2**31, shortened(text), -11, 2e9, 1e6, 1e6, 2**45)
    assert len(encode(KEY, answer)) < ATOMIC


def kept(log: Bounded) -> bytes:
    """Everything that is to be kept, checked for gaps."""
    found = b""
    for place, data in log.sealed():
        assert place == len(found)
        assert 0 < len(data) <= CHUNK
        found += data
    assert len(found) == log.size
    return found


def test_a_log_within_its_bound_is_kept_as_it_is() -> None:
    log = Bounded(10_000)
    for number in range(10):
        log.feed(b"%d" % number * 400)
    log.close()
    log.close()
    assert kept(log) == b"".join(b"%d" % number * 400 for number in range(10))


def test_of_a_longer_log_the_beginning_and_the_end_are_kept_and_the_rest_is_counted() -> None:
    log = Bounded(1000)
    data = b"".join(b"%09d\n" % number for number in range(10_000))
    for start in range(0, len(data), 777):
        log.feed(data[start : start + 777])
    before_the_end = kept(log)
    assert before_the_end.startswith(data[:500])
    assert b"more than 1000 bytes" in before_the_end
    log.close()
    text = kept(log)
    assert text.startswith(before_the_end)
    assert text.endswith(b"[rota: 99000 bytes are left out here]\n" + data[-500:])


def test_who_follows_sees_glimpses_of_what_is_held_back() -> None:
    log, line = Bounded(2**20), b"%09d\n"
    number, now, seen = 0, 0.0, list[int]()
    while now < 7 * 86400:
        for _ in range(100):
            log.feed(line % number * 10)
            number += 1
        before = log.size
        log.glimpse(now)
        if log.size > before and number > 60_000:
            newest = kept(log).rstrip().rpartition(b"\n")[2]
            assert int(newest) == number - 1
            seen.append(int(now))
        now += max(1.0, now / 100)
    assert len(seen) > 100
    assert max(later - earlier for earlier, later in pairwise(seen)) <= now / 20, "they come to the end"
    assert kept(log).count(b" bytes later]\n") > 100
    held = log.size
    assert held <= 2**19 + 2**18 + 200
    log.close()
    assert log.size <= held + 2**19 + 200


def test_a_log_within_its_bound_has_no_glimpses() -> None:
    log = Bounded(1000)
    log.feed(b"a\n" * 100)
    log.glimpse(5.0)
    log.close()
    assert kept(log) == b"a\n" * 100


def test_a_glimpse_of_what_has_no_lines_is_its_newest_bytes() -> None:
    log = Bounded(2**20)
    log.feed(b"." * 2**20)
    log.feed(b"x" * 1000)
    log.glimpse(1.0)
    assert kept(log).endswith(b"bytes later]\n" + b"x" * 409 + b"\n")


def test_the_end_takes_no_more_memory_than_it_may() -> None:
    log = Bounded(1000)
    for _ in range(1000):
        log.feed(bytes(CHUNK))
    assert sum(map(len, log._tail)) == 500
    assert kept(log).startswith(bytes(500))


def test_what_is_written_down_is_let_go() -> None:
    log = Bounded(10 * CHUNK)
    log.feed(b"a" * (CHUNK + 10))
    first = log.sealed()
    log.feed(b"b" * 10)
    assert [(place, len(data)) for place, data in first] == [(0, CHUNK), (CHUNK, 10)]
    log.written(CHUNK + 10)
    assert log.sealed() == [(CHUNK + 10, b"b" * 10)]
    assert log.unwritten(0) is None
    assert log.unwritten(CHUNK + 15) == b"b" * 5
    assert log.unwritten(CHUNK + 20) == b""
    log.feed(b"c" * 5)
    assert log.unwritten(CHUNK + 22) == b"ccc"
    assert log.unwritten(CHUNK + 25) == log.unwritten(CHUNK + 99) == b""
    assert log.sealed() == [(CHUNK + 10, b"b" * 10), (CHUNK + 20, b"c" * 5)], "a look changes nothing"
