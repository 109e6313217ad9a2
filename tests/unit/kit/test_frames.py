"""Frames: whatever the stream does to the chunks, the payloads come out as they went in."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.kit.frames import LENGTH, FrameDecoder, FrameTooLong, encode


def chunks(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


@given(st.lists(st.binary(max_size=200)), st.lists(st.integers(min_value=0)))
def test_any_chunking_gives_the_payloads_back(payloads, cuts):
    decoder = FrameDecoder()
    stream = b"".join(encode(payload) for payload in payloads)
    assert [whole for chunk in chunks(stream, cuts) for whole in decoder.feed(chunk)] == payloads
    assert decoder.pending == 0


@given(st.binary(max_size=50), st.integers(min_value=0))
def test_a_torn_frame_is_pending(payload, cut):
    decoder = FrameDecoder()
    torn = encode(payload)[: cut % len(encode(payload))]
    assert decoder.feed(torn) == []
    assert decoder.pending == len(torn)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_decoder_takes_what_sockets_give(kind):
    assert FrameDecoder().feed(kind(encode(b"abc"))) == [b"abc"]


def test_a_payload_is_the_readers_to_keep():
    buffer = bytearray(encode(b"abc"))
    (payload,) = FrameDecoder().feed(buffer)
    buffer[:] = bytes(len(buffer))
    assert payload == b"abc"


def test_the_longest_frame_passes_and_a_byte_more_does_not():
    assert FrameDecoder(limit=3).feed(encode(b"abc", limit=3)) == [b"abc"]
    with pytest.raises(FrameTooLong):
        encode(b"abcd", limit=3)
    with pytest.raises(FrameTooLong) as error:
        FrameDecoder(limit=3).feed(encode(b"abcd"))
    assert (error.value.length, error.value.limit) == (4, 3)


def test_a_frame_too_long_is_refused_before_its_bytes_are_held():
    decoder = FrameDecoder(limit=100)
    with pytest.raises(FrameTooLong):
        decoder.feed(LENGTH.pack(2**32 - 1))
    assert decoder.pending == 0
