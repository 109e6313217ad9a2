"""Services with real processes: what handlers may do, and what their clients hear of it: one answer, always."""

import asyncio
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.kit.boxes import HEADER, Asker, box, boxes
from tests.kit.node import workers
from tests.kit.servers import free_port
from tests.kit.service_app import (
    ECHO,
    EXIT,
    HELD,
    INTERRUPT,
    KILL,
    LARGE,
    LATE,
    NONSENSE,
    RAISE,
    SILENT,
    SLOW,
    SPIN,
    STICKY,
    WRITE,
)
from tests.kit.service_trials import crowd, serving
from tests.kit.waiting import eventually

FAILURES = {
    RAISE: -10001,
    NONSENSE: -10001,
    EXIT: -10001,
    INTERRUPT: -10001,
    KILL: -10002,
    LATE: -10005,
    SPIN: -10005,
    STICKY: -10005,
    99: -10000,
}

WAYS: dict[str, dict[str, Any]] = {
    "one at a time": {"options": "groups={1: 2}, udp=True"},
    "threads": {"options": "groups={1: 2}, udp=True, concurrency=4"},
    "loop": {"options": "groups={1: 2}, udp=True, concurrency=4", "is_async": True},
    "spawned": {"options": "groups={1: 2}, udp=True", "app": ', start="spawn"'},
    "portable": {"options": "groups={1: 2}, udp=True", "portable": "1"},
}


@pytest.mark.parametrize("way", WAYS)
async def test_whatever_a_handler_does_costs_one_answer_and_no_capacity(tmp_path: Path, way: str) -> None:
    async with serving(tmp_path, **WAYS[way]) as node:
        with node.client() as tcp, node.client(udp=True) as udp:
            for cmd, ret in FAILURES.items():
                assert (cmd, tcp.ask(cmd).ret) == (cmd, ret)
                await node.at_full_strength()
            for client in (tcp, udp):
                assert client.ask(ECHO, b"hello").body == b"hello"
                assert client.ask(WRITE).body == b"first", "what comes after the first answer is dropped"
                client.send(SILENT)
                assert client.ask(ECHO).ret == 0, "silence is no answer, and nothing else"
            udp.send(RAISE)
            assert udp.receive().ret == -10001


async def test_an_answer_may_be_large_but_not_in_a_datagram(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 1}, udp=True") as node:
        with node.client() as tcp, node.client(udp=True) as udp:
            assert len(tcp.ask(LARGE, b"30000000").body) == 30_000_000
            assert len(udp.ask(LARGE, b"60000").body) == 60_000
            assert udp.ask(LARGE, b"70000").ret == -10001
            assert udp.ask(ECHO).ret == 0


async def test_frames_come_in_any_pieces(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 2}, udp=True") as node:
        with node.client() as client:
            for byte in box(ECHO, b"slowly", 1):
                client.sock.sendall(bytes([byte]))
            assert client.receive().body == b"slowly"
            client.sock.sendall(b"".join(box(ECHO, b"%d" % n, n) for n in range(50)) + box(ECHO, b"half", 50)[:-2])
            assert {client.receive().sn for _ in range(50)} == set(range(50))
            client.sock.sendall(b"lf")
            assert client.receive().body == b"half"
        with node.client(udp=True) as client:
            client.sock.send(box(ECHO, b"a", 1) + box(ECHO, b"b", 2) + box(ECHO, b"never whole", 3)[:-1])
            assert {client.receive().sn for _ in range(2)} == {1, 2}
            client.sock.send(b"garbage" * 10)
            assert client.ask(ECHO, b"c").body == b"c"


async def test_a_worker_killed_with_a_request_costs_that_request_alone(tmp_path: Path) -> None:
    async with serving(tmp_path) as node:
        with node.client() as one, node.client() as other:
            one.send(SLOW, b"30")
            (begun,) = await eventually(lambda: [words for words in node.notes() if words[0] == "begun"])
            other.send(SLOW, b"0.5")
            os.kill(int(begun[2]), signal.SIGKILL)
            assert one.receive().ret == -10002
            assert other.receive().ret == 0
        await node.at_full_strength()


LEAVES_A_CHILD = """

@logic.on(30, group=1)
def parent(request):
    if os.fork() == 0:
        os.setpgid(0, 0)  # or it would end with its parent
        note("child", os.getpid())
        time.sleep(60)
        os._exit(0)
    while not os.path.exists(os.path.join(HERE, "notes")):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
"""


async def test_a_line_that_a_child_of_the_worker_holds_open_ends_with_the_worker(tmp_path: Path) -> None:
    async with serving(tmp_path, extra=LEAVES_A_CHILD) as node:
        with node.client() as client:
            assert client.ask(30).ret == -10002
        (child,) = [int(words[1]) for words in node.notes() if words[0] == "child"]
        with suppress(ProcessLookupError):  # the node may have ended it with its worker
            os.kill(child, signal.SIGKILL)
        await node.at_full_strength()


HOOKS = """

@logic.start_worker
def start_worker():
    note("hook", "start_worker")

@logic.open_conn
def open_conn():
    note("hook", "open_conn")

@logic.before_first_request
def before_first_request(request):
    note("hook", "before_first_request")

@logic.before_request
def before_request(request):
    note("hook", "before_request")

@logic.after_request
def after_request(request, error):
    note("hook", "after_request", type(error).__name__)
    sys.exit(1)

@logic.before_response
def before_response(request, reply):
    note("hook", "before_response")
    raise ValueError("hooks may fail")

@logic.after_response
def after_response(request, reply):
    note("hook", "after_response")

@logic.close_conn
def close_conn():
    note("hook", "close_conn")

@logic.stop_worker
def stop_worker():
    note("hook", "stop_worker")

@logic.every("20ms")
def tick():
    note("tick", os.getpid())
    raise ValueError("timers may fail")
"""


@pytest.mark.parametrize("is_async", [False, True], ids=["one at a time", "loop"])
async def test_hooks_run_in_their_order_and_timers_between_requests(tmp_path: Path, is_async: bool) -> None:
    async with serving(tmp_path, "--grace", "20s", options="groups={1: 1}", extra=HOOKS, is_async=is_async) as node:
        with node.client() as client:
            assert client.ask(ECHO, b"x").body == b"x"
            assert client.ask(RAISE).ret == -10001
        ticks = len(node.notes())
        await eventually(lambda: [words[0] for words in node.notes()[ticks:]].count("tick") >= 3)
    around = ["before_request", "after_request", "before_response", "after_response"]
    assert [words[1] for words in node.notes() if words[0] == "hook"] == [
        *("start_worker", "open_conn", "before_first_request"),
        *around,
        *around,
        *("close_conn", "stop_worker"),
    ]
    assert [words[2] for words in node.notes() if words[:2] == ["hook", "after_request"]] == ["NoneType", "ValueError"]


BLOCKS_ITS_LOOP = """

@logic.on(30, group=1)
async def blocks(request):
    time.sleep(60)
"""


async def test_a_worker_whose_loop_stands_still_is_replaced(tmp_path: Path) -> None:
    flags = ("--stall-after", "2s")
    async with serving(tmp_path, *flags, is_async=True, options="groups={1: 2}", extra=BLOCKS_ITS_LOOP) as node:
        with node.client() as client:
            assert client.ask(30).ret == -10002
            assert client.ask(SLOW, b"3").ret == 0, "a loop that waits does not stand still"
        await node.at_full_strength()


async def test_a_worker_killed_at_its_deadline_leaves_its_stacks_and_an_event(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 1}") as node:
        with node.client() as client:
            assert client.ask(LATE).ret == -10005
        saved = node.data / "stacks"
        await eventually(lambda: any("in late" in file.read_text() for file in saved.glob("*.txt")))
        await eventually(lambda: "worker killed" in node.complaint())
        assert "a request took longer than it may" in node.complaint()


ANSWERS_TOO_LATE = """
import threading


def answer_later(request):
    while not os.path.exists(os.path.join(HERE, "gate")):
        time.sleep(0.01)
    try:
        note("sent", request.write(b"too late"))
    except rota.Invalid as error:
        note("refused", error)


@logic.on(30, group=1)
def hands_over(request):
    threading.Thread(target=answer_later, args=(request,)).start()
"""


async def test_an_answer_after_its_handler_returned_is_refused_with_a_reason(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 1}", extra=ANSWERS_TOO_LATE) as node:
        with node.client() as client:
            client.send(30)
            assert client.ask(ECHO).ret == 0, "the one worker has returned from the first"
        node.gate.touch()
        (words,) = await eventually(node.notes)
        assert " ".join(words).startswith("refused cmd 30: its handler has returned")


LEAVES_SOMETHING_BEHIND = """

from contextvars import ContextVar


class Odd:
    __hash__ = None

    def __eq__(self, other):
        raise ValueError("there is no telling")


of_the_worker, of_a_request = ContextVar("of the worker"), ContextVar("of a request", default="nothing")


@logic.start_worker
async def prepare():
    of_the_worker.set(Odd())


@logic.on(30, group=1)
async def sets(request):
    found = of_a_request.get()
    of_a_request.set("something")
    await asyncio.sleep(0)
    return found


@logic.on(31, group=1)
async def changes(request):
    of_the_worker.set(Odd())
    return type(of_the_worker.get()).__name__


@logic.on(32, group=1)
async def cancels_itself(request):
    asyncio.current_task().cancel()
    return "done"
"""


async def test_requests_in_one_loop_find_nothing_of_each_other(tmp_path: Path) -> None:
    options = "groups={1: 1}, concurrency=4"
    async with serving(tmp_path, is_async=True, options=options, extra=LEAVES_SOMETHING_BEHIND) as node:
        with node.client() as client:
            for cmd, answer in ((30, b"nothing"), (31, b"Odd"), (32, b"done")):
                assert [client.ask(cmd).body for _ in range(3)] == [answer] * 3
                for _ in range(4):
                    client.send(cmd)
                assert [client.receive().body for _ in range(4)] == [answer] * 4


TOGETHER = """

@logic.on(30, group=1)
async def together(request):
    global all_four
    all_four = asyncio.Barrier(4) if request.body == b"first" else all_four
    await all_four.wait()
    return request.body
"""


async def test_as_many_requests_run_at_a_time_as_the_service_says(tmp_path: Path) -> None:
    options = "groups={1: 1}, concurrency=4"
    async with serving(tmp_path, is_async=True, options=options, extra=TOGETHER) as node:
        with node.client() as client:
            for _ in range(2):
                sent = {client.send(30, body) for body in (b"first", b"", b"", b"")}
                assert {client.receive().sn for _ in sent} == sent


async def test_a_worker_with_busy_threads_still_ends(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 1}, concurrency=4") as node:
        (before,) = workers(await node.status(), "service")
        with node.client() as client:
            client.send(SLOW, b"60")
            await eventually(node.notes)
            (proxy,) = [each["pid"] for each in (await node.status())["processes"]["proxies"]]
            os.kill(proxy, signal.SIGKILL)
            await node.until(lambda now: now["is_ready"] and workers(now, "service") not in ([], [before]))
            await eventually(lambda: before not in [each.pid for each in node.family()])


async def test_requests_of_one_client_do_not_keep_others_waiting(tmp_path: Path) -> None:
    async with serving(tmp_path, options="groups={1: 1}, queue=10") as node:
        with node.client() as greedy, node.client() as modest:
            numbers = [greedy.send(HELD) for _ in range(9)]
            refused = [greedy.receive() for _ in range(3)]
            assert {answer.ret for answer in refused} == {-10003}
            modest.send(ECHO, b"x")
            node.gate.touch()
            assert modest.receive().ret == 0
            rets = {answer.sn: answer.ret for answer in (*refused, *(greedy.receive() for _ in range(6)))}
            assert [rets[number] for number in numbers] == [0] * 6 + [-10003] * 3, "half of the queue is for others"


def test_the_client_of_these_tests_reads_what_it_writes() -> None:
    (found,) = boxes(box(7, b"abc", 3))
    assert (found[0].cmd, found[0].sn, found[0].body, found[1]) == (7, 3, b"abc", HEADER.size + 3)


ROUTED = """

def choose(request):
    if request.body == b"fail":
        raise ValueError("no idea")
    if request.body == b"die":
        os.kill(os.getpid(), signal.SIGKILL)
    return int(request.body)


routed = app.service("routed", port={port}, groups={{1: 1, 2: 1}}, route=choose)


@routed.on(1)
def group(request):
    return str(request.group).encode()
"""


async def test_a_routing_function_runs_in_a_worker_of_its_own(tmp_path: Path) -> None:
    port = free_port()
    async with serving(tmp_path, extra=ROUTED.format(port=port)) as node:
        with Asker(port) as client:
            assert [client.ask(1, group).body for group in (b"1", b"2", b"1")] == [b"1", b"2", b"1"]
            assert client.ask(1, b"3").ret == -10004
            assert client.ask(1, b"fail").ret == -10001
            assert client.ask(1, b"die").ret == -10002
            assert client.ask(1, b"2").body == b"2"
            await asyncio.to_thread(node.reload, version=2)
            assert client.ask(1, b"1").body == b"1"


AGAIN = """

@logic.on(30, group=1, idempotent=True)
def once_more(request):
    marker = os.path.join(HERE, "marker")
    if request.body == b"always" or not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return b"at last"
"""


async def test_a_request_that_may_run_again_does_so_once(tmp_path: Path) -> None:
    async with serving(tmp_path, extra=AGAIN) as node:
        with node.client() as client:
            assert client.ask(30).body == b"at last"
            await node.at_full_strength()
            assert client.ask(30, b"always").ret == -10002


async def test_workers_are_recycled_under_load_without_a_loss(tmp_path: Path) -> None:
    async with serving(tmp_path, "--recycle-count", "200") as node:
        before = workers(await node.status(), "service")
        with crowd(node.port) as asking:
            await node.until(lambda now: now["is_ready"] and not set(before) & set(workers(now, "service")), within=30)
        assert (asking.lost, asking.wrong, set(asking.rets)) == (0, 0, {0})


async def test_a_service_listens_to_hosts_of_both_families(tmp_path: Path) -> None:
    async with serving(tmp_path, options='groups={1: 1}, udp=True, host=["127.0.0.1", "::1"]') as node:
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            for sort in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(family, sort) as sock:
                    sock.settimeout(60)
                    sock.connect((host, node.port))
                    sock.send(box(ECHO, b"x", 1))
                    assert sock.recv(100)[-1:] == b"x"
