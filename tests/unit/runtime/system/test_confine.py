"""Confining the app: what its processes get of the environment, and what a machine cannot give."""

import os
import pwd
from datetime import timedelta

import pytest

from rota.model.config import CommandsConfig, RuntimeConfig, Size
from rota.model.errors import Denied, Invalid
from rota.runtime.system.confine import Commands, Confinement, cleaned, find, find_commands, withheld

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


CONFINED = RuntimeConfig(user="worker")


@pytest.mark.parametrize(
    ("store", "sink", "config", "expected"),
    [
        pytest.param("postgresql://r@db/r", None, CONFINED, {"PGPASSWORD"}, id="the driver reads it for the store"),
        pytest.param(
            "postgresql://r:x@db/r", None, CONFINED, set(), id="the store's is in its URL, so it is the app's"
        ),
        pytest.param("postgresql://r@db/r?password_file=p", None, CONFINED, set(), id="the store's is in a file"),
        pytest.param("mysql://r@db/r", None, CONFINED, set(), id="no driver reads one"),
        pytest.param("etcd://r@db?password_env=DB", None, CONFINED, {"DB"}, id="the URL names it"),
        pytest.param(
            "sqlite:///r.db", "amqp://r@mq/?password_env=MQ", CONFINED, {"MQ"}, id="the relay's sink names it"
        ),
        pytest.param(
            "postgresql://r@db/r", None, RuntimeConfig(), set(), id="the node's own user could read it anyway"
        ),
        pytest.param(
            "postgresql://r@db/r",
            "amqp://r@mq/?password_env=MQ",
            RuntimeConfig(user="worker", env_deny="OTEL_*, STRIPE_KEY", env_allow="MQ"),
            {"PGPASSWORD", "OTEL_*", "STRIPE_KEY"},
            id="settings add and take away",
        ),
    ],
)
def test_variables_that_hold_a_secret_of_the_nodes_are_withheld(
    store: str, sink: str | None, config: RuntimeConfig, expected: set[str]
) -> None:
    assert set(withheld(store, sink, config, {})) == expected


def test_a_password_that_the_node_has_elsewhere_leaves_the_drivers_variable_to_the_app() -> None:
    assert not withheld("postgresql://r@db/r", None, CONFINED, {"ROTA_STORE_PASSWORD": "canary"})


def test_what_is_withheld_is_withheld_by_pattern() -> None:
    environ = {"OTEL_HEADERS": "canary", "PATH": "/bin", "DB_PASSWORD": "canary"}
    assert cleaned(environ, None, {"OTEL_*", "DB_PASSWORD"}) == {"PATH": "/bin"}


@pytest.mark.parametrize("name", ["A B", "a-b", "1A"])
def test_what_is_no_name_of_a_variable_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="is no name of a variable"):
        RuntimeConfig(env_deny=name)


def test_processes_are_counted_by_user_so_the_limit_needs_one() -> None:
    with pytest.raises(Invalid, match=r"max_processes counts all that one user runs; set user in \[runtime\]"):
        RuntimeConfig(max_processes=100)


def test_commands_of_the_api_run_as_the_nodes_own_user_unless_that_is_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert find_commands(CommandsConfig(), Confinement(may_gain_privileges=False)) == Commands()
    with pytest.raises(Denied, match=r"user in \[commands\] is nobody, and only root can become another"):
        find_commands(CommandsConfig(user="nobody"), Confinement())


def test_commands_of_the_api_never_run_as_root_by_accident(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    by_default = find_commands(CommandsConfig(), Confinement(memory=2**30))
    assert (by_default.confinement.user, by_default.confinement.memory) == ("nobody", 2**30)
    assert not by_default.confinement.may_gain_privileges
    me = pwd.getpwnam("daemon")
    app = Confinement(user=me.pw_name, uid=me.pw_uid, gid=me.pw_gid, home=me.pw_dir)
    assert find_commands(CommandsConfig(), app).confinement.user == "daemon"
    assert find_commands(CommandsConfig(user="root"), app).confinement.user == "root"
    with pytest.raises(
        Invalid, match=r'user "no-such-user" is not known here; make it, or correct user in \[commands\]'
    ):
        find_commands(CommandsConfig(user="no-such-user"), app)


def test_where_there_is_no_nobody_commands_of_the_api_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", unknown)
    assert "set user in [commands]" in find_commands(CommandsConfig(), Confinement()).refusal


def test_commands_of_a_node_that_is_root_get_hardly_any_of_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    environ = {"PATH": "/bin", "LC_ALL": "C", "DB_PASSWORD": "canary", "PAGER": "less", "ROTA_STORE": "canary"}
    commands = find_commands(CommandsConfig(env="PAG*"), Confinement())
    found = commands.environment(environ)
    assert {name: found.get(name) for name in environ} == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "PAGER": "less",
        "DB_PASSWORD": None,
        "ROTA_STORE": None,
    }
    assert (found["USER"], found["HOME"]) == ("nobody", pwd.getpwnam("nobody").pw_dir)
