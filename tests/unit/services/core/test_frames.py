"""Frames on a service's wire: byte for byte what existing clients speak, however the bytes are cut on their way."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.errors import Invalid
from rota.services.core.frames import BOX, MAGIC, MAPLE_TASK, BadFrame, Field, Layout, wire

LIMIT = 1 << 20
LITTLE = Layout("little", (Field("body_len", "H"), Field("cmd", "B"), Field("ret", "h"), Field("sn", "I")), order="<")
BARE = Layout("bare", (Field("cmd", "i"), Field("packet_len", "i")))


def test_a_request_is_packed_as_netkit_packs_it():
    frame = wire(BOX).frame(b"abc", cmd=1, sn=7)
    assert frame.hex() == "7978aecf000000000000001b000000010000000000000007616263"


def test_an_error_reply_is_packed_as_netkit_packs_it():
    box = wire(BOX)
    reply = box.reply(box.frame(b"abc", cmd=1, sn=7, flag=3), -10001)
    assert reply.hex() == "7978aecf000000000000001800000001ffffd8ef00000007"


def test_a_maple_task_has_76_bytes_and_its_answer_finds_the_way_back():
    task = wire(MAPLE_TASK)
    frame = task.frame(b"xy", cmd=100, conn_id=-5, tag=6, node_id=7, client_ip_num=b"\x7f\0\0\1", uid=9)
    assert (task.size, len(frame)) == (76, 78)
    kept = task.read(task.reply(frame, -10000))
    assert (kept["conn_id"], kept["tag"], kept["node_id"], kept["ret"]) == (-5, 6, 7, -10000)
    assert (kept["cmd"], kept["uid"], kept["client_ip_num"]) == (0, 0, bytes(16))


def test_a_reply_may_set_fields_of_its_own():
    box = wire(BOX)
    header = box.read(box.reply(box.frame(cmd=1, sn=2), 5, b"body", {"flag": 9}))
    assert (header["flag"], header["ret"], header["packet_len"]) == (9, 5, 28)


def test_a_field_that_the_header_has_not_is_named():
    with pytest.raises(Invalid, match="frame box has no field 'colour'; it has magic, version, flag"):
        wire(BOX).frame(colour=1)


def test_a_value_that_does_not_fit_is_refused():
    with pytest.raises(Invalid, match="frame box: 'h' format requires"):
        wire(BOX).frame(flag=1 << 20)


@pytest.mark.parametrize("layout", [BOX, MAPLE_TASK, LITTLE, BARE], ids=lambda layout: layout.name)
@settings(deadline=None)
@given(data=st.data())
def test_frames_come_out_as_they_went_in_wherever_the_stream_is_cut(layout, data):
    it = wire(layout)
    sent = [
        (cmd, it.frame(body, cmd=cmd))
        for cmd, body in data.draw(st.lists(st.tuples(st.integers(0, 99), st.binary(max_size=40)), max_size=6))
    ]
    stream = b"".join(frame for _, frame in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    found, rest = [], b""
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        rest += stream[start:end]
        frames, used = it.split(rest, LIMIT)
        found += frames
        rest = rest[used:]
        assert len(rest) < it.needed(rest), "a whole frame was left"
    assert (found, rest) == (sent, b"")


def test_a_length_of_the_body_counts_without_the_header():
    it = wire(LITTLE)
    frame = it.frame(b"abcd", cmd=3, sn=0x01020304)
    assert frame.hex() == "04000300000403020161626364"
    assert it.split(frame + frame[:5], LIMIT) == ([(3, frame)], len(frame))
    assert it.body(frame) == b"abcd"
    assert it.cmd_and_sn(frame) == (3, 0x01020304)


def test_a_layout_without_sn_has_the_number_nought():
    assert wire(BARE).cmd_and_sn(wire(BARE).frame(cmd=4)) == (4, 0)


@pytest.mark.parametrize(
    ("length", "limit"),
    [
        pytest.param(23, LIMIT, id="shorter than its header"),
        pytest.param(-1, LIMIT, id="less than nothing"),
        pytest.param(101, 100, id="longer than is taken"),
        pytest.param((1 << 31) - 1, LIMIT, id="two gigabytes"),
    ],
)
def test_a_length_that_cannot_be_is_seen_in_the_header_alone(length, limit):
    header = bytearray(wire(BOX).frame(cmd=1))
    header[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(BadFrame, match=f"a frame of {length} bytes"):
        wire(BOX).split(bytes(header), limit)


def test_a_body_length_below_nothing_is_no_frame():
    signed = wire(Layout("signed", (Field("body_len", "i"), Field("cmd", "i"))))
    with pytest.raises(BadFrame, match="a frame of 7 bytes; from 8"):
        signed.split((-1).to_bytes(4, "big", signed=True) + bytes(4), LIMIT)


def test_a_wrong_magic_number_is_no_frame():
    with pytest.raises(BadFrame, match=f"magic number 0, expected {MAGIC}"):
        wire(BOX).split(bytes(24), LIMIT)


def test_a_frame_as_long_as_is_taken_is_taken():
    frame = wire(BOX).frame(bytes(76), cmd=1)
    assert wire(BOX).split(frame, 100) == ([(1, frame)], 100)


LENGTH, CMD = Field("packet_len", "i"), Field("cmd", "i")


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (Layout("l", (CMD,)), "needs one of packet_len and body_len"),
        (Layout("l", (LENGTH, Field("body_len", "i"), CMD)), "needs one of packet_len and body_len"),
        (Layout("l", (LENGTH,)), "needs cmd"),
        (Layout("l", (LENGTH, CMD, CMD)), "two fields of its header have the same name"),
        (Layout("l", (LENGTH, CMD, Field("a", "2i"))), "field a has the code '2i'; write one of b B h"),
        (Layout("l", (LENGTH, CMD, Field("a", "x"))), "field a has the code 'x'"),
        (Layout("l", (LENGTH, CMD, Field("a", "f"))), "field a has the code 'f'"),
        (Layout("l", (LENGTH, CMD, Field("a", ""))), "field a has the code ''"),
        (Layout("l", (LENGTH, Field("cmd", "4s"))), "field cmd has the code '4s'; it is a number, so write i"),
        (Layout("l", (LENGTH, CMD), order="big"), "its order is 'big'; write one of ! < > = @"),
        (Layout("l", (LENGTH, CMD, Field("magic", "h", MAGIC))), "give its fields codes that hold what they carry"),
        (Layout("l", (LENGTH, CMD, Field("ret", "b"))), "give its fields codes that hold what they carry"),
        (Layout("l", (LENGTH, CMD, Field("ret", "I"))), "give its fields codes that hold what they carry"),
        (Layout("l", (Field("packet_len", "b"), CMD, Field("a", "200s"))), "give its fields codes that hold"),
    ],
)
def test_a_layout_that_cannot_work_is_refused_before_it_is_used(layout, words):
    with pytest.raises(Invalid, match="frame l: ") as refused:
        wire(layout)
    assert words in str(refused.value)
