"""The load generator's ledger is honest: it notices what a dishonest server does to its requests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any

import pytest

from benchmarks.load import Ledger, Load, NoCompiler, Running, build, run
from rota.kit.record import replace
from rota.services.core.codes import Ret
from tests.kit.box_server import BoxServer, Cmd, Visit
from tests.kit.listening import listening
from tests.kit.waiting import eventually


class Dishonest(BoxServer):
    """Plays a trick on every hundredth request."""

    def __init__(self, trick: "Callable[[Dishonest, Visit], None]") -> None:
        super().__init__()
        self.tricks = self.late = 0
        self._trick, self._count = trick, count(1)

    def serve(self, visit: Visit) -> None:
        if next(self._count) % 100:
            return super().serve(visit)
        self.tricks += 1
        return self._trick(self, visit)

    def answer_after(self, seconds: float, visit: Visit) -> None:
        """Answer so much later."""

        def answer() -> None:
            visit.write(self.echo(visit))
            self.late += 1

        asyncio.get_running_loop().call_later(seconds, answer)


def twice(server: BoxServer, visit: Visit) -> None:
    visit.write(2 * server.echo(visit))


def twice_much_later(server: "Dishonest", visit: Visit) -> None:
    visit.write(server.echo(visit))
    server.answer_after(0.05, visit)


def hang_up(server: BoxServer, visit: Visit) -> None:
    visit.transport.close()


def swallow(server: BoxServer, visit: Visit) -> None:
    """Answer nothing."""


def make_up(server: BoxServer, visit: Visit) -> None:
    visit.write(server.wire.reply(visit.frame, 0, b"", {"sn": 1 << 30}) + server.echo(visit))


def garble(server: BoxServer, visit: Visit) -> None:
    visit.write(server.wire.reply(visit.frame, 0, b"something else"))


def refuse(server: BoxServer, visit: Visit) -> None:
    visit.write(server.wire.reply(visit.frame, Ret.QUEUE_FULL))


def answer_late(server: "Dishonest", visit: Visit) -> None:
    server.answer_after(0.3, visit)


def talk_nonsense(server: BoxServer, visit: Visit) -> None:
    visit.write(b"x" * 30)


@pytest.fixture
async def server() -> AsyncIterator[BoxServer]:
    async with BoxServer() as server:
        yield server


PATIENT = 30.0
"""Seconds in which an honest server answers, however busy the machine is."""


async def ask(load: Load) -> Ledger:
    return await asyncio.to_thread(run, load)


async def ask_until(is_enough: Callable[[], bool], load: Load) -> Ledger:
    """Ask for as long as it takes."""
    with Running(replace(load, seconds=120)) as running:
        await eventually(is_enough)
        return await asyncio.to_thread(running.stop)


def is_complete(ledger: Ledger) -> bool:
    """Every request is in exactly one column."""
    ends = ledger.answered + ledger.lost + ledger.unsent + ledger.timed_out + ledger.unanswered
    return ledger.sent == ends and sum(ledger.rets.values()) == ledger.answered


@pytest.mark.parametrize("udp", [False, True], ids=["tcp", "udp"])
@pytest.mark.parametrize("pipeline", [1, 8])
async def test_an_honest_server_has_a_clean_ledger(server: BoxServer, udp: bool, pipeline: int) -> None:
    load = Load(port=server.port, udp=udp, pipeline=pipeline, connections=4, seconds=0.3, echo=True)
    ledger = await ask(replace(load, timeout=PATIENT, linger=PATIENT))
    assert ledger.faults == {}
    assert ledger.sent == ledger.answered == len(server.bodies) > 0
    assert ledger.rets == {0: ledger.answered}
    assert 0 < ledger.p50_us <= ledger.p90_us <= ledger.p99_us <= ledger.max_us
    assert is_complete(ledger)


@pytest.mark.parametrize(
    ("trick", "column"),
    [
        (twice, "twice"),
        (twice_much_later, "twice"),
        (make_up, "strange"),
        (garble, "garbled"),
        (hang_up, "lost"),
        (talk_nonsense, "bad_frames"),
    ],
)
async def test_every_trick_is_counted(trick: Callable[[BoxServer, Visit], None], column: str) -> None:
    is_late = trick is twice_much_later
    async with Dishonest(trick) as server:
        load = Load(port=server.port, connections=3, echo=True, linger=PATIENT)
        ledger = await ask_until(lambda: server.tricks > 5 and server.late > (10 if is_late else -1), load)
        await eventually(lambda: not server.visitors)
    told = getattr(ledger, column)
    # A second answer may come when the load generator has gone.
    assert told == server.tricks or (is_late and 0 < told <= server.tricks)
    assert set(ledger.faults) <= {column, "lost"}
    assert is_complete(ledger)


async def test_a_swallowed_request_is_unanswered_in_the_end() -> None:
    async with Dishonest(swallow) as server:
        ledger = await ask_until(lambda: server.tricks > 0, Load(port=server.port, connections=3, linger=2))
    assert set(ledger.faults) == {"unanswered"}
    assert ledger.unanswered >= server.tricks > 0  # where the machine stands still, an honest answer may come too late
    assert is_complete(ledger)


@pytest.mark.parametrize("udp", [False, True], ids=["tcp", "udp"])
async def test_a_late_answer_is_late_and_not_a_second_one(udp: bool) -> None:
    async with Dishonest(answer_late) as server:
        load = Load(port=server.port, udp=udp, connections=3, timeout=0.1, linger=1)
        ledger = await ask_until(lambda: server.late > 10, load)
    assert ledger.timed_out >= server.tricks > 0  # on a busy machine an honest answer may be late too
    assert 0 < ledger.late <= ledger.timed_out
    assert ledger.twice == 0
    assert is_complete(ledger)


async def test_answers_are_counted_by_their_code() -> None:
    async with Dishonest(refuse) as server:
        ledger = await ask_until(lambda: server.tricks > 0, Load(port=server.port, linger=PATIENT))
    assert ledger.rets[Ret.QUEUE_FULL] == server.tricks
    assert ledger.faults == {}


async def test_a_rate_is_not_exceeded(server: BoxServer) -> None:
    ledger = await ask(Load(port=server.port, connections=4, rate=500, seconds=1, linger=PATIENT))
    assert 0 < ledger.sent <= 501
    assert ledger.faults == {}


class LateRiser(BoxServer):
    """Takes a while for its first request."""

    def serve(self, visit: Visit) -> None:
        if self.bodies:
            return super().serve(visit)
        self.bodies.append(b"")
        asyncio.get_running_loop().call_later(0.3, visit.write, self.echo(visit))
        return None


async def test_requests_that_had_to_wait_for_a_slow_one_count_from_when_they_were_due() -> None:
    async with LateRiser() as server:
        ledger = await ask(Load(port=server.port, connections=1, rate=500, seconds=0.4))
    assert ledger.p50_us > 50_000
    assert is_complete(ledger)


async def test_it_connects_again_to_a_server_that_comes_back(server: BoxServer) -> None:
    with Running(Load(port=server.port, connections=5, seconds=30)) as load:
        await eventually(lambda: len(server.bodies) > 100)
        await server.stop()
        before = len(server.bodies)
        await server.start()
        await eventually(lambda: len(server.bodies) > before + 100)
        ledger = await asyncio.to_thread(load.stop)
    assert ledger.closed == 5
    assert ledger.reconnects >= 5
    assert ledger.lost <= 5
    assert is_complete(ledger)


async def test_until_closed_ends_with_the_last_connection(server: BoxServer) -> None:
    with Running(Load(port=server.port, connections=5, seconds=60, until_closed=True)) as load:
        await eventually(lambda: len(server.bodies) > 100)
        await server.stop()
        ledger = await asyncio.to_thread(load.ledger, within=60)
    assert (ledger.closed, ledger.reconnects) == (5, 0)
    assert is_complete(ledger)


async def test_a_connection_that_heeds_a_ret_asks_no_more(server: BoxServer) -> None:
    ledger = await asyncio.to_thread(
        run, Load(port=server.port, connections=5, cmd=Cmd.QUEUE_FULL, seconds=60, heed=Ret.QUEUE_FULL)
    )
    assert ledger.rets == {Ret.QUEUE_FULL: 5}
    assert ledger.failed_p99_us > 0
    assert is_complete(ledger)


class Greeter(asyncio.Protocol):
    """HTTP as far as a load generator needs it."""

    def __init__(self, more: bytes) -> None:
        self._more = more

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(b"HTTP/1.1 200 OK\r\n" + self._more + b"Content-Length: 5\r\n\r\nhello")
        if self._more:
            self._transport.close()


@pytest.mark.parametrize("more", [b"", b"Connection: close\r\n"], ids=["keep-alive", "close"])
async def test_http_answers_are_counted_too(more: bytes) -> None:
    async with listening(lambda: Greeter(more)) as port:
        ledger = await ask(Load(port=port, http=True, connections=4, seconds=0.3, linger=PATIENT))
    assert ledger.faults == {}
    assert ledger.rets == {0: ledger.answered}
    assert (ledger.reconnects >= ledger.answered - 4) is bool(more)


def test_no_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr("benchmarks.load.CACHE", tmp_path)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NoCompiler, match="install one"):
        build.__wrapped__()
