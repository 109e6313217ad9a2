"""Every process understands each message that it may get: it has imported the module that declares it."""

import asyncio
import logging
import pkgutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module

import msgspec
import pytest

import rota
from rota.kit import frames
from rota.runtime.pipes.channel import Channel, Pipe, PipeMessage, UnknownMessage, decode, pair
from rota.runtime.worker.roles import ROLES
from tests.kit.waiting import eventually

FROM_LOADER = {"Loaded", "SourcesAre", "LoadFailed", "Forked", "ForkRefused", "Reaped"}
FROM_WORKERS = {"Registered", "StartFailed", "Beat", "TaskStarted", "TaskEnded", "TaskSilent", "Save", "AskStore",
                "LineLost", "Unsent", "Listed"}  # fmt: skip
FROM_PROXIES = {"Told", "Unseated", "Overdue", "HeldUp", "Idle"}
FROM_RELAY = {"RelayTold", "RelayIs"}

WORKER = "rota.runtime.worker.main"

HEARD: Mapping[str, tuple[tuple[str, ...], set[str]]] = {
    "agent": (("rota.compose.node",), FROM_LOADER | FROM_WORKERS | FROM_PROXIES | FROM_RELAY | {"Lent"}),
    "rota up": (("rota.cli.commands.up",), {"Borrow"}),
    "loader": (("rota.runtime.loader.main",), {"Fork", "Leave", "AskSources"}),
    "host": ((WORKER,), {"Deadline", "EmitTo", "Finish", "StartTask", "StopTask"}),
    "task": ((WORKER,), {"Deadline", "EmitTo", "Finish", "StopTask"}),
    "stream": ((WORKER,), {"Deadline", "Finish", "StopTask", "StoreSaid"}),
    "service": ((WORKER,), {"Finish"}),
    "executor": ((WORKER,), {"Deadline", "Finish"}),
    "run": ((WORKER,), {"Deadline", "Finish"}),
    "program": ((WORKER,), {"Deadline", "Finish"}),
    "proxy": (
        ("rota.services.proxy.main",),
        {"Serve", "Listen", "Withdraw", "Unserve", "TakeSeat", "Dismiss", "Gone", "Close", "GiveUp", "Ask", "Clear"},
    ),
    "relay": (
        ("rota.relay.process.main",),
        {"BeRelay", "Revoked", "Tokens", "TakeLine", "SenderGone", "Fleet", "Fences", "AskTallies", "AskRest",
         "GiveUp"},
    ),
}  # fmt: skip
"""Process → what it imports, and the messages that it may get, by what they are called on the wire."""

LISTEN = """
import sys
from importlib import import_module
import msgspec
for module in sys.argv[1].split(","):
    import_module(module)
from rota.runtime.pipes.channel import UnknownMessage, decode
for name in sys.argv[2].split(","):
    try:
        decode(msgspec.msgpack.encode({"type": name}))
    except UnknownMessage as error:
        print(error)
    except msgspec.ValidationError:
        pass  # it is known, and lacks its fields
"""


@pytest.mark.parametrize("process", HEARD)
def test_a_process_knows_each_message_that_it_may_get(process: str) -> None:
    modules, messages = HEARD[process]
    if process in ROLES:
        modules += (ROLES[process].body.partition(":")[0],)
    listen = [sys.executable, "-c", LISTEN, ",".join(modules), ",".join(sorted(messages))]
    assert subprocess.run(listen, check=True, capture_output=True, text=True).stdout == ""


def test_every_message_has_somebody_who_gets_it() -> None:
    for module in pkgutil.walk_packages(rota.__path__, "rota."):
        if "pipe" in module.name.rpartition(".")[2] or ".pipes." in module.name:
            import_module(module.name)
    declared = {
        str(each.__struct_config__.tag) for each in PipeMessage.__subclasses__() if each.__module__.startswith("rota.")
    }
    assert declared == set().union(*(messages for _, messages in HEARD.values()))
    assert ROLES.keys() <= HEARD.keys()


STRANGE = frames.encode(msgspec.msgpack.encode({"type": "Stranger", "why": "x"}), limit=1000)


def test_an_unknown_message_is_named() -> None:
    with pytest.raises(UnknownMessage, match="message Stranger: no module that this process has imported"):
        decode(msgspec.msgpack.encode({"type": "Stranger"}))
    mine, theirs = pair()
    theirs.sendall(STRANGE)
    with pytest.raises(UnknownMessage, match="message Stranger"):
        Pipe(mine).receive()
    mine.close()
    theirs.close()


async def test_a_channel_that_gets_an_unknown_message_says_which_one(caplog: pytest.LogCaptureFixture) -> None:
    mine, theirs = pair()
    over = asyncio.Event()
    channel = Channel(mine, lambda message: None, over.set)
    with caplog.at_level(logging.ERROR):
        theirs.sendall(STRANGE)
        await eventually(over.is_set)
    theirs.close()
    assert not channel.is_open
    assert ["message Stranger" in str(vars(record)["why"]) for record in caplog.records] == [True]
