"""What both clients share: addresses, numbers, frames, codes, and when to connect again."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from netkit.box import Box

from rota import BOX, MAPLE_TASK, Field, Layout
from rota.client import Answer, Refused, ServiceClient
from rota.client.exchange import Exchange, peer
from rota.client.redial import FIRST, MOST, Redial
from rota.client.sockets import UNANSWERED_MS, connect
from rota.model.errors import Invalid, RotaError, Unavailable, Unknown
from rota.services.core.codes import Ret
from rota.services.core.frames import BadFrame, wire
from tests.kit.box_server import BoxServer, Cmd


def exchange(layout: Layout = BOX, numbered_by: str = "sn", max_frame: int = 1 << 20) -> Exchange:
    return Exchange("127.0.0.1:9900", "2s", layout, numbered_by, max_frame)


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("127.0.0.1:9900", "tcp://127.0.0.1:9900"),
        ("tcp://logic.example:1", "tcp://logic.example:1"),
        ("udp://[::1]:9900", "udp://[::1]:9900"),
        (":9900", "tcp://127.0.0.1:9900"),
    ],
)
def test_addresses(address: str, meant: str) -> None:
    assert str(peer(address)) == meant


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1", "write host:port"),
        ("http://127.0.0.1:1", r"there is no http://; write tcp://host:port or udp://host:port"),
        ("127.0.0.1:0", "0 is not a port to call"),
        ("::1:9900", "write host:port"),
    ],
)
def test_wrong_addresses_say_how_to_write_one(address: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        peer(address)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"timeout": 2}, 'timeout is 2; write a duration like "30s"'),
        ({"size": 0}, "size is 0; it must be 1 or more"),
        ({"frame": MAPLE_TASK}, "takes over conn_id, tag, node_id: choose one of these with numbered_by="),
        ({"max_frame": 3}, "max_frame is 3"),
        ({"frame": Layout("a", BOX.fields, ("cmd",))}, "it takes over nothing"),
        (
            {
                "frame": Layout("a", (Field("body_len", "i"), Field("cmd", "i"), Field("id", "4s")), ("id",)),
                "numbered_by": "id",
            },
            "which is no number",
        ),
    ],
)
def test_wrong_options_are_refused_at_once(options: dict[str, object], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        ServiceClient("127.0.0.1:9900", **options)  # type: ignore[arg-type]


def test_a_request_is_a_box_byte_for_byte() -> None:
    frame = exchange().request(7, 1, "abc", None, None)
    assert frame.hex(" ", -4) == "7978aecf 00000000 0000001b 00000001 00000000 00000007 616263"


def test_a_request_is_what_netkit_would_have_written() -> None:
    theirs = Box({"cmd": 101, "sn": 7, "body": "abc"}).pack()
    assert exchange().request(7, 101, b"abc", None, None) == theirs


def test_a_request_has_a_body_or_json_and_no_strange_field() -> None:
    assert exchange().request(1, 1, b"", [1, 2], None)[24:] == b"[1,2]"
    with pytest.raises(Invalid, match="both body= and json="):
        exchange().request(1, 1, b"a", {}, None)
    with pytest.raises(Invalid, match="has no field 'uid'"):
        exchange().request(1, 1, b"", None, {"uid": 7})


def test_numbers_begin_anew_after_the_greatest_the_field_can_hold() -> None:
    small = Layout("small", (Field("packet_len", "i"), Field("cmd", "h"), Field("sn", "b")))
    numbers = exchange(small)
    given = [numbers.number() for _ in range(300)]
    assert set(given) == set(range(1, 128))
    assert all(numbers.request(number, 1, b"", None, None) for number in given)


@pytest.mark.parametrize("layout", [BOX, Layout("b", (Field("body_len", "i"), Field("cmd", "i"), Field("sn", "i")))])
@pytest.mark.parametrize("step", [1, 7, 24, 1000])
def test_answers_are_found_however_they_are_cut(layout: Layout, step: int) -> None:
    frames = b"".join(wire(layout).frame(bytes(length), cmd=1, sn=length) for length in (0, 1, 30, 500, 0))
    intake = exchange(layout).intake()
    answers = [answer for at in range(0, len(frames), step) for answer in intake.feed(frames[at : at + step])]
    assert [(answer.sn, len(answer.body)) for answer in answers] == [(0, 0), (1, 1), (30, 30), (500, 500), (0, 0)]


def test_an_answer_longer_than_allowed_is_refused_by_its_header() -> None:
    intake = exchange(max_frame=100).intake()
    with pytest.raises(BadFrame, match="101 bytes"):
        intake.feed(wire(BOX).frame(bytes(77), cmd=1, sn=1)[:24])


@pytest.mark.parametrize(
    ("ret", "family"),
    [
        (Ret.UNKNOWN_CMD, Invalid),
        (Ret.HANDLER_ERROR, Unknown),
        (Ret.WORKER_LOST, Unknown),
        (Ret.QUEUE_FULL, Unavailable),
        (Ret.NO_SUCH_GROUP, Invalid),
        (Ret.DEADLINE, Unknown),
        (Ret.STOPPING, Unavailable),
        (5, Refused),
    ],
)
def test_each_code_is_an_error_of_its_family(ret: int, family: type[RotaError]) -> None:
    with pytest.raises(family, match=rf"cmd 101 was answered with ret {int(ret)}"):
        Answer(ret, b"", 101, 1).raise_for_ret()


def test_every_code_has_a_meaning() -> None:
    for ret in Ret:
        with pytest.raises(RotaError) as caught:
            Answer(ret, b"", 101, 1).raise_for_ret()
        assert not isinstance(caught.value, Refused)


def test_a_refusal_brings_the_answer_along() -> None:
    answer = Answer(5, b"no", 101, 1)
    with pytest.raises(Refused) as caught:
        answer.raise_for_ret()
    assert caught.value.answer is answer


def test_a_body_that_is_no_json_is_named() -> None:
    with pytest.raises(Invalid, match="the answer to cmd 101 is not JSON"):
        Answer(0, b"{", 101, 1).json()


def test_tries_to_connect_come_ever_later_until_one_succeeds() -> None:
    redial, now, pauses = Redial(lambda: 1.0), 0.0, []
    for _ in range(8):
        assert redial.pause(now) == 0
        redial.failed(now, "refused")
        pauses.append(redial.pause(now))
        now += pauses[-1]
    assert pauses[:3] == pytest.approx([FIRST.total_seconds() * factor for factor in (1, 2, 4)])
    assert pauses[-1] == MOST / timedelta(seconds=1)
    redial.failed(now, "refused")
    redial.succeeded()
    assert (redial.pause(now), redial.why) == (0, "")


async def test_a_connection_does_not_wait_with_small_frames_or_for_machines_that_are_gone() -> None:
    async with BoxServer() as server:
        sock = connect(peer(server.address), 5)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == UNANSWERED_MS
        sock.close()


def serve_in_a_thread(servers: list[BoxServer], ready: threading.Event, done: threading.Event) -> None:
    async def run() -> None:
        async with BoxServer() as server:
            servers.append(server)
            ready.set()
            await asyncio.to_thread(done.wait)

    asyncio.run(run())


@pytest.fixture
def served() -> Iterator[BoxServer]:
    """A server in a thread of its own, for tests that block."""
    servers: list[BoxServer] = []
    ready, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=serve_in_a_thread, args=(servers, ready, done))
    thread.start()
    assert ready.wait(60)
    yield servers[0]
    done.set()
    thread.join()


def test_threads_share_a_client(served: BoxServer) -> None:
    with ServiceClient(served.address, size=3) as client, ThreadPoolExecutor(16) as threads:
        bodies = [str(number).encode() for number in range(1000)]
        answers = threads.map(lambda body: client.call(Cmd.ECHO, body).body, bodies)
        assert list(answers) == bodies
    assert served.accepted <= 3


def test_a_forked_process_makes_connections_of_its_own(served: BoxServer) -> None:
    with ServiceClient(served.address, size=1) as client:
        client.call(Cmd.ECHO)
        child = os.fork()
        if child == 0:
            os._exit(0 if client.call(Cmd.ECHO, b"child").body == b"child" else 1)
        assert client.call(Cmd.ECHO, b"parent").body == b"parent"
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert served.accepted == 2


def test_a_program_that_blocks_does_not_pay_for_an_event_loop() -> None:
    code = "import sys; from rota.client import ServiceClient; ServiceClient(':1'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"asyncio", "grpc", "click", "starlette", "rota.client.aio"} & set(loaded) == set()
    rota = "import sys, rota; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", rota], capture_output=True, text=True, check=True).stdout.split()
    assert "rota.client" not in loaded
