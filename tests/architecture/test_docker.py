"""The container files fit the program: its settings, its ports, its times. Nothing here builds an image."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.cli import settings
from rota.kit.time import durations
from rota.model.config import NodeConfig, RuntimeConfig, split_address
from tests.kit.doc_commands import parse
from tests.kit.process import ROOT

FOLDER = ROOT / "deploy/docker"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
NODES = {name: service for name, service in COMPOSE["services"].items() if name != "db"}
"""The services that are nodes."""


def instructions(name: str) -> list[str]:
    """What follows each instruction of a name in the Dockerfile."""
    text = (FOLDER / "Dockerfile").read_text().replace("\\\n", " ")
    return [rest for word, _, rest in (line.partition(" ") for line in text.splitlines()) if word == name]


def test_the_image_starts_a_command_that_there_is_with_extras_that_there_are() -> None:
    (entry,), (command,) = instructions("ENTRYPOINT"), instructions("CMD")
    assert json.loads(entry) == ["rota"]
    parse(json.loads(command))


def locked(name: str) -> dict[str, str]:
    """Package → version of a file of requirements, each with hashes."""
    found: dict[str, str] = {}
    for block in re.split(r"\n(?=\S)", (ROOT / "requirements" / name).read_text().strip()):
        match = re.match(r"([\w.-]+)==(\S+)", block)
        assert match, block
        assert "--hash=sha256:" in block, block
        found[match[1]] = match[2]
    return found


def named(requirement: str) -> str:
    """The package that a requirement means."""
    return re.split(r"[<>=!~\[; ]", requirement, maxsplit=1)[0].lower()


def test_everything_that_the_image_installs_is_locked_with_hashes() -> None:
    installs = [part for rest in instructions("RUN") for part in rest.split("&&") if "pip install" in part]
    *fetched, own = installs
    assert [re.search(r"-r \S*?([\w.]+)$", each.strip())[1] for each in fetched] == ["build.txt", "image.txt"]  # type: ignore[index]
    assert all("--require-hashes" in each for each in fetched)
    assert "--no-deps --no-index" in own
    (wheel,) = (rest for rest in instructions("RUN") if "pip wheel" in rest)
    assert "--no-deps --no-build-isolation" in wheel, "or it would fetch what builds it"


def test_what_is_locked_for_the_image_is_what_the_project_asks_for_and_the_tests_have_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    asked = {named(each) for each in (*project["project"]["dependencies"], *(one for extra in extras for one in extra))}
    image, build, tried = locked("image.txt"), locked("build.txt"), locked_anywhere("dev.txt")
    assert asked <= image.keys()
    assert {named(each) for each in project["build-system"]["requires"]} <= build.keys()
    assert {name: version for name, version in (image | build).items() if tried.get(name) != version} == {}


def locked_anywhere(name: str) -> dict[str, str]:
    """Package → version of a file of requirements with notes."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements" / name).read_text(), re.MULTILINE))


def test_the_image_copies_what_there_is_and_nothing_that_is_kept_out() -> None:
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    for copied in (rest for rest in instructions("COPY") if not rest.startswith("--from")):
        *sources, _ = copied.split()
        assert all((ROOT / source).exists() and f"!{source}" in ignored for source in sources)


def test_the_image_is_not_rooted_and_asks_the_nodes_own_port_how_it_is() -> None:
    assert instructions("USER") == ["rota"]
    port = split_address(settings.resolve(NodeConfig, environ={"ROTA_STORE": "memory://"}).config.http)[1]
    assert f"http://127.0.0.1:{port}/healthz" in instructions("HEALTHCHECK")[0]
    assert str(port) in instructions("EXPOSE")[0].split()


@pytest.mark.parametrize("name", NODES)
def test_every_node_of_the_compose_file_has_settings_that_hold(name: str, tmp_path: Path) -> None:
    service = NODES[name]
    environ = {key: value for key, value in service["environment"].items() if key.startswith("ROTA_")}
    known = {option.variable for option in settings.declared(NodeConfig)} | {"ROTA_STORE_PASSWORD"}
    assert set(environ) <= known
    node = settings.resolve(NodeConfig, environ=environ, folder=tmp_path).config
    assert (node.id, node.advertised, node.insecure) == (name, name, True)
    assert node.store.startswith("postgresql://")
    grace = durations.parse(service["stop_grace_period"])
    assert grace.total_seconds() > RuntimeConfig().drain.total_seconds() + 5
    assert any(volume.startswith(f"{name}:/var/lib/rota") for volume in service["volumes"])


def test_every_volume_is_declared_and_no_port_is_open_to_others() -> None:
    used = {volume.partition(":")[0] for service in COMPOSE["services"].values() for volume in service["volumes"]}
    assert {volume for volume in used if not volume.startswith(".")} == set(COMPOSE["volumes"])
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert ports == ["127.0.0.1:7700:7700"]
