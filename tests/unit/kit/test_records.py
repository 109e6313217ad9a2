"""Records: what was encoded comes back, and nothing else is taken for a record."""

from hypothesis import given
from hypothesis import strategies as st

from rota.kit import records

contents = st.lists(st.binary(max_size=60), min_size=1, max_size=8)
seeds = st.integers(0, 2**32 - 1)


def encoded(some: list[bytes], seed: int) -> bytes:
    return b"".join(records.encode(number, content, seed) for number, content in enumerate(some, 1))


@given(contents, seeds)
def test_records_follow_each_other(some, seed):
    data, found, place = encoded(some, seed), [], 0
    while record := records.at(data, place, seed):
        assert records.length_at(data, place) == record.end - place
        found.append((record.sequence, record.content))
        place = record.end
    assert found == list(enumerate(some, 1))
    assert place == len(data)


@given(contents, seeds, seeds)
def test_a_record_of_another_file_is_none(some, seed, other):
    if seed != other:
        assert records.at(encoded(some, seed), 0, other) is None
        assert records.after(encoded(some, seed), 0, 0, other) is None


@given(contents, seeds, st.integers(0), st.integers(0, 7))
def test_behind_a_flipped_bit_the_next_sound_record_is_found(some, seed, at, bit):
    data = bytearray(encoded([*some, b"last"], seed))
    first = len(records.encode(1, some[0], seed))
    data[at % first] ^= 1 << bit
    assert records.at(bytes(data), 0, seed) is None
    found = records.after(bytes(data), 0, 0, seed)
    assert found is not None
    assert (found.sequence, found.content) == (2, [*some, b"last"][1])


def test_what_does_not_begin_with_the_mark_has_no_length() -> None:
    assert records.length_at(b"x" * 100, 0) is None
    assert records.length_at(records.MARK, 0) is None
