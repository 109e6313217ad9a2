"""A loader forks after importing the SDK: so that must be light, and start nothing."""

import inspect
import subprocess
import sys

import msgspec
import pytest

import rota

HEAVY = [
    "grpc",
    "google.protobuf",
    "starlette",
    "uvicorn",
    "asyncpg",
    "sqlalchemy",
    "sqlite3",
    "rich",
    "click",
    "asyncio",
]
MODULES = [
    "rota",
    "rota.sdk",
    "rota.sdk.load",
    "rota.sdk.context",
    "rota.sdk.summary",
    "rota.resources.core.spec",
    "rota.services.core.context",
    "rota.services.core.spec",
    "rota.jobs.core.spec",
    "rota.streams.core.context",
    "rota.streams.core.spec",
]
DECLARE = """
import rota
app = rota.App("a")
app.resource(name="r")(lambda task: None)
app.job(name="j", cron="0 3 * * *", tz="Asia/Shanghai")(lambda run: None)
app.service("s", port=0).on(1)(lambda request: None)
app.stream(name="c", source="log:///a", sink="memory://")(lambda batch: None)
app.command("b", ["true"])
app.summary()
"""


def after(code):
    """What is loaded, and how many threads there are, after running `code` in a fresh Python."""
    code += "\nimport sys, threading; print(threading.active_count(), *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    threads, *modules = done.stdout.split()
    return int(threads), set(modules)


@pytest.mark.parametrize("module", MODULES)
def test_importing_pulls_in_nothing_heavy_and_starts_nothing(module):
    threads, modules = after(f"import {module}")
    assert threads == 1
    assert modules & set(HEAVY) == set()


def test_declaring_an_app_does_not_either():
    threads, modules = after(DECLARE)
    assert threads == 1
    assert modules & set(HEAVY) == set()


def test_importing_rota_alone_leaves_the_sdk_for_later():
    assert not {
        name
        for name in after("import rota")[1]
        if name.startswith(("rota.sdk", "rota.jobs", "rota.services", "rota.streams", "rota.resources"))
    }


def test_every_promised_name_is_there_and_no_other():
    code = """
import rota
assert len(set(rota.__all__)) == len(rota.__all__)
assert all(getattr(rota, name) is not None for name in rota.__all__)
assert set(rota.__all__) <= set(dir(rota))
assert rota.testing.Stage
try:
    rota.nothing
except AttributeError as error:
    assert "nothing" in str(error)
else:
    raise AssertionError
"""
    assert "rota.sdk.app" in after(code)[1]


@pytest.mark.parametrize("name", [name for name in rota.__all__ if isinstance(getattr(rota, name), type)])
def test_what_is_exported_can_be_inspected(name: str) -> None:
    """`help`, editors and dependency injection ask for signatures."""
    exported = getattr(rota, name)
    inspect.signature(exported)
    if issubclass(exported, msgspec.Struct):
        msgspec.structs.fields(exported)
