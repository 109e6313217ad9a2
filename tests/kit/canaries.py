"""Canaries: a secret of its own for every place that takes one, and a look at everything that anybody may see.

The places are those that Rota declares: settings of `model.config`, and parameters of the decorators. A test compares
`SETTINGS` and `DECLARED` with the declarations, so that a new place cannot be forgotten. A canary that is found
somewhere says by its name where it was planted.
"""

import asyncio
import inspect
import itertools
import json
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

import grpc.aio
import psutil
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from playwright.async_api import expect

from rota import App
from rota.cli import settings
from rota.doors.grpc.door import SERVICES, needed
from rota.fleet.core.access.gate import Access
from rota.link.channel import open_channel
from rota.link.settings import TlsFiles
from rota.model.config import SECTIONS, TokenReference
from rota.web.routes import BELOW
from tests.kit.browser import open_browser, open_dashboard
from tests.kit.certificates import Authority
from tests.kit.cli import rota
from tests.kit.guarded import routes
from tests.kit.node import NodeUnderTest
from tests.kit.servers import USER, Server
from tests.kit.waiting import eventually

SEP, STRING = "-canary-", FieldDescriptor.TYPE_STRING
NOWHERE = "127.0.0.1:1"
"""Where nobody listens, so that there is something to complain about."""

PATIENCE = 2.0
"""Seconds that are listened to an answer that goes on."""

HARMLESS = frozenset(
    {
        "after", "affinity", "all_out_first", "admin", "argv", "at_a_time", "auto_answer_on_fail", "batch",
        "batch_timeout", "checkpoint_bytes", "checkpoint_every", "checkpoint_rows", "client_timeout",
        "completion_timeout", "concurrency", "cron", "cwd", "duration", "early", "every", "exclusive", "frame",
        "function", "groups", "host", "idle_after", "jitter", "labels", "late", "late_start", "max_clients",
        "max_errors", "max_frame", "misfire", "name", "on_lost", "pause_timeout", "port", "process", "proxies",
        "queue", "queue_bytes", "replicas", "retries", "route", "scale_in_lag", "scale_out_lag", "scale_over", "self",
        "silent_after", "start", "start_delay", "start_within", "tasks", "tasks_most", "tcp", "timeout", "tz",
        "udp", "upto", "vanished",
    }
)  # fmt: skip
"""Parameters of the decorators that hold no secret."""

SPECS = frozenset({"env"})
"""Those that are shown to whoever may look, as SECURITY.md says of specs."""


def canary(place: str) -> str:
    """The secret that is planted in a place."""
    return f"{place.replace('.', '-').replace('_', '-')}{SEP}8d2f5c1b7a9e"


SETTINGS = ("store", "token", "tls", "relay_sink", "runs_logs")
"""Settings that can hold a secret, or say where one is."""

DECLARED = (
    "resource.sink", "stream.source", "stream.sink", "service.admin_username", "service.admin_password",
)  # fmt: skip
"""Parameters of the decorators that can."""

OTHERS = ("ROTA_STORE_PASSWORD", "app's variable", "hook.url")
"""What is no setting: a variable of the store's, one of the app's own, and what operators make."""

PLANTED = tuple(canary(place) for place in (*SETTINGS, *DECLARED, *OTHERS))


def secret_settings() -> set[str]:
    """The settings that can hold a secret: a URL, a reference to a token, a folder with a key."""
    options = itertools.chain.from_iterable(settings.declared(section) for section in SECTIONS)
    return {
        option.parameter
        for option in options
        if option.word == "URL" or option.kind is TokenReference or "key.pem" in option.doc
    }


def secret_parameters() -> set[str]:
    """The parameters of the decorators that nobody has called harmless."""
    declare: tuple[Callable[..., object], ...] = (App.resource, App.service, App.stream, App.job, App.command)
    return {
        f"{each.__name__}.{name}"
        for each in declare
        for name in inspect.signature(each).parameters
        if name not in HARMLESS | SPECS
    }


APP = f"""
import asyncio, os
import rota

app = rota.App("canaries")


@app.resource(sink="amqp://ann:{canary("resource.sink")}@{NOWHERE}?exchange=x")
async def room(task: rota.Task) -> None:
    await task.emit(b"x")
    await asyncio.Event().wait()


@app.resource()
async def plain(task: rota.Task) -> None:
    await task.emit(b"x")
    await asyncio.Event().wait()


@app.resource()
async def broken(task: rota.Task) -> None:
    raise RuntimeError("broken")


@app.stream(source="kafka://ann:{canary("stream.source")}@{NOWHERE}/clicks?sasl=plain",
            sink="postgresql://ann:{canary("stream.sink")}@{NOWHERE}/shop?table=clicks")
def clicks(batch):
    yield from ()


@app.job()
def failing(run: rota.Run) -> None:
    raise ValueError("failed")


@app.job(process=True)
def crashing(run: rota.Run) -> None:
    os.abort()


logic = app.service("logic", port=0, groups={{1: 1}}, admin="admin.sock",
                    admin_username="{canary("service.admin_username")}",
                    admin_password="{canary("service.admin_password")}")


@logic.on(101, group=1)
def echo(request):
    return request.body
"""

NAMES: Mapping[str, tuple[str, ...]] = {
    "kind": ("room", "plain", "broken"),
    "id": ("1",),
    "name": ("failing", "crashing", "clicks", "pager", "ops", "logic"),
    "service": ("logic",),
    "job": ("failing", "crashing"),
}
"""What stands for a part of a path."""

SCREENS = (
    ("overview",), ("nodes",), ("placement",), ("resources",), ("resources", "room", "1"), ("services",), ("streams",),
    ("streams", "clicks"), ("jobs",), ("jobs", "failing"), ("runs",), ("events",), ("hooks",), ("audit",),
)  # fmt: skip
"""What is looked at in a browser."""

COMMANDS = (
    "config view --origin", "config view -o json", "status -o json", "events -o json", "audit ls --changes -o json",
    "hooks ls -o json",
)  # fmt: skip
"""What an operator asks, beside what the API answers anyway."""


@dataclass(frozen=True)
class Aviary:
    """A node with a canary in every place, and all that can be seen of it."""

    node: NodeUnderTest
    folder: Path
    environ: Mapping[str, str]
    context: ssl.SSLContext
    certificates: Path
    address: str
    grpc: str
    key: str
    """A line of its private key, which is a canary too."""

    @property
    def secret(self) -> str:
        """What its operator shows at its doors."""
        return canary("token")

    def get(self, path: str) -> tuple[int, str]:
        """The status and the body of an answer, or what came at first of one that goes on."""
        return self._asked("GET", path)

    async def make(self, path: str, content: str) -> None:
        """Have something made, as soon as the fleet knows what it is."""

        async def is_made() -> bool:
            status, said = await asyncio.to_thread(self._asked, "POST", path, content)
            assert status in (200, 201, 404, 409, 422), said
            return status not in (404, 422)

        await eventually(is_made, within=30)

    def _asked(self, method: str, path: str, content: str | None = None) -> tuple[int, str]:
        shown = {"authorization": f"Bearer {self.secret}", "content-type": "application/json"}
        with closing(HTTPSConnection(self.address, timeout=30, context=self.context)) as connection:
            connection.request(method, path, content, shown)
            answer = connection.getresponse()
            if "event-stream" not in (answer.getheader("content-type") or ""):
                return answer.status, answer.read().decode(errors="replace")
            connection.sock.settimeout(PATIENCE)
            return answer.status, _beginning(answer)

    async def seen(self) -> dict[str, str]:
        """All that can be seen, by where."""
        return {
            **self._logs(),
            **self._dumps(),
            **self._processes(),
            **await _gathered(self._answer(path) for path in self._paths()),
            **await self._calls(),
            **await self._screens(),
            **await _gathered(self._command(words) for words in COMMANDS),
        }

    def leaks(self, seen: Mapping[str, str]) -> list[str]:
        """Which canary is where, among what was seen."""
        planted = [*PLANTED, self.key]
        return [f"{secret} in {where}" for where, text in seen.items() for secret in planted if secret in text]

    def open_files(self) -> list[str]:
        """Files with a canary that others than their owner may read."""
        found = []
        for file in (each for each in self.node.data.rglob("*") if each.is_file()):
            ways = (file, *(above for above in file.parents if above.is_relative_to(self.node.data)))
            if all(way.stat().st_mode & 0o007 for way in ways) and SEP.encode() in file.read_bytes():
                found.append(str(file))
        return found

    def _logs(self) -> dict[str, str]:
        return {"log": self.node.errors.read_text(), "output": self.node.output.read_text()}

    def _dumps(self) -> dict[str, str]:
        """What is written down of processes that fell, and what core files there are."""
        places = (*self.node.data.glob("stacks/*"), *self.folder.rglob("core*"))
        return {f"dump {each.name}": each.read_bytes().decode(errors="replace") for each in places if each.is_file()}

    def _processes(self) -> dict[str, str]:
        """Command lines of all processes, and variables of all but the agent, which was given them."""
        agent = psutil.Process(self.node.pid)
        others = {each.pid: each for each in (*agent.children(recursive=True), *self.node.leftovers())}
        seen = {"command line of the agent": " ".join(agent.cmdline())}
        for each in others.values():
            try:
                title, variables = " ".join(each.cmdline()), each.environ()
            except psutil.Error:
                continue  # it has ended
            seen[f"command line of {each.pid}"] = title
            # What the app's own variables hold is the app's.
            kept = {name: value for name, value in variables.items() if name != "APP_SECRET"}
            seen[f"variables of {title}"] = str(kept)
        return seen

    def _paths(self) -> Iterator[str]:
        """Every path that can be read, as the application lists them, with every name that fits."""
        moments = re.findall(r'"id":"(\w+)/([^"]+)"', self.get("/v1/runs")[1])
        for _, path in (each for each in routes() if each[0] == "GET"):
            parts = re.findall(r"{(\w+)(?::path)?}", path)
            if path.startswith(BELOW):
                yield from (f"{BELOW}{name}" for name in ("app.js", "index.html", "words.js"))
                continue
            known = {**NAMES, "node": (self.node.name,), "moment": tuple(moment for _, moment in moments) or ("x",)}
            for values in itertools.product(*(known[part] for part in parts)):
                filled = path
                for part, value in zip(parts, values, strict=True):
                    filled = filled.replace(f"{{{part}}}", value)
                yield filled

    async def _answer(self, path: str) -> tuple[str, str]:
        status, said = await asyncio.to_thread(self.get, path)
        assert status != 500, (path, said)
        return f"GET {path}", said

    async def _calls(self) -> dict[str, str]:
        """What every gRPC method says that only looks, with every name that fits."""
        said = {}
        place = self.certificates
        tls = TlsFiles(cert=place / "cert.pem", key=place / "key.pem", ca=place / "ca.pem")
        async with open_channel(self.grpc, tls) as channel:
            for method, request in self._requests():
                path = f"/{method.containing_service.full_name}/{method.name}"
                with suppress(grpc.aio.AioRpcError):
                    said[f"gRPC {path} {request}"] = await _told(channel, path, method, request, self.secret)
        return said

    def _requests(self) -> Iterator[tuple[MethodDescriptor, Message]]:
        for method in (each for service in SERVICES for each in service.methods):
            if needed(f"/{method.containing_service.full_name}/{method.name}") is Access.VIEW:
                make, known = GetMessageClass(method.input_type), {**NAMES, "node": (self.node.name,)}
                fields = [each.name for each in method.input_type.fields if each.name in known and each.type == STRING]
                for values in itertools.product(*(known[name] for name in fields)):
                    yield method, make(**dict(zip(fields, values, strict=True)))

    async def _screens(self) -> dict[str, str]:
        """What the dashboard has on its screens."""
        said = {}
        async with (
            open_browser() as browser,
            open_dashboard(browser, self.address, self.secret, tls=True) as dashboard,
        ):
            for screen in SCREENS:
                await dashboard.go(*screen)
                await expect(dashboard.page.locator("main .bones")).to_have_count(0)
                said[f"screen {'/'.join(screen)}"] = await dashboard.page.content()
        return said

    async def _command(self, words: str) -> tuple[str, str]:
        said = await asyncio.to_thread(rota, *words.split(), cwd=self.folder, environ=dict(self.environ), within=60)
        return f"rota {words}", said.out + said.err


@asynccontextmanager
async def aviary(folder: Path, server: Server, schema: str) -> AsyncIterator[Aviary]:
    """A node on a PostgreSQL, with everything that it complains about already said."""
    store = f"postgresql://{USER}:{canary('store')}@127.0.0.1:{server.port}/postgres?schema={schema}"
    base = folder / "n"
    made = NodeUnderTest(base, app=APP, store=store)  # for its name, which its certificate has
    certificates = Authority(folder / "tls").issue(made.name)
    environ = {
        "ROTA_STORE": store,
        "ROTA_STORE_PASSWORD": canary("ROTA_STORE_PASSWORD"),
        "ROTA_TOKEN": "env:FLEET_TOKEN",
        "FLEET_TOKEN": canary("token"),
        "ROTA_RELAY_SINK": f"amqp://ann:{canary('relay_sink')}@{NOWHERE}?exchange=x",
        "ROTA_TLS": str(certificates),
        "ROTA_LOG_LEVEL": "debug",
        "APP_SECRET": canary("app's variable"),
    }
    with NodeUnderTest(base, "--role", "both", app=APP, store=store, environ=environ, by_flag=False) as node:
        doors = (await node.ready())["doors"]
        context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
        key = (certificates / "key.pem").read_text().splitlines()[1]
        found = Aviary(node, folder, environ, context, certificates, doors["http"], doors["grpc"], key)
        await _live(found)
        yield found


async def _live(aviary: Aviary) -> None:
    """Have work done that fails in all ways, and wait until the node has said so."""
    for kind in NAMES["kind"]:
        await aviary.make("/v1/resources", f'{{"kind": "{kind}", "id": "1"}}')
    for job in NAMES["job"]:
        await aviary.make(f"/v1/jobs/{job}/run", "{}")
    hook = f'{{"name": "pager", "events": ["*"], "url": "http://{NOWHERE}/{canary("hook.url")}"}}'
    await aviary.make("/v1/hooks", hook)
    await aviary.make("/v1/tokens", '{"name": "ops", "role": "view"}')

    def is_told() -> bool:
        runs = json.loads(aviary.get("/v1/runs")[1]).get("runs", ())
        ended = {run["job"] for run in runs if run["ended"]}
        return ended == set(NAMES["job"]) and NOWHERE in aviary.get("/v1/relays")[1]

    await eventually(lambda: asyncio.to_thread(is_told), within=40)


def _beginning(answer: Iterable[bytes]) -> str:
    """What comes at first of an answer that goes on."""
    told, end = b"", time.monotonic() + PATIENCE
    with suppress(OSError, HTTPException):  # nothing came for a while
        for line in answer:
            told += line
            if time.monotonic() > end:
                break
    return told.decode(errors="replace")


async def _told(channel: grpc.aio.Channel, path: str, method: MethodDescriptor, request: Message, token: str) -> str:
    """The answer to a call, or what came at first of one that goes on."""
    shown, read = (("authorization", f"Bearer {token}"),), GetMessageClass(method.output_type).FromString
    if not method.server_streaming:
        return str(await channel.unary_unary(path, Message.SerializeToString, read)(request, metadata=shown))
    told = ""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            async for each in channel.unary_stream(path, Message.SerializeToString, read)(request, metadata=shown):
                told += str(each)
    return told


async def _gathered(asked: Iterable[Awaitable[tuple[str, str]]]) -> dict[str, str]:
    """All answers, a few at a time."""
    turn = asyncio.Semaphore(8)

    async def one(each: Awaitable[tuple[str, str]]) -> tuple[str, str]:
        async with turn:
            return await each

    return dict(await asyncio.gather(*map(one, asked)))
