"""The container files fit the program: its settings, its ports, its times. Nothing here builds an image."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.cli import settings
from rota.kit import durations
from rota.model.config import NodeConfig, RuntimeConfig, split_address
from tests.architecture.test_doc_commands import parse
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
    asked = next(rest for rest in instructions("RUN") if "pip install" in rest)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.search(r"\[([\w,]+)\]", asked)[1].split(",")) == set(extras)  # type: ignore[index]


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
