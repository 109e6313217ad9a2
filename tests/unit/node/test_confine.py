"""Confining the app: what its processes get of the environment, and what a machine cannot give."""

import os
import pwd
from datetime import timedelta

import pytest

from rota.model.config import RuntimeConfig, Size
from rota.model.errors import Denied, Invalid
from rota.node.confine import Confinement, cleaned, find

SECRETS = {
    "ROTA_STORE": "postgresql://rota:canary@db/rota",
    "ROTA_STORE_PASSWORD": "canary",
    "ROTA_TOKEN": "env:canary",
    "ROTA_RELAY_SINK": "amqp://rota:canary@broker/",
    "ROTA_TLS": "tls/n1",
}


def test_none_of_rotas_variables_reach_the_app() -> None:
    usual = {"PATH": "/usr/bin", "MY_APP": "1", "ROTA_PORTABLE": "1"}
    assert cleaned({**usual, **SECRETS}) == usual


def test_another_user_has_its_own_home() -> None:
    confinement = Confinement(user="worker", uid=1, gid=1, home="/srv/worker")
    assert cleaned({"HOME": "/root", "USER": "root"}, confinement) == {
        "HOME": "/srv/worker",
        "USER": "worker",
        "LOGNAME": "worker",
    }


def test_limits_are_those_of_the_settings() -> None:
    config = RuntimeConfig(max_memory=Size(2**30), max_files=100, max_cpu=timedelta(milliseconds=1))
    assert find(config) == Confinement(memory=2**30, files=100, cpu=1, may_gain_privileges=False)
    assert find(RuntimeConfig(may_gain_privileges=True)) == Confinement()


def test_a_user_that_is_not_there_is_named() -> None:
    with pytest.raises(Invalid, match='user "nobody-of-this-name" is not known here'):
        find(RuntimeConfig(user="nobody-of-this-name"))


def test_only_root_can_become_another(monkeypatch: pytest.MonkeyPatch) -> None:
    me = pwd.getpwuid(os.geteuid())
    assert find(RuntimeConfig(user=me.pw_name)).uid == me.pw_uid
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    with pytest.raises(Denied, match="start the node as root"):
        find(RuntimeConfig(user=me.pw_name))


@pytest.mark.parametrize(("limit", "value"), [("max_memory", Size(1000)), ("max_files", 3), ("max_cpu", timedelta())])
def test_limits_with_which_nothing_could_run_are_refused(limit: str, value: object) -> None:
    with pytest.raises(Invalid, match=limit):
        RuntimeConfig(**{limit: value})  # type: ignore[arg-type]
