"""The token of a fleet is rotated without a restart, and what was taken back stays so: on two real nodes."""

from contextlib import ExitStack
from pathlib import Path

from rota.link import open_link
from rota.model.errors import Denied
from tests.kit.cli import rota
from tests.kit.doors import Door
from tests.kit.node import NodeUnderTest
from tests.kit.waiting import eventually


def cli(folder: Path, store: str, *arguments: object) -> str:
    """What a command that must succeed prints."""
    answer = rota(*arguments, "--store", store, cwd=folder)
    assert answer.code == 0, answer
    return answer.out.strip()


async def refuses(door: Door) -> str:
    """What a node says to a token that it refuses, over HTTP and at the node link; empty if it takes it."""
    status, said = door.http("GET", "/v1/node")
    async with open_link(f"grpc://{door.grpc}", token=door.token) as link:
        try:
            await link.check()
        except Denied as error:
            return f"{said} {error}" if status == 401 else ""
    return ""


async def takes(door: Door) -> bool:
    """Whether a node takes a token."""
    return await refuses(door) == ""


async def test_the_token_of_two_nodes_is_rotated_without_a_restart_and_the_old_one_stays_refused(
    tmp_path: Path,
) -> None:
    store, file = f"sqlite:///{tmp_path}/rota.db", tmp_path / "token"
    file.write_text("rota_made_by_hand_0123456789\n")
    file.chmod(0o600)
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(
                NodeUnderTest(tmp_path / name, "--token", f"file:{file}", "--role", "both", name=name, store=store)
            )
            for name in ("a", "b")
        ]
        for node in nodes:
            await node.ready()
        cli(tmp_path, store, "token", "create", "nodes", "--role", "node", "--file", file)
        first = file.read_text().strip()
        for node in nodes:
            await eventually(lambda node=node: "token changed" in node.errors.read_text())
        doors = []
        for node in nodes:
            told = (await node.status())["doors"]
            doors.append(Door(told["http"], told["grpc"], first))
            assert "not known here" in await refuses(doors[-1].showing("rota_made_by_hand_0123456789"))
        across = f"/v1/nodes/{nodes[1].name}/services"
        assert doors[0].http("GET", across)[0] == 200  # node a asks node b, with the token of its file

        cli(tmp_path, store, "token", "rotate", "nodes", "--keep-old", "1h", "--file", file)
        second = file.read_text().strip()
        for door in doors:
            assert await refuses(door) == ""
            assert await eventually(lambda door=door: takes(door.showing(second)))
        for node in nodes:
            await eventually(lambda node=node: node.errors.read_text().count("token changed") == 2)

        # The end of the old one: nodes show each other the new one, or they could not speak any more.
        cli(tmp_path, store, "token", "rotate", "nodes", "--keep-old", "1h", "--file", file)
        third = file.read_text().strip()
        for door in doors:
            assert await eventually(lambda door=door: refuses(door))
        for node in nodes:
            await eventually(lambda node=node: node.errors.read_text().count("token changed") == 3)
        assert doors[0].showing(third).http("GET", across)[0] == 200
        assert doors[1].showing(third).http("GET", f"/v1/nodes/{nodes[0].name}/services")[0] == 200

        # Put back into the file, at a restart and without one, it stays refused.
        file.write_text(first)
        nodes[1].stop()
        nodes[1].start()
        await nodes[1].ready()
        told = (await nodes[1].status())["doors"]
        again = Door(told["http"], told["grpc"], first)
        assert "use the present one" in await refuses(again)
        assert await takes(again.showing(third))
        cli(tmp_path, store, "token", "revoke", "nodes")
        cli(tmp_path, store, "token", "create", "nodes", "--role", "view")
        for token in (first, second, third):
            for door in (doors[0], again):
                assert await eventually(lambda door=door, token=token: refuses(door.showing(token)))
