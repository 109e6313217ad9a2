"""The wheel as users install it: into an empty environment outside the checkout, without extras and with each."""

import asyncio
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.kit.cli import Answer
from tests.kit.process import ROOT, Process
from tests.kit.servers import free_port
from tests.kit.waiting import eventually

EXTRAS = sorted(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])

APP = """
import rota

app = rota.App("ten-lines")


@app.job()
def hello(run: rota.Run) -> None:
    print("hello")
"""

ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "ROTA_"))}
"""Nothing in it leads to the checkout."""


class Installed:
    """An environment with the wheel in it, and an empty folder to work in."""

    def __init__(self, folder: Path, wheel: Path, extra: str = "") -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        (self.folder / "app.py").write_text(APP)
        self._home = folder / "env"
        wanted = f"{wheel}[{extra}]" if extra else str(wheel)
        locked = ROOT / "requirements/image.txt"
        _uv("venv", "--python", sys.executable, self._home)
        _uv("pip", "install", "--python", self.python, "--constraint", locked, wanted)

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self._home / "bin/python"

    def rota(self, *arguments: object) -> Answer:
        """Run its `rota`."""
        return self.run(self._home / "bin/rota", *arguments)

    def run(self, *argv: object) -> Answer:
        """Run a program to its end."""
        words = list(map(str, argv))
        done = subprocess.run(
            words, cwd=self.folder, env=ENVIRON, capture_output=True, text=True, timeout=200, check=False
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    @asynccontextmanager
    async def up(self, environ: dict[str, str]) -> AsyncIterator[Process]:
        """`rota up` with the app, ready."""
        argv = ["sh", "-c", f'cd "{self.folder}" && exec "$0" "$@"', self._home / "bin/rota", "up", "app.py"]
        with Process(argv, self.folder / "up.out", environ={**ENVIRON, **environ}) as up:
            await eventually(lambda: any(line.startswith("ready") for line in up.lines()), within=200)
            yield up


def _uv(*words: object) -> None:
    done = subprocess.run([ROOT / "scripts/uv.sh", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (found,) = folder.glob("rota-*.whl")
    return found


async def test_without_extras_an_app_runs_and_what_an_extra_is_for_names_it(tmp_path: Path, wheel: Path) -> None:
    here = await asyncio.to_thread(Installed, tmp_path, wheel)
    where = here.run(here.python, "-c", "import rota; print(rota.__file__)")
    assert Path(where.out.strip()).is_relative_to(tmp_path), where
    async with here.up({}) as up:
        done = await asyncio.to_thread(here.rota, "jobs", "run", "hello")
        assert "succeeded" in done.out, done.err
        assert here.rota("status").out.splitlines()[-1].split()[0] == "n1"
        assert any("pip install 'rota[grpc]'" in line for line in up.lines())
    refused = here.rota("status", "--store", "postgresql://test@127.0.0.1:1/postgres")
    assert "pip install 'rota[postgres]'" in refused.err


def asks_a_store(address: str) -> Callable[[Installed], None]:
    def opens(here: Installed) -> None:
        answer = here.rota("status", "--store", f"{address}:{free_port()}/test")
        assert (answer.code, "pip install" in answer.err) == (7, False), answer

    return opens


def publishes_to_kafka(here: Installed) -> None:
    code = f"""
import asyncio
from rota.sinks.open import open_sink

async def main():
    async with open_sink("kafka://127.0.0.1:{free_port()}/topic", None):
        pass

asyncio.run(main())
"""
    answer = here.run(here.python, "-c", code)
    assert "rota.model.errors.Unavailable" in answer.err, answer


def writes_parquet(here: Installed) -> None:
    code = "from rota.outputs.open import preload; preload('parquet:///rows'); print('opened')"
    assert here.run(here.python, "-c", code).out == "opened\n"


def makes_certificates(here: Installed) -> None:
    answer = here.rota("tls", "init")
    assert (answer.code, (here.folder / "tls/ca/cert.pem").exists()) == (0, True), answer


OPENS: dict[str, Callable[[Installed], None]] = {
    "etcd": asks_a_store("etcd://127.0.0.1"),
    "kafka": publishes_to_kafka,
    "mysql": asks_a_store("mysql://test@127.0.0.1"),
    "parquet": writes_parquet,
    "postgres": asks_a_store("postgresql://test@127.0.0.1"),
    "tls": makes_certificates,
}

TELEMETRY = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


@pytest.mark.matrix
@pytest.mark.parametrize("extra", EXTRAS)
async def test_with_an_extra_an_app_runs_and_what_the_extra_is_for_opens(
    extra: str, tmp_path: Path, wheel: Path
) -> None:
    here = await asyncio.to_thread(Installed, tmp_path, wheel, extra)
    async with here.up(TELEMETRY) as up:
        assert "succeeded" in (await asyncio.to_thread(here.rota, "jobs", "run", "hello")).out
        if extra == "grpc":
            (node,) = json.loads(here.rota("status", "--output", "json").out)["nodes"]
            assert node["grpc"].startswith("127.0.0.1:")
            assert not any("pip install 'rota[grpc]'" in line for line in up.lines())
        elif extra == "otel":
            await eventually(lambda: any("telemetry every_s=" in line for line in up.lines()))
    if extra in OPENS:
        OPENS[extra](here)


def test_every_extra_is_tried() -> None:
    assert {*OPENS, "grpc", "otel"} == {*EXTRAS}
