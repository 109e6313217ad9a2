"""Parcels between a proxy and its workers: whole again however the line cuts them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.services.core.frames import BadFrame
from rota.services.core.parcels import (
    ANSWERED,
    DONE,
    FINISH,
    GIVEN,
    LARGEST_FRAME,
    LIMIT,
    NO_LIMIT,
    READY,
    RETURNED,
    ParcelDecoder,
    returned,
)


def test_a_worker_says_that_it_is_ready():
    assert list(ParcelDecoder(RETURNED).feed(READY)) == [(0, 0, b"")]


def test_a_worker_is_told_to_finish():
    assert list(ParcelDecoder(GIVEN).feed(FINISH)) == [(0, NO_LIMIT, b"")]


def test_numbers_are_so_long_that_none_comes_twice():
    number = (1 << 64) - 1
    assert list(ParcelDecoder(RETURNED).feed(returned(number, DONE))) == [(number, DONE, b"")]


PARCELS = st.lists(
    st.tuples(
        st.integers(1, (1 << 64) - 1), st.sampled_from([ANSWERED, DONE, ANSWERED | DONE]), st.binary(max_size=50)
    ),
    max_size=8,
)


@settings(deadline=None)
@given(sent=PARCELS, data=st.data())
def test_parcels_come_out_as_they_went_in_wherever_the_line_is_cut(sent, data):
    stream = b"".join(returned(*parcel) for parcel in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    inbox = ParcelDecoder(RETURNED)
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += inbox.feed(stream[start:end])
    assert found == sent


def test_what_is_whole_is_not_held_back_by_what_follows():
    first, second = returned(1, DONE), returned(2, DONE, b"longer")
    inbox = ParcelDecoder(RETURNED)
    assert [number for number, _, _ in inbox.feed(first + second[:-1])] == [1]
    assert [number for number, _, _ in inbox.feed(second[-1:] + first)] == [2, 1]


@pytest.mark.parametrize("length", [0, RETURNED.size - 1, LIMIT + 1])
def test_a_length_that_cannot_be_is_refused(length):
    with pytest.raises(BadFrame, match=f"a parcel of {length} bytes"):
        list(ParcelDecoder(RETURNED).feed(RETURNED.pack(length, 1, DONE)))


def test_the_largest_frame_fits_into_a_parcel():
    assert GIVEN.size + 19 + LARGEST_FRAME == LIMIT
