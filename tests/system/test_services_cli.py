"""`rota services` as a user runs it, against a control socket with services in memory behind it."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rota import __version__
from rota.compose.doors import verbs
from rota.compose.state import NodeState
from rota.kit.time.clock import SYSTEM
from rota.model.ids import NodeId
from rota.runtime import control_socket
from rota.services.admin.doors import Admins
from rota.services.core.admin_spec import AdminSpec
from tests.kit.cli import ROTA, Answer, rota
from tests.kit.services import MemoryServices


@asynccontextmanager
async def node(folder: Path, services: MemoryServices | None, name: str = "a") -> AsyncIterator[list[bool]]:
    """A node's control socket below .rota in `folder`; how it was asked to stop."""
    place = folder / ".rota" / name
    place.mkdir(parents=True)
    asked: list[bool] = []
    state = NodeState(NodeId(name), SYSTEM)
    state.services = services
    async with control_socket.serve(place, verbs(state, asked.append)):
        yield asked


async def run(folder: Path, *arguments: object) -> Answer:
    return await asyncio.to_thread(rota, "services", *arguments, cwd=folder)


@pytest.fixture
def services() -> MemoryServices:
    admin = {"logic": AdminSpec(address=("127.0.0.1", 9901))}
    made = MemoryServices({"logic": {1: 8, 2: 2}}, admin)
    made.work("logic", 1, 100, ms=20)
    made.work("logic", 2, 1, ms=9000)
    made.enqueue("logic", 2, 5)
    made.failures["worker lost"] = 3
    return made


async def test_ls_tells_where_services_listen_and_who_is_silent(tmp_path: Path) -> None:
    both = MemoryServices({"logic": {1: 8, 2: 2}, "chat": {1: 1}}, {"chat": AdminSpec(address="admin.sock")})
    both.silent.add("chat")
    both.enqueue("logic", 2, 5)
    async with node(tmp_path, both):
        table = await run(tmp_path, "ls")
        shown = json.loads((await run(tmp_path, "ls", "-o", "json")).out)
    assert table.code == 0
    heading, logic, chat = table.out.splitlines()
    assert heading.split() == ["NODE", "SERVICE", "LISTENING", "ADMIN", "CLIENTS", "WORKERS", "BUSY", "PENDING"]
    assert logic.split() == ["a", "logic", "tcp://127.0.0.1:9900", "1", "10", "0", "5"]
    assert 'the proxy of service "chat" did not answer within 5 s  admin.sock' in chat
    assert [each["service"] for each in shown] == ["logic", "chat"]
    assert shown[0]["stat"]["pending_tasks"] == {"1": 0, "2": 5}
    assert (shown[1]["stat"], shown[1]["admin"], shown[1]["admin_closed"]) == (None, "admin.sock", None)


async def test_ls_tells_which_admin_door_is_closed(tmp_path: Path, services: MemoryServices) -> None:
    state = NodeState(NodeId("a"), SYSTEM)
    state.services = services
    state.admins = Admins(tmp_path, services, asyncio.Event().wait, lambda: None)
    state.admins.closed["logic"] = "admin tcp://127.0.0.1:9901 is taken"
    async with control_socket.serve(tmp_path, verbs(state, lambda _: None)):
        answer = await run(tmp_path, "ls", "--data", tmp_path)
    assert "closed: admin tcp://127.0.0.1:9901 is taken" in answer.out


async def test_stat_shows_groups_cmds_and_failures(tmp_path: Path, services: MemoryServices) -> None:
    async with node(tmp_path, services):
        answer = await run(tmp_path, "stat")  # there is one service
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0].startswith("logic on node a: tcp://127.0.0.1:9900; generation 1, up 12s, 1 proxy")
    assert lines[1] == "1 client; 106 requests and 101 answers"
    groups = [line.split() for line in lines[3:6]]
    assert [row[:9] for row in groups] == [
        ["all", "10", "0", "10", "5", "0", "101", "101", "0"],
        ["1", "8", "0", "8", "0", "0", "100", "100", "0"],
        ["2", "2", "0", "2", "5", "0", "1", "1", "0"],
    ]
    assert [float(cell) for cell in groups[1][9:]] == pytest.approx([20, 20, 20], rel=0.07)
    assert lines[6].split() == ["CMD", "DONE", "P50", "MS", "P90", "MS", "P99", "MS"]
    assert lines[7].split()[:2] == ["101", "100"]
    assert lines[8:] == ["failures: worker lost 3", "took: <50 ms 100, more 1"]


async def test_stat_takes_so_many_samples(tmp_path: Path, services: MemoryServices) -> None:
    async with node(tmp_path, services):
        answer = await run(tmp_path, "stat", "logic", "--loop", 2, "-o", "json")
    samples = [json.loads(line) for line in answer.out.splitlines()]
    assert [(each["node"], each["service"], each["client_rsp"]) for each in samples] == [("a", "logic", 101)] * 2


async def test_stat_shows_differences_per_second(tmp_path: Path, services: MemoryServices) -> None:
    async def request() -> None:
        while True:
            services.work("logic", 1, 10)
            await asyncio.sleep(0.01)

    async with node(tmp_path, services):
        requests = asyncio.create_task(request())
        answer = await run(tmp_path, "stat", "--diff", "-o", "json")
        table = await run(tmp_path, "stat", "--diff", "--loop", 2)
        requests.cancel()
    (sample,) = json.loads(answer.out)
    assert sample["worker_req"]["1"] > 0
    assert sample["worker_req"]["2"] == 0
    assert sample["workers"] == {"1": 8, "2": 2}
    assert table.out.count("answers per second") == 2


async def test_stat_goes_on_until_it_is_interrupted(tmp_path: Path, services: MemoryServices) -> None:
    async with node(tmp_path, services):
        process = await asyncio.create_subprocess_exec(
            ROTA, "services", "stat", "--loop", "-o", "json", cwd=tmp_path, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        for _ in range(2):
            assert json.loads(await asyncio.wait_for(process.stdout.readline(), 60))["service"] == "logic"
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.stdout.read(), 60)  # to its end: a pipe that is left open is complained about
        assert await asyncio.wait_for(process.wait(), 60) == 130


async def test_clear_drops_what_waits(tmp_path: Path, services: MemoryServices) -> None:
    services.enqueue("logic", 1, 4)
    async with node(tmp_path, services):
        one = await run(tmp_path, "clear", "logic", "--group", 2)
        every = await run(tmp_path, "clear", "--all")
    assert (one.code, one.out) == (0, "node a: logic: dropped 5 of group 2\n")
    assert (every.code, every.out) == (0, "node a: logic: dropped 4 of group 1, 0 of group 2\n")


async def test_resize_says_what_it_was(tmp_path: Path, services: MemoryServices) -> None:
    async with node(tmp_path, services):
        answer = await run(tmp_path, "resize", "logic", 2, 16)
    assert (answer.code, answer.out) == (0, "node a: logic: group 2 has 16 workers, 2 before\n")
    assert services.groups["logic"][2].workers == 16


async def test_several_nodes_are_asked_one_after_the_other(tmp_path: Path) -> None:
    one, two = MemoryServices({"logic": {1: 2}}), MemoryServices({"logic": {1: 3}})
    async with node(tmp_path, one, "n1"), node(tmp_path, two, "n2"):
        every = await run(tmp_path, "resize", "logic", 1, 5)
        second = await run(tmp_path, "stat", "--id", "n2", "-o", "json")
        version = await run(tmp_path, "version")
    assert every.out.splitlines() == [
        "node n1: logic: group 1 has 5 workers, 2 before",
        "node n2: logic: group 1 has 5 workers, 3 before",
    ]
    assert [each["node"] for each in json.loads(second.out)] == ["n2"]
    assert version.out.splitlines() == [f"node n1: rota {__version__}", f"node n2: rota {__version__}"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["stat", "logc"], 3, 'there is no service "logc"; did you mean "logic"?'),
        (["stat", "web"], 3, 'there is no service "web"; there are logic'),
        (["clear", "logic", "--group", 9], 3, 'service "logic" has no group 9; there are 1, 2'),
        (["clear", "logic"], 2, "say what to clear: --group GROUP, which may be repeated, or --all"),
        (["clear", "logic", "--group", 1, "--all"], 2, "say what to clear"),
        (["resize", "logic", 9, 4], 3, 'service "logic" has no group 9; there are 1, 2'),
        (["resize", "logic", 1, 0], 2, "0 is not in the range x>=1"),
        (["stat", "--id", "b"], 2, 'no node "b" is running here; there are: a'),
        (["reload"], 2, "node a runs no app; there is nothing to reload"),
        (["rollback"], 2, "node a runs no app; there is nothing to reload"),
        (["stt"], 2, "Did you mean 'stat'?"),
    ],
)
async def test_what_cannot_be_done_is_told_with_its_exit_code(
    tmp_path: Path, services: MemoryServices, arguments: list[Any], code: int, says: str
) -> None:
    async with node(tmp_path, services):
        answer = await run(tmp_path, *arguments)
    assert (answer.code, answer.out) == (code, "")
    assert says in answer.err


async def test_a_proxy_that_is_silent_is_out_of_reach(tmp_path: Path, services: MemoryServices) -> None:
    services.silent.add("logic")
    async with node(tmp_path, services):
        answer = await run(tmp_path, "stat")
    assert (answer.code, answer.err) == (7, 'rota: the proxy of service "logic" did not answer within 5 s\n')


async def test_of_several_services_one_must_be_named(tmp_path: Path) -> None:
    async with node(tmp_path, MemoryServices({"logic": {1: 1}, "chat": {1: 1}})):
        answer = await run(tmp_path, "clear", "--all")
    assert (answer.code, answer.err) == (2, "rota: there are several services; name one of logic, chat\n")


@pytest.mark.parametrize("services", [None, MemoryServices({})])
async def test_a_node_without_services_says_so(tmp_path: Path, services: MemoryServices | None) -> None:
    async with node(tmp_path, services):
        listed, shown = await run(tmp_path, "ls"), await run(tmp_path, "stat")
        as_json = await run(tmp_path, "ls", "-o", "json")
    assert (listed.code, listed.out) == (0, "no services\n")
    assert (as_json.code, as_json.out) == (0, "[]\n")
    assert (shown.code, shown.out) == (3, "")
    assert "this node runs no services" in shown.err


async def test_no_node_is_out_of_reach(tmp_path: Path) -> None:
    answer = await run(tmp_path, "ls")
    assert (answer.code, answer.out) == (7, "")
    assert "no node is running below .rota in this folder; name its folder with --data" in answer.err


async def test_stop_reaches_the_node(tmp_path: Path, services: MemoryServices) -> None:
    async with node(tmp_path, services) as asked:
        answer = await run(tmp_path, "stop", "--timeout", "100ms")
    assert asked == [False]
    assert answer.code == 7  # nothing ends here, and that is said
    assert "node a has not ended within 100ms; try --now" in answer.err
