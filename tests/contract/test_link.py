"""The laws of the node link, on every adapter: the numbers are those of `rota.link.port.NodeLink`.

gRPC is also tried behind a bad network and before a process that is frozen or killed. The link in memory has a network
that can be as bad, in virtual time: `tests/unit/link/test_memory.py`.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from rota.fleet.core.access.gate import Access, Gate, TurnedAway, known
from rota.kit.record import replace
from rota.link import NodeLink, NotMe, TlsFiles, open_link, serve_link
from rota.link.records import Accepted, AttemptId, AttemptRefused, LogPiece, Whom
from rota.model.errors import Conflict, Denied, Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import NodeId, SessionId
from tests.kit.certificates import Authority, serial
from tests.kit.faultproxy import FaultProxy
from tests.kit.link_server import ATTEMPT, BEFORE, CALM, NODE, QUICK, SESSION, STUCK, Desk, dispatch, start
from tests.kit.process import Script
from tests.kit.waiting import eventually

MEBIBYTE = 1024 * 1024
KIBIBYTE = 1024
SHORT = timedelta(milliseconds=300)
"""A time-out for calls that will not be answered."""

TELL = 30.0
"""Seconds in which a call with a time-out of SHORT must have ended; the machine may be busy."""


@pytest.fixture
def desk() -> Desk:
    """The other node."""
    return Desk()


@dataclass
class Place:
    """Where the other node answers."""

    address: str

    @property
    def port(self) -> int:
        """Its port."""
        return int(self.address.rpartition(":")[2])


@pytest.fixture(params=["memory", "grpc"])
async def place(request: pytest.FixtureRequest, desk: Desk) -> AsyncIterator[Place]:
    """The other node's door, on every adapter."""
    address = "memory://b" if request.param == "memory" else "grpc://127.0.0.1:0"
    async with serve_link(address, desk, settings=CALM, grace=timedelta(seconds=1)) as server:
        yield Place(server.address)


@pytest.fixture
async def link(place: Place) -> AsyncIterator[NodeLink]:
    """A link to it."""
    async with open_link(place.address, settings=CALM) as link:
        yield link


async def everything(link: NodeLink) -> list[object]:
    """What each operation of a link returns or raises."""
    answers = await asyncio.gather(
        link.check(), link.dispatch_many([start()]), link.read_log(ATTEMPT), return_exceptions=True
    )
    return list(answers)


# Law 1: a link may say whom it means; another node or session refuses everything, and nothing happens.


async def test_law_1_a_check_says_who_answers(link: NodeLink, desk: Desk) -> None:
    assert await link.check() == desk.is_at


@pytest.mark.parametrize("meant", [Whom(node=NODE), Whom(node=NODE, session=SESSION)], ids=str)
async def test_law_1_the_one_that_is_meant_answers(place: Place, desk: Desk, meant: Whom) -> None:
    async with open_link(place.address, meant=meant, settings=CALM) as link:
        assert (await link.check()).node == NODE
        assert await dispatch(link, start()) == Accepted()
        assert await link.read_log(ATTEMPT) == LogPiece(b"", is_last=False)


@pytest.mark.parametrize("meant", [Whom(node=NodeId("c")), BEFORE], ids=str)
async def test_law_1_another_node_or_session_refuses_everything(place: Place, desk: Desk, meant: Whom) -> None:
    async with open_link(place.address, meant=meant, settings=CALM) as link:
        for refusal in await everything(link):
            assert isinstance(refusal, NotMe)
            assert (refusal.meant, refusal.node, refusal.session) == (meant, NODE, SESSION)
    assert not desk.was_asked


async def test_law_1_a_node_that_begins_a_new_session_is_not_the_one_any_more(place: Place, desk: Desk) -> None:
    meant = Whom(node=NODE, session=SESSION)
    async with open_link(place.address, meant=meant, settings=CALM) as link:
        await link.check()
        desk.is_at = replace(desk.is_at, session=SessionId("b-2"))
        with pytest.raises(NotMe, match="session b-2 is here; look its address up again"):
            await link.check()


# Law 2: a start reaches the handler once per run, attempt and epoch; each has its own answer.


async def test_law_2_a_start_arrives_whole(link: NodeLink, desk: Desk) -> None:
    sent = start(payload=bytes(range(256)))
    assert await link.dispatch_many([sent, start("other")]) == [Accepted(), Accepted()]
    assert desk.starts == [sent, start("other")]


async def test_law_2_the_same_start_again_gets_the_same_answer(link: NodeLink, desk: Desk) -> None:
    first = await dispatch(link, start())
    desk.answer = AttemptRefused(why="full")
    assert await dispatch(link, start()) == first
    assert len(desk.starts) == 1


async def test_law_2_a_refusal_is_an_answer_like_another(link: NodeLink, desk: Desk) -> None:
    desk.answer = AttemptRefused(why="no free executor")
    assert await dispatch(link, start()) == AttemptRefused(why="no free executor")
    desk.answer = Accepted()
    assert await dispatch(link, start()) == AttemptRefused(why="no free executor")
    assert await dispatch(link, start(attempt=2)) == Accepted()


async def test_law_2_starts_that_travel_together_have_their_own_answers(link: NodeLink, desk: Desk) -> None:
    assert await link.dispatch_many([start("old", epoch=7), start("known")]) == [Accepted(), Accepted()]
    desk.answer = AttemptRefused(why="full")
    sent = [start("new"), start("known"), start("old", epoch=6), start("new", attempt=2)]
    new, again, stale, other = await link.dispatch_many(sent)
    assert (new, again, other) == (AttemptRefused(why="full"), Accepted(), AttemptRefused(why="full"))
    why = "run old, attempt 1: epoch 6 is over, the present one is 7; read its assignment again"
    assert stale == AttemptRefused(why=why)
    assert [each.attempt.run for each in desk.starts] == ["old", "known", "new", "new"]
    assert await dispatch(link, start("new")) == new, "in whatever company, it is the same start"
    assert await link.dispatch_many([]) == []


@pytest.mark.parametrize("family", [Invalid, Denied, Conflict, Unavailable])
async def test_law_2_what_is_wrong_with_one_start_is_its_refusal(
    link: NodeLink, desk: Desk, family: type[RotaError]
) -> None:
    desk.answer = family("no executors today")
    assert await link.dispatch_many([start("a"), start("b")]) == [AttemptRefused(why="no executors today")] * 2
    desk.answer = Accepted()
    assert await dispatch(link, start("a")) == Accepted(), "what failed was no answer, and the next try is a new one"


async def test_law_2_starts_at_the_same_time_are_one(place: Place, link: NodeLink, desk: Desk) -> None:
    desk.open.clear()
    async with open_link(place.address, settings=CALM) as other:
        asked = [asyncio.ensure_future(dispatch(way, start())) for way in (link, other, link)]
        await eventually(lambda: desk.starts)
        assert not any(one.done() for one in asked)
        desk.open.set()
        assert await asyncio.gather(*asked) == [Accepted()] * 3
    assert len(desk.starts) == 1


async def test_law_2_a_start_goes_on_when_its_caller_gave_up(link: NodeLink, desk: Desk) -> None:
    desk.open.clear()
    with pytest.raises(Unknown):
        await dispatch(link, start(), timeout=SHORT)
    desk.open.set()
    assert await dispatch(link, start()) == Accepted()
    assert len(desk.starts) == 1


async def test_law_2_under_a_later_epoch_it_is_another_start(link: NodeLink, desk: Desk) -> None:
    await dispatch(link, start(epoch=5))
    desk.answer = AttemptRefused(why="full")
    assert await dispatch(link, start(epoch=6)) == AttemptRefused(why="full")
    assert [each.epoch for each in desk.starts] == [5, 6]


# Law 3: a piece of a log begins at the offset asked for, has at most 64 KiB, and says whether the log ends with it.


@pytest.mark.parametrize("offset", [0, 1, 65_536, 200_000, 299_999])
async def test_law_3_pieces_fit_on_to_each_other_to_the_end(link: NodeLink, desk: Desk, offset: int) -> None:
    desk.log, desk.log_has_ended = bytes(range(250)) * 1200, True
    found, is_last = b"", False
    while not is_last:
        piece = await link.read_log(ATTEMPT, offset + len(found))
        found, is_last = found + piece.data, piece.is_last
        assert 0 < len(piece.data) <= 64 * KIBIBYTE
    assert found == desk.log[offset:]
    assert desk.reads[0] == (ATTEMPT, offset)


async def test_law_3_a_log_that_grows_has_no_last_piece(link: NodeLink, desk: Desk) -> None:
    assert await link.read_log(ATTEMPT) == LogPiece(b"", is_last=False)
    desk.log = b"one\n"
    assert await link.read_log(ATTEMPT) == LogPiece(b"one\n", is_last=False)
    assert await link.read_log(ATTEMPT, 4) == LogPiece(b"", is_last=False)
    desk.log, desk.log_has_ended = b"one\ntwo\n", True
    assert await link.read_log(ATTEMPT, 4) == LogPiece(b"two\n", is_last=True)
    assert await link.read_log(ATTEMPT, 8) == LogPiece(b"", is_last=True)
    assert await link.read_log(ATTEMPT, 2**62) == LogPiece(b"", is_last=True)


async def test_law_3_a_full_piece_is_the_last_only_if_it_is(link: NodeLink, desk: Desk) -> None:
    desk.log, desk.log_has_ended = bytes(64 * KIBIBYTE), True
    assert await link.read_log(ATTEMPT) == LogPiece(desk.log, is_last=True)
    desk.log += b"x"
    assert (await link.read_log(ATTEMPT)).is_last is False
    assert await link.read_log(ATTEMPT, 64 * KIBIBYTE) == LogPiece(b"x", is_last=True)


# Law 4: every call ends within its time-out; what certainly did not happen is Unavailable, the rest Unknown.


async def test_law_4_what_was_sent_and_not_answered_is_unknown_unless_it_only_reads(link: NodeLink, desk: Desk) -> None:
    await link.check()
    desk.open.clear()
    began, enough = time.monotonic(), timedelta(seconds=1)  # to get there
    with pytest.raises(Unknown):
        await link.dispatch_many([start()], timeout=enough)
    with pytest.raises(Unavailable):
        await link.read_log(ATTEMPT, timeout=enough)
    assert time.monotonic() - began < TELL
    assert (len(desk.starts), len(desk.reads)) == (1, 1)
    desk.open.set()


@pytest.mark.parametrize("address", ["memory://nobody", "grpc://127.0.0.1:9", "grpc://[::1]:9"])
async def test_law_4_nobody_there_is_unavailable(address: str) -> None:
    async with open_link(address, settings=CALM) as link:
        answers = await asyncio.wait_for(everything(link), TELL)
    assert [type(answer) for answer in answers] == [Unavailable] * 3
    assert all(address in str(answer) for answer in answers)


@pytest.mark.parametrize("family", [Invalid, Denied, Conflict, Unavailable, Unknown])
async def test_law_4_what_the_handler_raises_reaches_the_caller(
    link: NodeLink, desk: Desk, family: type[RotaError]
) -> None:
    desk.answer = family("no; do something else")
    with pytest.raises(family, match=r"^no; do something else$") as raised:
        await link.read_log(ATTEMPT)
    assert type(raised.value) is family


async def test_law_4_a_handler_with_a_bug_is_logged_and_not_told(
    link: NodeLink, desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.answer = ZeroDivisionError("secret detail")
    with pytest.raises(Unknown) as starting:
        await link.dispatch_many([start()])
    with pytest.raises(Unavailable) as reading:
        await link.read_log(ATTEMPT)
    assert "secret" not in f"{starting.value}{reading.value}"
    assert "secret detail" in caplog.text
    await link.check()


async def test_law_4_a_closed_link_says_so(place: Place) -> None:
    async with open_link(place.address, settings=CALM) as link:
        await link.check()
    for answer in await everything(link):
        assert isinstance(answer, Unavailable)
        assert "closed" in str(answer)


async def test_law_4_closing_a_link_ends_what_is_under_way(place: Place, desk: Desk) -> None:
    desk.open.clear()
    async with open_link(place.address, settings=CALM) as link:
        starting = asyncio.ensure_future(link.dispatch_many([start()]))
        reading = asyncio.ensure_future(link.read_log(ATTEMPT))
        await eventually(lambda: desk.starts and desk.reads)
    ended = await asyncio.wait_for(asyncio.gather(starting, reading, return_exceptions=True), TELL)
    assert [type(each) for each in ended] == [Unknown, Unavailable]
    desk.open.set()


async def test_law_4_a_cancelled_call_is_cancelled(link: NodeLink, desk: Desk) -> None:
    desk.open.clear()
    calls = [asyncio.ensure_future(link.dispatch_many([start()])), asyncio.ensure_future(link.read_log(ATTEMPT))]
    await eventually(lambda: desk.starts and desk.reads)
    for call in calls:
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    desk.open.set()
    await link.check()


# Law 5 on both adapters: a door that closes and opens again; on gRPC: bad networks, frozen and killed peers.


@pytest.mark.parametrize("address", ["memory://b", "grpc://127.0.0.1:0"])
async def test_law_5_a_door_that_closes_finishes_what_is_under_way(address: str) -> None:
    desk = Desk()
    desk.open.clear()
    desk.log = b"all"
    patience = timedelta(seconds=60)
    async with serve_link(address, desk, settings=QUICK, grace=patience) as server:
        async with open_link(server.address, settings=QUICK) as link:
            starting = asyncio.ensure_future(dispatch(link, start(), timeout=patience))
            reading = asyncio.ensure_future(link.read_log(ATTEMPT, timeout=patience))
            await eventually(lambda: desk.starts and desk.reads)
            closing = asyncio.ensure_future(server.close(patience))
            await asyncio.sleep(0)
            assert not starting.done()
            desk.open.set()
            assert await starting == Accepted()
            assert (await reading).data == b"all"
            await closing
            with pytest.raises(Unavailable):
                await link.check()


@pytest.mark.parametrize("address", ["memory://b", "grpc://127.0.0.1:0"])
async def test_law_5_a_door_that_closes_does_not_wait_for_ever(address: str) -> None:
    desk = Desk()
    desk.open.clear()
    patience = timedelta(seconds=60)
    async with serve_link(address, desk, settings=QUICK) as server:
        async with open_link(server.address, settings=QUICK) as link:
            starting = asyncio.ensure_future(link.dispatch_many([start()], timeout=patience))
            reading = asyncio.ensure_future(link.read_log(ATTEMPT, timeout=patience))
            await eventually(lambda: desk.starts and desk.reads)
            await asyncio.wait_for(server.close(timedelta(milliseconds=100)), 30)
            with pytest.raises(Unknown):
                await starting
            with pytest.raises(Unavailable):
                await reading


@pytest.mark.parametrize("address", ["memory://b", "grpc://127.0.0.1:0"])
async def test_law_5_the_link_works_again_when_the_door_is_open_again(address: str, desk: Desk) -> None:
    async with serve_link(address, desk, settings=QUICK) as server:
        address = server.address
        async with open_link(address, settings=QUICK) as link:
            await link.check()
            await server.close(timedelta())
            with pytest.raises(Unavailable):
                await link.check()
            async with serve_link(address, desk, settings=QUICK):
                await eventually(link.check, within=30, despite=(Unavailable,))


@pytest.fixture
async def served(desk: Desk) -> AsyncIterator[Place]:
    """A door on gRPC."""
    async with serve_link("grpc://127.0.0.1:0", desk, settings=QUICK) as server:
        yield Place(server.address)


@pytest.fixture
async def network(served: Place) -> AsyncIterator[FaultProxy]:
    """A bad network before it."""
    async with FaultProxy(served.port) as proxy:
        yield proxy


@pytest.fixture
async def far(network: FaultProxy) -> AsyncIterator[NodeLink]:
    """A link through it, connected."""
    async with open_link(f"grpc://127.0.0.1:{network.port}", settings=QUICK) as link:
        await link.check()
        yield link


async def test_law_5_a_cut_ends_calls_and_the_link_comes_back(far: NodeLink, network: FaultProxy, desk: Desk) -> None:
    desk.open.clear()
    starting = asyncio.ensure_future(far.dispatch_many([start()]))
    reading = asyncio.ensure_future(far.read_log(ATTEMPT))
    await eventually(lambda: desk.starts and desk.reads)
    network.cut()
    with pytest.raises(Unknown):
        await starting
    with pytest.raises(Unavailable):
        await reading
    desk.open.set()
    answer = await eventually(lambda: dispatch(far, start()), within=30, despite=(Unavailable, Unknown))
    assert answer == Accepted()
    assert len(desk.starts) == 1


async def test_law_5_a_refusing_network_is_unavailable_and_the_link_comes_back(
    far: NodeLink, network: FaultProxy
) -> None:
    await network.refuse()
    await eventually(lambda: _fails(far, Unavailable))
    with pytest.raises((Unavailable, Unknown)):
        await dispatch(far, start(), timeout=SHORT)
    await network.heal()
    await eventually(far.check, within=30, despite=(Unavailable,))


async def _fails(link: NodeLink, family: type[RotaError]) -> bool:
    try:
        await link.check(timeout=SHORT)
    except family:
        return True
    return False


@pytest.mark.parametrize("fault", ["freeze", "hold_requests", "hold_answers"])
async def test_law_5_a_frozen_or_half_cut_network_costs_no_more_than_the_time_out(
    far: NodeLink, network: FaultProxy, fault: str
) -> None:
    getattr(network, fault)()
    began = time.monotonic()
    with pytest.raises(Unavailable):
        await far.check(timeout=SHORT)
    with pytest.raises(Unavailable):
        await far.read_log(ATTEMPT, timeout=SHORT)
    with pytest.raises((Unknown, Unavailable)):
        await dispatch(far, start(), timeout=SHORT)
    assert time.monotonic() - began < TELL
    await network.heal()
    await eventually(far.check, within=30, despite=(Unavailable,))


async def test_law_5_a_connection_that_is_stranded_is_replaced(far: NodeLink, network: FaultProxy) -> None:
    network.strand()  # the old connection and what is in it are stuck; new ones are fine
    await eventually(lambda: far.check(timeout=SHORT), within=30, despite=(Unavailable,))


async def test_law_5_a_long_way_is_no_fault(network: FaultProxy) -> None:
    network.latency = 0.15
    async with open_link(f"grpc://127.0.0.1:{network.port}", settings=CALM) as link:
        assert (await link.check()).node == NODE


async def test_law_5_a_frozen_process_is_noticed_and_welcome_back(tmp_path: Path) -> None:
    with Script("link_server", "grpc://127.0.0.1:0", output=tmp_path / "server") as server:
        address = (await eventually(lambda: server.lines() or None))[0]
        async with open_link(address, settings=QUICK) as link:
            await link.check()
            server.freeze()
            began = time.monotonic()
            with pytest.raises((Unknown, Unavailable)):  # it was sent, or the connection counted as dead before
                await dispatch(link, start("frozen"), timeout=SHORT)
            with pytest.raises(Unavailable):
                await link.read_log(ATTEMPT, timeout=SHORT)
            assert time.monotonic() - began < TELL
            # by now the connection itself counts as dead: what is asked next is not sent at all
            await eventually(lambda: _is_not_sent(link), within=30)
            server.thaw()
            await eventually(link.check, within=30, despite=(Unavailable,))


async def _is_not_sent(link: NodeLink) -> bool:
    try:
        await dispatch(link, start("not sent"), timeout=SHORT)
    except Unavailable:
        return True
    except Unknown:
        return False
    raise AssertionError("a frozen process answered")


async def test_law_5_a_process_whose_loop_stands_still_costs_the_time_out(tmp_path: Path) -> None:
    with Script("link_server", "grpc://127.0.0.1:0", output=tmp_path / "server") as server:
        address = (await eventually(lambda: server.lines() or None))[0]
        async with open_link(address, settings=QUICK) as link:
            await link.check()
            with pytest.raises(Unknown):
                await dispatch(link, start(STUCK), timeout=timedelta(seconds=2))  # in which it must get there
            with pytest.raises(Unavailable):
                await asyncio.wait_for(link.read_log(ATTEMPT, timeout=SHORT), TELL)


async def test_law_5_a_killed_process_is_noticed_at_once_and_its_successor_found(tmp_path: Path) -> None:
    with Script("link_server", "grpc://127.0.0.1:0", output=tmp_path / "first") as first:
        address = (await eventually(lambda: first.lines() or None))[0]
        async with open_link(address, settings=QUICK) as link:
            await link.check()
            stuck = asyncio.ensure_future(dispatch(link, start(STUCK), timeout=timedelta(seconds=60)))
            await eventually(lambda: len(first.lines()) > 1)
            first.kill()
            with pytest.raises(Unknown):
                await asyncio.wait_for(stuck, TELL)
            with Script("link_server", address, output=tmp_path / "second"):
                await eventually(link.check, within=30, despite=(Unavailable,))


# Law 6: a record beyond the limits is Invalid, naming the limit, before anything is sent.


async def test_law_6_four_mebibytes_pass(link: NodeLink, desk: Desk) -> None:
    payload = bytes(4 * MEBIBYTE - 64)
    assert await dispatch(link, start(payload=payload)) == Accepted()
    assert desk.starts == [start(payload=payload)]


async def test_law_6_more_is_refused_with_its_size(link: NodeLink, desk: Desk) -> None:
    size = 4 * MEBIBYTE + 1
    with pytest.raises(Invalid, match=rf"payload of run nightly/1, attempt 1 has {size} bytes; at most 4194304 pass"):
        await link.dispatch_many([start(payload=bytes(size))])
    half = bytes(2 * MEBIBYTE)
    with pytest.raises(Invalid, match=r"2 starts has 4194432 bytes; at most 4194304 pass, so send fewer at a time"):
        await link.dispatch_many([start("a", payload=half), start("b", payload=half)])
    assert not desk.was_asked


async def test_law_6_what_makes_no_sense_is_refused(link: NodeLink, desk: Desk) -> None:
    for bad in (start(""), start("x" * 513), start(attempt=0), start(epoch=-1), start(epoch=2**63), start("\ud800")):
        with pytest.raises(Invalid):
            await link.dispatch_many([start(), bad])
    for attempt, offset in ((ATTEMPT, -1), (ATTEMPT, 2**63), (AttemptId("", 1), 0), (AttemptId("r", 0), 0)):
        with pytest.raises(Invalid):
            await link.read_log(attempt, offset)
    with pytest.raises(Invalid, match="log offset is -1"):
        await link.read_log(ATTEMPT, -1)
    assert not desk.was_asked


# Law 7: a slow handler holds up nothing but itself.


async def test_law_7_slow_ones_hold_up_nobody_else(link: NodeLink, desk: Desk) -> None:
    desk.open.clear()
    starting = asyncio.ensure_future(dispatch(link, start()))
    reading = asyncio.ensure_future(link.read_log(ATTEMPT))
    await eventually(lambda: desk.starts and desk.reads)
    for _ in range(50):
        await link.check(timeout=timedelta(seconds=60))
    desk.open.set()
    assert await starting == Accepted()
    assert await reading == LogPiece(b"", is_last=False)


# Law 8: what the door does not admit is Denied, and nothing reaches the handler.


@pytest.mark.parametrize("address", ["memory://guarded", "grpc://127.0.0.1:0"])
async def test_law_8_what_the_door_does_not_admit_is_denied(desk: Desk, address: str) -> None:
    gate = Gate((known("rota_boss", Access.NODE),), "see: cat data/token")

    def admit(_: str, authorization: str | None) -> TurnedAway | None:
        judged = gate.judge(authorization, Access.NODE, datetime.now(UTC))
        return judged if isinstance(judged, TurnedAway) else None

    async with serve_link(address, desk, settings=CALM, admit=admit) as server:
        for token, words in ((None, "needs a token"), ("rota_other", "is not known here")):
            async with open_link(server.address, token=token, settings=CALM) as link:
                for refusal in await everything(link):
                    assert isinstance(refusal, Denied), refusal
                    assert words in str(refusal)
        assert not desk.was_asked
        async with open_link(server.address, token="rota_boss", settings=CALM) as link:
            assert (await link.check()).node == NODE


# Opening: what concerns one adapter only.


@pytest.mark.parametrize("address", ["memory://b", "grpc://127.0.0.1:0", "grpc://[::1]:0", "grpc://localhost:0"])
async def test_a_door_says_where_it_is(address: str) -> None:
    async with serve_link(address, Desk()) as server:
        assert not server.address.endswith(":0")
        async with open_link(server.address) as link:
            assert (await link.check()).node == NODE


@pytest.mark.parametrize("address", ["memory://b", "grpc://127.0.0.1:0"])
async def test_a_place_that_is_taken_is_a_conflict(address: str) -> None:
    async with serve_link(address, Desk()) as server:
        with pytest.raises(Conflict, match=f"{server.address} is taken; .* choose another"):
            async with serve_link(server.address, Desk()):
                pass


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
async def test_a_place_of_another_machine_is_invalid(host: str) -> None:
    with pytest.raises(Invalid, match=host):
        async with serve_link(f"grpc://{host}:0", Desk()):
            pass


def tls_files(folder: Path, authority: trustme.CA, name: str) -> TlsFiles:
    """A node's certificate for `name`, signed by `authority`."""
    folder.mkdir()
    issued = authority.issue_cert(name)
    issued.private_key_pem.write_to_path(folder / "key.pem")
    for number, part in enumerate(issued.cert_chain_pems):
        part.write_to_path(folder / "cert.pem", append=number > 0)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    return TlsFiles(cert=folder / "cert.pem", key=folder / "key.pem", ca=folder / "ca.pem")


@pytest.fixture
def authority() -> trustme.CA:
    """Who signs the fleet's certificates."""
    return trustme.CA()


async def test_nodes_of_one_authority_talk_over_tls(tmp_path: Path, authority: trustme.CA) -> None:
    ours, theirs = (tls_files(tmp_path / name, authority, "127.0.0.1") for name in "ab")
    async with serve_link("grpc://127.0.0.1:0", Desk(), tls=theirs) as server:
        async with open_link(server.address, tls=ours) as link:
            assert (await link.check()).node == NODE
            assert await dispatch(link, start()) == Accepted()


async def test_a_certificate_of_another_name_needs_that_name(tmp_path: Path, authority: trustme.CA) -> None:
    ours, theirs = tls_files(tmp_path / "a", authority, "a.fleet"), tls_files(tmp_path / "b", authority, "b.fleet")
    async with serve_link("grpc://127.0.0.1:0", Desk(), tls=theirs) as server:
        async with open_link(server.address, tls=ours, settings=QUICK) as link:
            with pytest.raises(Unavailable):
                await link.check()
        async with open_link(server.address, tls=replace(ours, server_name="b.fleet")) as link:
            assert (await link.check()).node == NODE


async def test_a_stranger_and_the_unencrypted_are_turned_away(tmp_path: Path, authority: trustme.CA) -> None:
    theirs = tls_files(tmp_path / "b", authority, "127.0.0.1")
    stranger = tls_files(tmp_path / "s", trustme.CA(), "127.0.0.1")
    knows_ca = replace(stranger, ca=theirs.ca)
    desk = Desk()
    async with serve_link("grpc://127.0.0.1:0", desk, tls=theirs) as server:
        for shown in (None, stranger, knows_ca):
            async with open_link(server.address, tls=shown, settings=QUICK) as link:
                answers = await everything(link)
                assert all(isinstance(answer, Unavailable | Unknown) for answer in answers)
    assert not desk.was_asked


async def test_certificates_that_do_not_fit_are_invalid(tmp_path: Path, authority: trustme.CA) -> None:
    ours, theirs = (tls_files(tmp_path / name, authority, "127.0.0.1") for name in "ab")
    with pytest.raises(Invalid, match="must be PEM files that fit together"):
        async with open_link("grpc://127.0.0.1:1", tls=replace(ours, key=theirs.key)):
            pass
    with pytest.raises(Invalid, match=r"cannot read ca .*nowhere.pem: No such file"):
        async with serve_link("grpc://127.0.0.1:0", Desk(), tls=replace(ours, ca=tmp_path / "nowhere.pem")):
            pass
    with pytest.raises(Invalid, match="no TLS within one process"):
        async with open_link("memory://b", tls=ours):
            pass


async def test_a_node_whose_certificate_was_revoked_is_not_called_any_more(tmp_path: Path) -> None:
    root = Authority(tmp_path)
    ours, theirs = (_files(root.issue(name)) for name in ("a", NODE))
    revoked: set[str] = set()
    async with serve_link("grpc://127.0.0.1:0", Desk(), tls=theirs) as server:
        async with open_link(server.address, tls=ours, is_revoked=revoked.__contains__) as link:
            assert (await link.check()).node == NODE
            revoked.add(serial(theirs.cert.parent))
            with pytest.raises(Unavailable, match=f"was revoked; give {NODE} another"):
                await link.check()
            revoked.clear()
            assert (await link.check()).node == NODE


async def test_a_node_with_anothers_certificate_is_not_called(tmp_path: Path) -> None:
    root, desk = Authority(tmp_path), Desk()
    ours, theirs = (_files(root.issue(name)) for name in ("a", "c"))
    async with serve_link("grpc://127.0.0.1:0", desk, tls=theirs) as server:
        async with open_link(server.address, meant=Whom(node=NODE, session=SESSION), tls=ours) as link:
            with pytest.raises(Unavailable, match=f"its certificate is of node c, not of {NODE}"):
                await dispatch(link, start())
    assert not desk.was_asked


def _files(folder: Path) -> TlsFiles:
    return TlsFiles(cert=folder / "cert.pem", key=folder / "key.pem", ca=folder / "ca.pem")
