"""The admin door: every request gets one clean answer, and nothing that comes in harms it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rota.model.errors import Conflict, RotaError, Unavailable
from rota.services.admin import doors as admin
from rota.services.admin import protocol as admin_protocol
from rota.services.admin.doors import Admins, secret
from rota.services.admin.protocol import Admin, AdminStatus, Cmd, figures
from rota.services.core.admin_spec import AdminSpec
from rota.services.core.frames import BOX, MAGIC, wire
from tests.kit.servers import free_port
from tests.kit.services import MemoryServices
from tests.kit.waiting import eventually

ANYBODY = {"auth": {"username": None, "password": None}, "payload": None}
WIRE = wire(BOX)
ORIGINAL = {
    "clients", "workers", "busy_workers", "idle_workers", "pending_tasks", "client_req", "client_rsp", "worker_req",
    "worker_rsp", "discard_tasks", "tasks_time",
}  # fmt: skip


@pytest.fixture
def services() -> MemoryServices:
    return MemoryServices({"logic": {1: 2, 2: 1}}, {"logic": AdminSpec(address="admin.sock")})


async def nothing() -> None: ...


class Calls:
    """What the door was told to do."""

    def __init__(self) -> None:
        self.stopped = 0

    def stop(self) -> None:
        self.stopped += 1


def admin_of(
    services: MemoryServices,
    reload: Callable[[], Awaitable[object]] = nothing,
    stop: Callable[[], None] = lambda: None,
    username: str = "",
    password: str = "",
) -> Admin:
    return Admin("logic", services, reload, stop, lambda: (username, password))


async def ask(admin: Admin, cmd: int, body: object = ANYBODY) -> tuple[int, Any]:
    """The ret and the content of an answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await admin.answer(WIRE.frame(data, cmd=cmd, sn=7))
    header = WIRE.read(answer)
    assert (header["cmd"], header["sn"], header["packet_len"]) == (cmd, 7, len(answer))
    return header["ret"], json.loads(WIRE.body(answer) or b"null")


async def test_a_stat_has_the_originals_fields_and_ours(services: MemoryServices) -> None:
    services.work("logic", 1, 3, ms=20)
    services.enqueue("logic", 2, 4)
    ret, stat = await ask(admin_of(services), Cmd.STAT)
    assert ret == AdminStatus.DONE
    assert set(stat) >= ORIGINAL
    assert stat["workers"] == {"1": 2, "2": 1}
    assert stat["pending_tasks"] == {"1": 0, "2": 4}
    assert stat["tasks_time"] == {"50": 3}
    assert stat["groups"]["1"]["count"] == 3
    assert stat["in_flight"] == {"1": 0, "2": 0}


def numbers(value: object) -> list[type]:
    return [kind for each in value.values() for kind in numbers(each)] if isinstance(value, dict) else [type(value)]


async def test_a_stat_has_numbers_only_so_that_the_tool_can_subtract_it(services: MemoryServices) -> None:
    services.work("logic", 1)
    assert set(numbers(figures(await services.stat("logic")))) == {int, float}


async def test_clear_drops_what_waits(services: MemoryServices) -> None:
    for group, count in ((1, 5), (2, 3)):
        services.enqueue("logic", group, count)

    def clear(**payload: object) -> Any:
        return ask(admin_of(services), Cmd.CLEAR, {**ANYBODY, "payload": payload})

    assert await clear(group_list=[], all_groups=False) == (AdminStatus.DONE, {})
    assert await clear(group_list=[2], all_groups=False) == (AdminStatus.DONE, {"2": 3})
    assert await clear(group_list=None, all_groups=True) == (AdminStatus.DONE, {"1": 5, "2": 0})
    ret, content = await clear(group_list=[9], all_groups=False)
    assert (ret, content) == (AdminStatus.CANNOT, {"error": 'service "logic" has no group 9; there are 1, 2'})


async def test_reload_is_answered_by_what_came_of_it(services: MemoryServices) -> None:
    async def done() -> object:
        return {"generation": 2, "previous": 1}

    async def refused() -> object:
        raise Conflict("the node is stopping; it takes in no new code")

    assert await ask(admin_of(services, done), Cmd.RELOAD) == (AdminStatus.DONE, {"generation": 2, "previous": 1})
    ret, content = await ask(admin_of(services, refused), Cmd.RELOAD)
    assert (ret, content["error"]) == (AdminStatus.CANNOT, "the node is stopping; it takes in no new code")


async def test_a_long_reload_is_answered_as_begun_and_goes_on(
    services: MemoryServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_protocol, "PATIENCE", 0.01)
    gate, ended = asyncio.Event(), asyncio.Event()

    async def long() -> object:
        await gate.wait()
        ended.set()
        raise Conflict("too late for anybody to hear")

    assert await ask(admin_of(services, long), Cmd.RELOAD) == (AdminStatus.DONE, None)
    gate.set()
    await asyncio.wait_for(ended.wait(), 60)


async def test_stop_stops(services: MemoryServices) -> None:
    calls = Calls()
    assert await ask(admin_of(services, stop=calls.stop), Cmd.STOP) == (AdminStatus.DONE, None)
    assert calls.stopped == 1


@pytest.mark.parametrize("cmd", [*Cmd, 20001])
async def test_who_does_not_know_the_password_gets_nothing(
    services: MemoryServices, cmd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_protocol, "THINK", 0)
    calls = Calls()
    guarded = admin_of(services, stop=calls.stop, username="ann", password="sécret")
    for name, password in [(None, None), ("ann", "x"), ("bob", "sécret"), ("ann", None), ("ann", "sécret "), ("", "")]:
        ret, content = await ask(guarded, cmd, {"auth": {"username": name, "password": password}, "payload": None})
        assert ret == AdminStatus.DENIED
        assert content == {"error": "wrong username or password; give those of admin_username= and admin_password="}
    assert calls.stopped == 0


async def test_who_knows_it_is_let_in(services: MemoryServices) -> None:
    body = {"auth": {"username": "ann", "password": "sécret"}, "payload": None}
    ret, _ = await ask(admin_of(services, username="ann", password="sécret"), Cmd.STAT, body)
    assert ret == AdminStatus.DONE


async def test_a_password_that_cannot_be_looked_up_lets_nobody_in(services: MemoryServices) -> None:
    def credentials() -> tuple[str, str]:
        return "", secret("file:/nowhere/password", {})

    ret, content = await ask(Admin("logic", services, nothing, lambda: None, credentials), Cmd.STAT)
    assert ret == AdminStatus.CANNOT
    assert "nowhere" not in content["error"]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"hello", b"\xff\xfe", b"[]", b"{}", b'{"auth": null}', b'{"auth": {}}', b'{"auth": {"username": "a"}}',
        b'{"auth": {"username": 1, "password": 2}}', b'{"auth": {"username": "\\ud800", "password": ""}}',
        b"[" * 100_000,
    ],
)  # fmt: skip
async def test_a_body_that_is_no_request_is_refused(services: MemoryServices, body: bytes) -> None:
    ret, content = await ask(admin_of(services), Cmd.STAT, body)
    assert ret == AdminStatus.BAD_REQUEST
    assert content["error"].startswith("the body is no admin request")


@pytest.mark.parametrize("payload", [None, [], {}, {"group_list": [1]}, {"group_list": ["1"], "all_groups": False}])
async def test_a_payload_that_is_none_is_refused(services: MemoryServices, payload: object) -> None:
    services.enqueue("logic", 1, 5)
    ret, content = await ask(admin_of(services), Cmd.CLEAR, {**ANYBODY, "payload": payload})
    assert ret == AdminStatus.BAD_REQUEST
    assert content["error"].startswith("the payload is not that of clear")
    assert services.groups["logic"][1].pending == 5


async def test_an_unknown_cmd_is_answered(services: MemoryServices) -> None:
    ret, content = await ask(admin_of(services), 20001)
    assert ret == AdminStatus.UNKNOWN_CMD
    assert content["error"].endswith("there are 20000 stat, 21001 reload, 21003 stop, 21004 clear")


async def test_what_fails_is_answered_as_not_possible(services: MemoryServices) -> None:
    services.silent.add("logic")
    ret, content = await ask(admin_of(services), Cmd.STAT)
    assert (ret, content["error"]) == (AdminStatus.CANNOT, 'the proxy of service "logic" did not answer within 5 s')

    async def broken() -> object:
        raise ZeroDivisionError("by nobody")

    assert (await ask(admin_of(services, broken), Cmd.RELOAD))[0] == AdminStatus.CANNOT


# Doors


@asynccontextmanager
async def doors(folder: Path, services: MemoryServices, environ: dict[str, str] | None = None) -> AsyncIterator[Admins]:
    kept = Admins(folder, services, nothing, lambda: None, environ or {})
    running = asyncio.create_task(kept.run())
    try:
        yield kept
    finally:
        running.cancel()
        await asyncio.wait([running])


async def call(path: Path, data: bytes) -> bytes:
    """What comes back until the door hangs up, or has answered once."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(data)
        header = await reader.read(WIRE.size)
        return header + (await reader.readexactly(WIRE.read(header)["packet_len"] - WIRE.size) if header else b"")
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


STAT = WIRE.frame(json.dumps(ANYBODY).encode(), cmd=Cmd.STAT, sn=1)


async def is_open(path: Path) -> bool:
    return WIRE.read(await call(path, STAT))["ret"] == 0


async def until_open(path: Path) -> None:
    await eventually(lambda: is_open(path), despite=(OSError,))


@pytest.fixture
async def path(tmp_path: Path, services: MemoryServices) -> AsyncIterator[Path]:
    """An open door."""
    async with doors(tmp_path, services):
        await until_open(tmp_path / "admin.sock")
        yield tmp_path / "admin.sock"


async def test_a_socket_is_for_its_user_alone_and_goes_with_the_node(tmp_path: Path, services: MemoryServices) -> None:
    path = tmp_path / "admin.sock"
    async with doors(tmp_path, services):
        await until_open(path)
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


async def test_a_long_path_is_no_obstacle(tmp_path: Path, services: MemoryServices) -> None:
    folder = tmp_path / ("long" * 30) / ("longer" * 20)
    folder.mkdir(parents=True)
    (tmp_path / "short").symlink_to(folder)
    async with doors(folder, services):
        await until_open(tmp_path / "short" / "admin.sock")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\0" * 24, id="wrong magic"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n", id="another protocol"),
        pytest.param(WIRE.frame(b"", cmd=20000)[:8] + (2**31 - 1).to_bytes(4) + bytes(12), id="2 GiB"),
        pytest.param(WIRE.frame(b"", cmd=20000)[:8] + (1024 * 1024 + 1).to_bytes(4) + bytes(12), id="too long"),
        pytest.param(MAGIC.to_bytes(4) + bytes(4) + (23).to_bytes(4) + bytes(12), id="too short"),
        pytest.param(MAGIC.to_bytes(4) + bytes(4) + b"\xff" * 4 + bytes(12), id="less than nothing"),
    ],
)
async def test_what_is_no_frame_is_hung_up_on(path: Path, data: bytes) -> None:
    assert await call(path, data) == b""
    assert await is_open(path)


async def test_requests_in_one_piece_or_byte_by_byte_are_answered_in_order(path: Path) -> None:
    reader, writer = await asyncio.open_unix_connection(path)
    frames = [WIRE.frame(json.dumps(ANYBODY).encode(), cmd=Cmd.STAT, sn=sn) for sn in range(5)]
    writer.write(b"".join(frames[:3]))
    for byte in b"".join(frames[3:]):
        writer.write(bytes([byte]))
        await writer.drain()
    seen = []
    for _ in frames:
        header = WIRE.read(await reader.readexactly(WIRE.size))
        await reader.readexactly(header["packet_len"] - WIRE.size)
        seen.append(header["sn"])
    assert seen == [0, 1, 2, 3, 4]
    writer.close()


async def test_a_caller_who_leaves_in_the_middle_harms_nobody(path: Path) -> None:
    for cut in (0, 1, 23, 24, 30):
        _, writer = await asyncio.open_unix_connection(path)
        writer.write(STAT[:cut])
        writer.close()
    assert await is_open(path)


async def test_who_says_nothing_is_hung_up_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "IDLE", 0.01)
    assert await asyncio.wait_for(call(path, STAT[:10]), 60) == b""


async def test_more_callers_than_there_is_room_for_are_hung_up_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "CONNECTIONS", 2)
    first = await asyncio.open_unix_connection(path)
    second = await asyncio.open_unix_connection(path)
    for _, writer in (first, second):
        writer.write(STAT)
    for reader, _ in (first, second):
        await reader.readexactly(1)
    assert await call(path, STAT) == b""
    first[1].close()
    await eventually(lambda: is_served(path))
    second[1].close()


async def is_served(path: Path) -> bool:
    return bool(await call(path, STAT))


async def test_a_reload_moves_the_door_and_takes_it_away(
    tmp_path: Path, services: MemoryServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "TICK", 0.01)
    old, new = tmp_path / "admin.sock", tmp_path / "other.sock"
    async with doors(tmp_path, services):
        await until_open(old)
        reader, writer = await asyncio.open_unix_connection(old)
        services.doors["logic"] = AdminSpec(address="other.sock")
        await until_open(new)
        assert not old.exists()
        assert await reader.read() == b""
        writer.close()
        services.doors.clear()
        await eventually(lambda: not new.exists())


async def test_what_cannot_be_opened_is_told_and_tried_again(
    tmp_path: Path, services: MemoryServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "TICK", 0.01)
    port = free_port()
    services.doors["logic"] = AdminSpec(address=("127.0.0.1", port))
    with socket.create_server(("127.0.0.1", port)):
        async with doors(tmp_path, services) as kept:
            await eventually(lambda: kept.closed)
            told = {"logic": f"admin tcp://127.0.0.1:{port} is taken; stop what listens there, or choose another"}
            assert kept.closed == told
    async with doors(tmp_path, services) as kept:
        reader, writer = await eventually(lambda: asyncio.open_connection("127.0.0.1", port), despite=(OSError,))
        writer.write(STAT)
        assert WIRE.read(await reader.readexactly(WIRE.size))["ret"] == 0
        assert kept.closed == {}
        writer.close()


async def refusal(folder: Path, services: MemoryServices, environ: dict[str, str] | None = None) -> str:
    """Why the door is not open."""
    async with doors(folder, services, environ) as kept:
        return (await eventually(lambda: kept.closed))["logic"]


async def test_only_a_dead_socket_is_replaced(tmp_path: Path, services: MemoryServices) -> None:
    path = tmp_path / "admin.sock"
    path.write_text("notes")
    assert "is there, and is no socket; choose another path" in await refusal(tmp_path, services)
    assert path.read_text() == "notes"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        assert "is in use by another; choose another path" in await refusal(tmp_path, services)
        assert path.is_socket()
    async with doors(tmp_path, services):
        await until_open(path)


async def test_a_folder_that_is_not_there_is_told(tmp_path: Path, services: MemoryServices) -> None:
    services.doors["logic"] = AdminSpec(address="nowhere/admin.sock")
    assert await refusal(tmp_path, services) == "admin nowhere/admin.sock: No such file or directory; choose another"


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a..b", "x" * 80])
async def test_a_host_that_is_not_there_is_told(tmp_path: Path, services: MemoryServices, host: str) -> None:
    services.doors["logic"] = AdminSpec(address=(host, 9901), password="secret")
    assert (await refusal(tmp_path, services)).startswith(f"admin tcp://{host}:9901: ")


async def test_without_its_password_the_door_stays_closed(tmp_path: Path, services: MemoryServices) -> None:
    services.doors["logic"] = AdminSpec(address="admin.sock", password="env:PASSWORD")
    assert "env:PASSWORD: the variable is not set" in await refusal(tmp_path, services)
    assert not (tmp_path / "admin.sock").exists()


def test_a_secret_is_text_or_stands_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("from the file\n")
    environ = {"PASSWORD": "from the variable"}
    assert secret(None, environ) == ""
    assert secret("plain", environ) == "plain"
    assert secret("with:colon", environ) == "with:colon"
    assert secret("env:PASSWORD", environ) == "from the variable"
    assert secret(f"file:{file}", environ) == "from the file"
    file.write_text("changed")
    assert secret(f"file:{file}", environ) == "changed"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file or directory; write the password into it"),
        (b"\n", "the file is empty; write the password into it"),
        (b"\xff\xfe", "it is no text; write the password into it"),
    ],
)
def test_a_secret_that_is_not_there_is_told(tmp_path: Path, content: bytes | None, says: str) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(RotaError) as told:
        secret(f"file:{file}", {})
    assert says in str(told.value)
    assert isinstance(told.value, Unavailable)
