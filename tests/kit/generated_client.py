"""A client that a tool generates from a node's OpenAPI description, and that asks this node.

    python -m tests.kit.generated_client

It starts a node, has `openapi-python-client` make a package from `/openapi.json`, and runs `CALLS` with that package in
an environment of its own. The tool and what it needs are fetched by `uv`, so this is for a show and not for the tests.
"""

import asyncio
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from tests.kit.doors import Door
from tests.kit.node import NodeUnderTest

TOOL = "openapi-python-client"
NEEDED = ("httpx", "attrs", "python-dateutil")
"""What the package that it makes imports."""

APP = """
import asyncio
import rota

app = rota.App("generated")


@app.resource(replicas=1)
async def room(task: rota.Task) -> None:
    await asyncio.Event().wait()


app.command("hello", ["echo", "hello"])
"""

CALLS = """
import sys

from made.client import AuthenticatedClient
from made.api.events import overview, read_events
from made.api.hooks import create_hook, delete_hook, get_hook
from made.api.jobs import get_job, run_job
from made.api.nodes import get_node, list_nodes
from made.api.resources import create_resource, delete_resource, get_resource, update_resource
from made.api.resources import list_kinds, list_resources
from made.models import Changes, HookBody, Problem, RunBody, WantedResource

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
done = 0


def check(what, is_right, value):
    global done
    if not is_right:
        sys.exit(f"{what} is not as it should be: {value}")
    done += 1
    print(what)


nodes = list_nodes.sync(client=client)
check("list_nodes", len(nodes.nodes) == 1 and nodes.next_ is None, nodes)
node = get_node.sync(nodes.nodes[0].id, client=client)
check("get_node", node.is_up, node)
seen = overview.sync(client=client)
check("overview", seen.nodes == 1, seen)
kinds = list_kinds.sync(client=client)
check("list_kinds", [each.name for each in kinds.kinds] == ["room"], kinds)
made = create_resource.sync(client=client, body=WantedResource(kind="room", id="1"), wait="PT30S")
check("create_resource", made.status.assigned == 1, made)
found = get_resource.sync("room", "1", client=client)
check("get_resource", found.uid == made.uid, found)
changed = update_resource.sync("room", "1", client=client, body=Changes(priority=7), if_match=str(found.version))
check("update_resource", changed.priority == 7, changed)
stale = update_resource.sync("room", "1", client=client, body=Changes(priority=8), if_match=str(found.version))
check("update_resource, stale", isinstance(stale, Problem) and stale.code == "stale_version", stale)
page = list_resources.sync(client=client, limit=1)
check("list_resources", [each.id for each in page.resources] == ["1"], page)
hook = create_hook.sync(client=client, body=HookBody(name="h", events=["node.*"], command=["true"], timeout="PT5S"))
check("create_hook", get_hook.sync("h", client=client).timeout == hook.timeout == "5s", hook)
check("delete_hook", delete_hook.sync_detailed("h", client=client).status_code == 204, "")
run = run_job.sync("hello", client=client, body=RunBody(payload={"a": 1}), wait="30s")
check("run_job", run.job == "hello", run)
missing = get_job.sync("none", client=client)
check("get_job, missing", isinstance(missing, Problem) and missing.code == "job_not_found", missing)
happened = read_events.sync(client=client, limit=5)
check("read_events", len(happened.events) > 0, happened)
check("delete_resource", delete_resource.sync_detailed("room", "1", client=client).status_code == 204, "")
print(f"{done} calls")
"""


def generate(described: str, folder: Path) -> None:
    """Have the tool make the package `made` from a description; it fails if a part of it cannot be made."""
    (folder / "openapi.json").write_text(described)
    made = _run(
        folder, "uv", "tool", "run", TOOL, "generate", "--path", "openapi.json", "--meta", "none",
        "--output-path", "made", "--overwrite", "--fail-on-warning",
    )  # fmt: skip
    if made.returncode:
        raise RuntimeError(f"{TOOL} failed:\n{made.stdout}{made.stderr}")


def call(door: Door, folder: Path) -> list[str]:
    """The calls that the generated package made, one line each; what went wrong is raised."""
    (folder / "calls.py").write_text(textwrap.dedent(CALLS))
    needed = [part for each in NEEDED for part in ("--with", each)]
    done = _run(
        folder, "uv", "run", "--no-project", *needed, "python", "calls.py", f"http://{door.address}", door.token
    )
    if done.returncode:
        raise RuntimeError(f"a generated client failed:\n{done.stdout}{done.stderr}")
    return done.stdout.splitlines()


async def ten_calls(folder: Path) -> list[str]:
    """A node, a client that is generated from its description, and what it asked."""
    with NodeUnderTest(folder / "n", "--role", "both", app=APP) as node:
        await node.ready()
        door = await Door.of(node)
        status, described = await asyncio.to_thread(door.http, "GET", "/openapi.json")
        if status != 200:
            raise RuntimeError(described)
        await asyncio.to_thread(generate, described, folder)
        return await asyncio.to_thread(call, door, folder)


def _run(folder: Path, program: str, *words: str) -> "subprocess.CompletedProcess[str]":
    found = Path(sys.executable).with_name(program)
    return subprocess.run(
        [found if found.exists() else program, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made_in:
        print("\n".join(asyncio.run(ten_calls(Path(made_in)))))  # noqa: T201
