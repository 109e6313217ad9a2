"""A small shop with one of each kind of work, on nothing but this machine's disk.

    rota up examples/tour.py --nodes 3

Rooms are listened to, clicks are written into a log and read from it, a till answers, and a job looks at the clock.
What it keeps is below `.rota/tour`. `make demo` runs it on three nodes and kills one of them.
"""

import asyncio
import fcntl
import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rota import App, Batch, Conflict, Request, Resource, Run, Task
from rota.sources import NewRecord, log_place, open_log

FOLDER = Path(os.environ.get("TOUR_FOLDER", ".rota/tour")).resolve()
CLICKS = f"log://{FOLDER}/clicks"
ROOMS = ("attic", "cellar", "kitchen", "lobby")
PAGES = ("/", "/shop", "/basket", "/thanks")

app = App("tour")


# A resource: each room is held by two tasks on two nodes. Both hear the same, and it leaves the fleet once.
@app.resource(replicas=2, sink="stdout://")
async def room(task: Task) -> None:
    second = int(time.time())
    while True:
        second += 1
        await asyncio.sleep(second - time.time())
        await task.emit({"room": task.resource, "second": second}, key=second)


@room.source(every="30m")
def rooms() -> list[Resource]:
    return [room(name) for name in ROOMS]


# An exclusive one: never two tasks at a time, for a log has one writer.
@app.resource(exclusive=True)
async def shop(task: Task) -> None:
    with open_log(f"{CLICKS}?fsync=1s") as log:
        while True:
            clicks = [NewRecord(value=json.dumps({"page": page}).encode()) for page in random.choices(PAGES, k=10)]
            await asyncio.to_thread(log.append, clicks)
            task.alive()
            await asyncio.sleep(0.1)


@shop.source(every="30m")
def shops() -> list[Resource]:
    return [shop("main")]


# A service: every node has one, and an idle worker answers.
till = app.service("till", port=0, groups={1: 2})


@till.on(1, idempotent=True)
def price(request: Request) -> dict[str, object]:
    return {"ret": 0, "body": {"article": request.json()["article"], "cents": 100 + len(request.body)}}


# A job: each second is due once, on whichever node is free, also when nobody led in that second.
@app.job(every="1s", misfire="all", concurrency=None)
def look_around(run: Run) -> None:
    due = f"due at {run.due:%H:%M:%S}" if run.due else "started by hand"
    print(f"{due}, attempt {run.attempt}")
    time.sleep(0.3)


def log_of_clicks() -> str:
    """The log that the stream reads; the first node makes it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock, suppress(Conflict):
        fcntl.flock(lock, fcntl.LOCK_EX)
        log_place(CLICKS).create(4)
    return CLICKS


# A stream: every click becomes one row of a Parquet file, whoever of its readers dies.
@app.stream(
    source=log_of_clicks(), sink=f"parquet://{FOLDER}/out", start="earliest", tasks=2, replicas=2, duration="20s"
)
def clicks(batch: Batch) -> Iterator[dict[str, object]]:
    for record in batch:
        yield {"part": record.partition, "number": record.offset, "page": json.loads(record.value)["page"]}
