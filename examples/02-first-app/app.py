"""One of each kind: a chat that keeps rooms open, answers clients, reports every night and counts clicks."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import rota
from rota import Batch, Request, Resource, Run, Task

app = rota.App("chat")
HERE = Path(".rota").absolute()  # below the folder where it is started, beside what `rota up` keeps


@dataclass
class RoomSpec:
    """What a room needs to know; `id` is the resource's own."""

    id: str
    greeting: str = "hello"


# A resource: every room is held by two tasks on two nodes, and what they emit leaves the fleet once.
@app.resource(replicas=2, silent_after="30s", sink="stdout://")
async def room(task: Task[RoomSpec]) -> None:
    count = task.saved.get("count", 0)
    while True:
        count += 1
        await task.emit({"room": task.spec.id, "says": f"{task.spec.greeting} {count}"}, key=count)
        await task.save({"count": count})
        await asyncio.sleep(10)


@room.source(every="30m")
async def rooms() -> AsyncIterator[Resource]:
    yield room("lobby", priority=1)
    yield room("kitchen", greeting="hungry?")


# A service: requests of cmd 101 go to an idle worker of group 1, of 102 to one of group 2.
logic = app.service("logic", port=9900, groups={1: 4, 2: 1})


@logic.on(101, group=1, timeout="2s")
def login(request: Request) -> dict[str, object]:
    name = request.json()["name"]
    return {"ret": 0, "body": f"welcome, {name}"}


@logic.on(102, group=2)
async def goodbye(request: Request) -> bytes | None:
    return None if request.body == b"quietly" else b"bye"


# Jobs: each due time runs once, on the idlest node. A command is a job that is a program.
@app.job(cron="0 3 * * *", tz="Asia/Shanghai", timeout="1h", retries=2)
def report(run: Run) -> None:
    print(f"report for {run.due:%Y-%m-%d}, attempt {run.attempt}")


app.command("tidy", ["echo", "tidied up"], after=report)


# A stream: every record of the log becomes at most one row, and every row is in the output once.
@app.stream(source=f"log://{HERE}/clicks", sink=f"parquet://{HERE}/clicks-out", tasks=2, duration="1h")
def clicks(batch: Batch) -> Iterator[dict[str, object]]:
    for record in batch:
        click = json.loads(record.value)
        if click["user"] != "robot":
            yield {"user": click["user"], "page": click["page"], "at": record.at}
