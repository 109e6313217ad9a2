"""Programs that come as Java archives: fetched by Maven once, checked, and kept for the runs to come.

Each archive is named by its Maven coordinates and the SHA-256 of its content, so a run on another day has the same
bytes or none. They are kept below the user's cache folder (XDG_CACHE_HOME); the folder appears when it is complete.
Where Maven looks for them is Maven's to know, by its own settings.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"


def load(name: str) -> dict[str, str]:
    """The archives that a file beside this one lists: their coordinates and their checksums, the program's own last."""
    lines = Path(__file__).with_name(name).read_text().splitlines()
    return {coordinates: checksum for checksum, coordinates in (line.split() for line in lines)}


KAFKA = load("kafka.jars")
"""What a single node of both roles loads: Java's list of classes told. Beside gzip it understands lz4."""


class JarsError(Exception):
    """The archives cannot be had; the message says why."""


def folder(coordinates: str) -> Path:
    """Where the archives of a program are kept; it is named for one of them."""
    _, name, version = coordinates.split(":")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "rota-tests" / f"{name}-{version}"


def fetch(archives: Mapping[str, str], into: Path) -> None:
    """Have the archives in a folder, all of them and sound; JarsError says why not."""
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent) as base:
        _copy(archives, Path(base))
        got = Path(base) / "jars"
        _check(archives, got)
        shutil.rmtree(into, ignore_errors=True)
        got.rename(into)


def file_name(coordinates: str) -> str:
    """What Maven calls an archive."""
    _, name, version = coordinates.split(":")
    return f"{name}-{version}.jar"


def _copy(archives: Iterable[str], base: Path) -> None:
    (base / "pom.xml").write_text(_project(archives))
    goal = [f"{PLUGIN}:copy-dependencies", f"-DoutputDirectory={base / 'jars'}", "-DincludeScope=runtime"]
    done = subprocess.run(
        ["mvn", "-q", "-B", "-f", str(base / "pom.xml"), *goal],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        complaints = [line for line in done.stdout.splitlines() if "[ERROR]" in line]
        raise JarsError(complaints[0] if complaints else f"mvn ended with {done.returncode}")


def _check(archives: Mapping[str, str], got: Path) -> None:
    for coordinates, expected in archives.items():
        path = got / file_name(coordinates)
        if not path.exists():
            raise JarsError(f"Maven brought no {path.name}")
        if hashlib.sha256(path.read_bytes()).hexdigest() != expected:
            raise JarsError(f"{path.name} is not the one that was tried: its SHA-256 differs")


def _project(archives: Iterable[str]) -> str:
    """A project that needs these archives, and none of those that they name themselves."""
    dependencies = "".join(map(_dependency, archives))
    head = "<modelVersion>4.0.0</modelVersion><groupId>rota</groupId><artifactId>tests</artifactId>"
    return f"<project>{head}<version>1</version><dependencies>{dependencies}</dependencies></project>"


def _dependency(coordinates: str) -> str:
    group, name, version = coordinates.split(":")
    nothing_else = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        f"<exclusions>{nothing_else}</exclusions></dependency>"
    )
