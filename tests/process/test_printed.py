"""What resources, services and streams print on a real node, read at its doors and by `rota logs`."""

import asyncio
import json
import os
import pwd
import stat
import subprocess
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from rota.sources import NewRecord
from tests.kit.cli import ROTA, rota
from tests.kit.doors import Door
from tests.kit.node import NodeUnderTest
from tests.kit.stream_places import TrialLog
from tests.kit.waiting import eventually

APP = """
import asyncio, logging, os, sys
import rota

app = rota.App("talk")
HERE = os.path.dirname(__file__)


@app.on_worker_start
def begin():
    print("a worker began")


@app.resource(start_within="1h")
async def room(task: rota.Task) -> None:
    me = task.id.partition("/")[2].partition("#")[0]
    print(f"room {me} opens \\x1b[2J")
    await asyncio.to_thread(print, f"room {me} in a thread")
    logging.warning(f"room {me} warns")
    while not os.path.exists(os.path.join(HERE, "more")):
        await asyncio.sleep(0.05)
    print(f"room {me} goes on", file=sys.stderr)
    await asyncio.Event().wait()


logic = app.service("logic", port=0, groups={1: 1})


@logic.on(101, group=1)
def login(request):
    return b"ok"


@app.stream(source="SOURCE", sink="memory://clicks", start="earliest", duration="1s")
def clicks(batch):
    for record in batch:
        print("click", record.value.decode())
        yield {"number": int(record.value)}
"""


def started(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([str(ROTA), *arguments], stdout=subprocess.PIPE, text=True)


async def test_what_work_prints_is_read_at_the_door_and_by_the_command(tmp_path: Path) -> None:
    with ExitStack() as up:
        # As root the app is somebody else, who may not enter the folders of pytest.
        folder = Path(up.enter_context(TemporaryDirectory(prefix="rota-printed-")))
        folder.chmod(0o755)
        flags = ("--user", "nobody") if os.geteuid() == 0 else ()
        log = TrialLog(folder, None)
        log.append(0, [NewRecord(value=b"1"), NewRecord(value=b"2")])
        app = APP.replace("SOURCE", log.url())
        node = up.enter_context(NodeUnderTest(folder / ".rota" / "n", "--role", "both", *flags, app=app))
        await node.ready()
        door = await Door.of(node)
        for id in ("1", "2"):
            assert door.http("POST", "/v1/resources", {"kind": "room", "id": id})[0] == 201

        def lines(thing: str, query: str = "") -> list[str]:
            status, said = door.http("GET", f"/v1/logs/{thing}{query}")
            return [line["text"] for line in json.loads(said)["lines"]] if status == 200 else []

        for id in ("1", "2"):
            await eventually(lambda id=id: len(lines(f"room/{id}")) >= 3)
            assert lines(f"room/{id}")[:2] == [f"room {id} opens \x1b[2J", f"room {id} in a thread"]
            assert f"room {id} warns" in lines(f"room/{id}")[2]
        await eventually(lambda: {"click 1", "click 2"} <= set(lines("stream/clicks")), within=90)
        assert "a worker began" in lines("service/logic")
        assert "a worker began" in lines(f"worker/{node.name}")
        assert len(lines("room/1", "?tail=1")) == 1

        status, said = door.http("GET", "/v1/logs/service/nosuch")
        assert (status, json.loads(said)["code"]) == (404, "service_not_found")
        assert "there are: logic" in json.loads(said)["error"]
        assert door.http("GET", "/v1/logs/room/3")[0] == 404
        assert door.http("GET", "/v1/logs/room/1?after=x")[0] == 422

        folder_of_lines = node.data / "printed"
        assert stat.S_IMODE(folder_of_lines.stat().st_mode) == 0o700
        for file in folder_of_lines.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert not flags or file.stat().st_uid == pwd.getpwnam("nobody").pw_uid

        token = folder / "token"
        token.write_text(f"{node.token}\n")
        token.chmod(0o600)
        at = ["--server", f"http://{door.address}", "--token", str(token)]
        following = up.enter_context(started("logs", "room/1", "-f", "-o", "json", *at))
        up.callback(following.kill)
        assert following.stdout is not None
        told = [json.loads(await asyncio.to_thread(following.stdout.readline)) for _ in range(3)]
        (node.folder / "more").touch()
        told.append(json.loads(await asyncio.to_thread(following.stdout.readline)))
        assert [told[0]["node"], told[0]["part"]] == [node.name, "0"]
        assert told[-1]["text"] == "room 1 goes on"

        for way in (at, ["--store", node.store]):
            done = await asyncio.to_thread(rota, "logs", "room/1", *way, cwd=folder)
            assert done.out.splitlines()[0] == f"{node.name} | room 1 opens \\x1b[2J", done.err
            assert done.out.splitlines()[-1] == f"{node.name} | room 1 goes on"
