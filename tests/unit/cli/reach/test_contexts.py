"""Contexts: kept by one command at a time, and tokens that do not pass through a network in the clear."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rota.cli.reach import contexts
from rota.cli.reach.contexts import Context, Contexts
from rota.cli.reach.targets import find
from rota.model.errors import Invalid
from tests.kit.cli import rota

TOKEN = "rota_0123456789012345678901234567890"


def test_of_several_who_log_in_at_once_none_is_forgotten(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path)}

    def log_in(name: str) -> None:
        with contexts.changing(home):
            before = contexts.read(home).contexts
            contexts.write(Contexts(current=name, contexts={**before, name: Context("https://n1:7700", TOKEN)}), home)

    names = [f"fleet-{number}" for number in range(40)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(log_in, names))
    assert sorted(contexts.read(home).contexts) == sorted(names)


@pytest.mark.parametrize("url", ["n1.example.com:7700", "http://10.0.0.5:7700", "http://[2001:db8::1]:7700"])
def test_a_token_does_not_pass_in_the_clear_to_another_machine(tmp_path: Path, url: str) -> None:
    refused = rota("login", url, cwd=tmp_path, environ={"XDG_CONFIG_HOME": str(tmp_path)}, stdin=f"{TOKEN}\n")
    assert refused.code == 2, refused.err
    assert "in the clear" in refused.err
    assert "https://" in refused.err
    environ = {"ROTA_SERVER": url, "ROTA_TOKEN": TOKEN, "XDG_CONFIG_HOME": str(tmp_path)}
    with pytest.raises(Invalid, match="in the clear"):
        find({}, environ, tmp_path)
    with pytest.raises(Invalid, match="in the clear"):
        find({"server": url}, environ, tmp_path)
    said = find({}, {**environ, "ROTA_INSECURE": "true"}, tmp_path)
    assert said.server is not None
    assert said.server.token == TOKEN


@pytest.mark.parametrize("url", ["127.0.0.1:7700", "http://localhost:7700", "http://[::1]:7700", "https://n1:7700"])
def test_this_machine_and_tls_need_no_leave(tmp_path: Path, url: str) -> None:
    found = find({}, {"ROTA_SERVER": url, "ROTA_TOKEN": TOKEN, "XDG_CONFIG_HOME": str(tmp_path)}, tmp_path)
    assert found.server is not None


def test_a_context_remembers_that_its_network_may_read_the_token(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    there = {
        "yes": Context("http://10.0.0.5:7700", TOKEN, insecure=True),
        "no": Context("http://10.0.0.6:7700", TOKEN),
    }
    with contexts.changing(home):
        contexts.write(Contexts(current="yes", contexts=there), home)
    assert find({}, home, tmp_path).server == contexts.get("yes", home)
    assert find({"server": "http://10.0.0.5:7700"}, home, tmp_path).server == contexts.get("yes", home)
    with pytest.raises(Invalid, match="in the clear"):
        find({"context": "no"}, home, tmp_path)
