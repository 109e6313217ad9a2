"""The files that `rota init` writes: an app with one of each kind of work, on nothing but this machine's disk."""

APP = '''\
"""A small app with one of each kind of work.  Run it: rota up app.py --nodes 3 --reload"""

import asyncio
import fcntl
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from rota import App, Batch, Conflict, Request, Resource, Run, Task
from rota.sources import NewRecord, log_place, open_log

app = App("starter")
DATA = Path(__file__).resolve().parent / "data"
LOG = f"log://{DATA}/clicks"


def set_up() -> None:
    """Make the log and the table of the stream below; every node imports this file, the first one makes them."""
    DATA.mkdir(exist_ok=True)
    with (DATA / "lock").open("w") as lock, closing(sqlite3.connect(DATA / "clicks.db")) as table:
        fcntl.flock(lock, fcntl.LOCK_EX)
        table.execute("CREATE TABLE IF NOT EXISTS clicks (user TEXT, page TEXT)")
        with suppress(Conflict):
            log_place(LOG).create(1)


set_up()


# A job: each due time runs once, on the idlest node.  See its output: rota runs logs --last report
@app.job(every="1m", timeout="30s", retries=2)
def report(run: Run) -> None:
    print(f"report for {run.due}")


# A resource: each visitor is one task, held by one node; if that node is lost, another takes it over.
@app.resource(exclusive=True)
async def visitor(task: Task) -> None:
    with open_log(LOG) as log:
        while True:
            click = {"user": task.resource, "page": "/"}
            await asyncio.to_thread(log.append, [NewRecord(value=json.dumps(click).encode())])
            await asyncio.sleep(1)


# Which resources there are.  More can be added: rota resources add visitor bob
@visitor.source(every="30m")
def visitors() -> list[Resource]:
    return [visitor("ada")]


# A service: an idle worker of any node answers each request.  See it: rota services ls
hello = app.service("hello", port=0, groups={1: 2})


@hello.on(1)
def greet(request: Request) -> dict[str, object]:
    return {"ret": 0, "body": f"hello, {request.json()['name']}"}


# A stream: every click becomes one row of a table, once.  See how far it is: rota streams lag clicks
@app.stream(source=LOG, sink=f"sqlite:///{DATA}/clicks.db?table=clicks", start="earliest", duration="5s")
def clicks(batch: Batch) -> Iterator[dict[str, object]]:
    for record in batch:
        yield json.loads(record.value)
'''

SETTINGS = """\
# Settings of the nodes that are started in this folder.  All of them, and where each comes from: rota config view
[node]
# Where the fleet keeps what it knows; several machines need etcd://, postgresql:// or mysql:// here.
store = "sqlite:///.rota/up/rota.db"
"""
