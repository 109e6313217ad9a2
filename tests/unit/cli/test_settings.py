"""Settings: from flags, variables and files, in this order, and what is said when they are wrong."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from rota.cli import settings
from rota.cli.options import parse_size, render_size
from rota.cli.settings import Resolved, declared, look_up, resolve
from rota.model.config import SECTIONS, LogConfig, NodeConfig, RuntimeConfig, Size, SupervisorConfig
from rota.model.errors import Invalid
from rota.model.node import Role


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project's folder, and beside it a user's home."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def write_user_file(folder: Path, text: str) -> None:
    file = folder.parent / "home/.config/rota/rota.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)


def environ(folder: Path, **variables: str) -> dict[str, str]:
    return {"HOME": str(folder.parent / "home"), **variables}


def node(folder: Path, flags: dict[str, Any] | None = None, **variables: str) -> Resolved[NodeConfig]:
    given = {"store": "memory://", **(flags or {})}
    return resolve(NodeConfig, given, environ=environ(folder, **variables), folder=folder)


def runtime(folder: Path, **variables: str) -> Resolved[RuntimeConfig]:
    return resolve(RuntimeConfig, environ=environ(folder, **variables), folder=folder)


def test_the_default_counts_where_nothing_is_said(folder: Path) -> None:
    found = node(folder)
    assert found.config == NodeConfig(store="memory://", data=Path(".rota/node"))
    assert found.origins["store"] == "flag --store"
    assert {origin for name, origin in found.origins.items() if name != "store"} == {"default"}


def test_each_place_beats_the_next(folder: Path) -> None:
    write_user_file(folder, "[node]\nslots = 1\nhttp = ':1'\nlease_ttl = '11s'\nrole = 'work'\n")
    assert node(folder).config.slots == 1
    (folder / "rota.toml").write_text("[node]\nslots = 2\nhttp = ':2'\nlease_ttl = '12s'\n")
    found = node(folder, {"slots": 4, "config": None}, ROTA_HTTP=":3", ROTA_SLOTS="3")
    assert found.config.slots == 4
    assert found.config.http == ":3"
    assert found.config.lease_ttl == timedelta(seconds=12)
    assert found.config.role is Role.WORK
    assert found.origins["slots"] == "flag --slots"
    assert found.origins["http"] == "env ROTA_HTTP"
    assert found.origins["lease_ttl"] == "rota.toml:4"
    assert found.origins["role"] == f"{folder.parent}/home/.config/rota/rota.toml:5"
    assert found.origins["grpc"] == "default"


def test_a_named_file_takes_the_place_of_the_projects(folder: Path) -> None:
    (folder / "rota.toml").write_text("[node]\nslots = 2\nhttp = ':2'\n")
    other = folder / "other.toml"
    other.write_text("[node]\nslots = 3\n")
    for found in (node(folder, {"config": other}), node(folder, ROTA_CONFIG=str(other))):
        assert found.config.slots == 3
        assert found.config.http == "127.0.0.1:7700"
        assert found.origins["slots"] == f"{other}:2"


def test_an_empty_variable_is_not_given(folder: Path) -> None:
    assert node(folder, ROTA_SLOTS="").origins["slots"] == "default"


def test_the_data_folder_follows_from_the_name(folder: Path) -> None:
    assert node(folder, {"id": "a"}).config.data == Path(".rota/nodes/a")
    assert node(folder, {"id": "a", "data": Path("d")}).config.data == Path("d")
    assert node(folder, ROTA_DATA="e").config.data == Path("e")


def test_every_type_can_be_written_in_a_file(folder: Path) -> None:
    (folder / "rota.toml").write_text(
        '[node]\nlabels = { zone = "a" }\nslots = 7\nrole = "work"\ndata = "d"\n'
        '[runtime]\ndrain = "1m"\nrecycle_memory = "512MiB"\nrecycle_age = "off"\nrecycle_count = 5\n'
        '[log]\nlevel = "debug"\n'
    )
    found = node(folder).config
    assert (found.labels, found.slots, found.role, found.data) == ({"zone": "a"}, 7, Role.WORK, Path("d"))
    ran = runtime(folder).config
    assert (ran.drain, ran.recycle_memory) == (timedelta(minutes=1), 512 * 1024**2)
    assert (ran.recycle_age, ran.recycle_count) == (None, 5)
    assert resolve(LogConfig, environ={}, folder=folder).config.level == "debug"


def test_every_type_can_be_written_in_a_variable(folder: Path) -> None:
    found = node(folder, ROTA_LABELS="zone=a, disk=ssd", ROTA_SLOTS="7", ROTA_ROLE="work", ROTA_LEASE_TTL="1m").config
    assert (found.labels, found.slots, found.role) == ({"zone": "a", "disk": "ssd"}, 7, Role.WORK)
    assert found.lease_ttl == timedelta(minutes=1)
    assert runtime(folder, ROTA_RECYCLE_MEMORY="1GiB").config.recycle_memory == 1024**3


def test_a_flag_is_true_or_false_wherever_it_stands(folder: Path) -> None:
    assert node(folder, {"insecure": True}).config.insecure
    assert node(folder, ROTA_INSECURE="true").config.insecure
    (folder / "rota.toml").write_text("[node]\ninsecure = true\n")
    assert node(folder).config.insecure
    assert not node(folder, ROTA_INSECURE="false").config.insecure
    with pytest.raises(Invalid, match='ROTA_INSECURE: "yes" is neither; write true or false'):
        node(folder, ROTA_INSECURE="yes")
    (folder / "rota.toml").write_text('[node]\ninsecure = "true"\n')
    with pytest.raises(Invalid, match=r"rota.toml:2: insecure in \[node\]: 'true' is not true or false"):
        node(folder)


def test_a_token_in_the_place_of_its_reference_is_refused_and_not_repeated(folder: Path) -> None:
    assert node(folder, ROTA_TOKEN="env:SECRET").config.token == "env:SECRET"
    (folder / "rota.toml").write_text('[node]\ntoken = "rota_secret"\n')
    for given in ({}, {"ROTA_TOKEN": "rota_secret"}):
        with pytest.raises(Invalid, match="write file:PATH or env:NAME") as caught:
            look_up(NodeConfig, {}, environ=environ(folder, **given), folder=folder)
        assert "rota_secret" not in str(caught.value)


def test_a_labels_table_is_found_with_its_line(folder: Path) -> None:
    (folder / "rota.toml").write_text('[node]\nslots = 1\n\n[node.labels]\nzone = "a"\n')
    found = node(folder)
    assert found.config.labels == {"zone": "a"}
    assert found.origins["labels"] == "rota.toml:4"


def test_what_is_off_in_a_stronger_place_is_off(folder: Path) -> None:
    (folder / "rota.toml").write_text('[runtime]\nrecycle_age = "1h"\n')
    found = resolve(RuntimeConfig, {"recycle_age": "off"}, environ={}, folder=folder)
    assert found.config.recycle_age is None
    assert found.origins["recycle_age"] == "flag --recycle-age"


def test_a_node_may_be_called_off(folder: Path) -> None:
    assert node(folder, {"id": "off"}).config.id == "off"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("[node]\nstor = 'x'", 'rota.toml:2: [node] has no "stor"; did you mean "store"?', id="a key"),
        pytest.param(
            "[nod]\nstore = 'x'", 'rota.toml: there is no section [nod]; did you mean "node"?', id="a section"
        ),
        pytest.param(
            "[zzzzz]",
            "rota.toml: there is no section [zzzzz]; known are commands, events, jobs, log, node",
            id="no idea",
        ),
        pytest.param("node = 3", "rota.toml: node = 3 is no section; write [node]", id="no section"),
        pytest.param("slots = 3", "rota.toml: there is no section [slots]", id="a key outside"),
        pytest.param("[node", "rota.toml is not TOML", id="no TOML"),
        pytest.param("[node]\nslots = '3'", "rota.toml:2: slots in [node]: '3' is not a whole number", id="text"),
        pytest.param("[node]\nslots = true", "True is not a whole number", id="a boolean is no number"),
        pytest.param(
            "[node]\nlease_ttl = 10", "lease_ttl in [node]: 10 is not a duration; write it in quotes", id="bare"
        ),
        pytest.param("[node]\nlease_ttl = '10'", '"10" is not a duration; write a number and a unit', id="no unit"),
        pytest.param(
            "[runtime]\nrecycle_memory = '9'", '"9" is not a size; write a whole number and a unit', id="size"
        ),
        pytest.param("[node]\nstore = 3", "store in [node]: 3 is not text; write it in quotes", id="no text"),
        pytest.param("[node]\nrole = 'boss'", '"boss" is unknown; choose supervise, work or both', id="choice"),
        pytest.param("[node]\nlabels = 'a'", "'a' is not a table of texts", id="labels"),
        pytest.param("[node]\nlabels = {a = 1}", "a = 1 is not text", id="a label"),
        pytest.param(
            "[node]\nlease_ttl = '1s'", "lease_ttl is 0:00:01; it must be from 2 s to 1 h (rota.toml:2)", id="ttl"
        ),
        pytest.param("[events]\nentries = 'many'", "entries in [events]", id="also where nobody asked"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_key_and_value(folder: Path, text: str, words: str) -> None:
    (folder / "rota.toml").write_text(text)
    with pytest.raises(Invalid) as caught:
        node(folder)
    assert words in str(caught.value)


def test_a_wrong_variable_is_named(folder: Path) -> None:
    with pytest.raises(Invalid, match='ROTA_SLOTS: "many" is not a whole number'):
        node(folder, ROTA_SLOTS="many")
    with pytest.raises(Invalid, match=r"lease_ttl is .* \(env ROTA_LEASE_TTL\)"):
        node(folder, ROTA_LEASE_TTL="1s")
    with pytest.raises(Invalid, match='"zone" is not a pair'):
        node(folder, ROTA_LABELS="zone")


def test_a_named_file_must_exist(folder: Path) -> None:
    with pytest.raises(Invalid, match=r"nowhere.toml: there is no such file; correct --config or ROTA_CONFIG"):
        node(folder, {"config": folder / "nowhere.toml"})


def test_what_is_missing_is_named_with_every_way_to_give_it(folder: Path) -> None:
    with pytest.raises(Invalid, match=r"store is not given; use --store URL, set ROTA_STORE, or write store into"):
        resolve(NodeConfig, environ={}, folder=folder)
    assert look_up(NodeConfig, {}, environ={}, folder=folder)["store"].origin == "not given"


def test_flags_are_made_from_the_fields() -> None:
    seen: dict[str, Any] = {}

    @click.command()
    @settings.options(NodeConfig, only=("slots", "role"))
    @settings.options(RuntimeConfig, only=("recycle_age",))
    @settings.options(LogConfig)
    @settings.config_file
    def command(**flags: Any) -> None:
        seen.update(flags)

    runner = CliRunner()
    text = " ".join(runner.invoke(command, ["--help"]).output.split())
    assert "How many resource tasks the node has room for. [env: ROTA_SLOTS; default: 100]" in text
    assert "--role [supervise|work|both]" in text
    assert "--lease-ttl" not in text
    answer = runner.invoke(command, ["--slots", "3", "--recycle-age", "off", "--log-format", "json"])
    assert answer.exit_code == 0, answer.output
    assert seen == {
        "slots": "3", "role": None, "recycle_age": "off", "log_level": None, "log_format": "json", "config": None,
    }  # fmt: skip
    assert resolve(NodeConfig, {"store": "memory://", **seen}, environ={}).config.slots == 3
    answer = runner.invoke(command, ["--slots", "many"])
    assert answer.exit_code == 2
    assert '"many" is not a whole number' in answer.output


def test_what_a_command_asks_for_in_its_own_way_is_no_flag() -> None:
    @click.command()
    @settings.options(NodeConfig)
    def command(**flags: Any) -> None: ...

    names = {name for param in command.params for name in param.opts}
    assert "--slots" in names
    assert not {"--app", "APP", "--label", "--labels"} & names


def test_every_field_has_a_text_and_a_name_of_its_own() -> None:
    every = [option for section in SECTIONS for option in declared(section)]
    assert all(option.doc for option in every)
    assert len({option.flag for option in every}) == len(every)
    assert len({section.table for section in SECTIONS}) == len(SECTIONS)


def test_defaults_can_be_written_as_they_are_shown() -> None:
    for section in SECTIONS:
        for option in declared(section):
            if option.shown and option.name not in {"data", "id", "fleet", "advertise", "token", "executors", "logs"}:
                assert option.read(option.shown) == option.default


@pytest.mark.parametrize("text", ["0B", "1B", "512MiB", "3GiB", "1TiB", "1025KiB"])
def test_sizes_come_back(text: str) -> None:
    assert render_size(parse_size(text)) == text


@pytest.mark.parametrize("text", ["", "5", "5MB", "1.5GiB", "-1B", "GiB", "5 MiB", "5MiB "])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


def test_sizes_are_shown_exactly() -> None:
    assert render_size(Size(1536)) == "1536B"
    assert render_size(Size(2048)) == "2KiB"


# Resources


def declared_resources(folder: Path, text: str) -> Any:
    (folder / "rota.toml").write_text(text)
    return settings.resources(environ=environ(folder), folder=folder)


def test_resources_are_declared_in_tables_of_their_own(folder: Path) -> None:
    assert settings.resources(environ=environ(folder), folder=folder) is None
    assert declared_resources(folder, "[node]\nslots = 3\n") == ()
    (found,) = declared_resources(
        folder, '[[resources]]\nkind = "room"\nid = "1"\nreplicas = 2\nspec = { lang = "en", day = 2026-01-31 }\n'
    )
    assert (found.name, found.replicas, found.spec) == ("room/1", 2, {"lang": "en", "day": "2026-01-31"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[resources]]\nid = "1"\n', "rota.toml:1: [[resources]]: a resource needs a kind and an id; kind is missing"),
        (
            '[[resources]]\nkind = "room"\nid = "1"\n\n[[resources]]\nkind = "room"\nid = "2"\nreplicas = "two"\n',
            'rota.toml:5: [[resources]]: room "2": replicas is "two"',
        ),
        ('[[resources]]\nkind = "room"\nid = "1"\ncolour = "red"\n', 'there is no field "colour"'),
        ('[[resources]]\nkind = "room"\nid = "1"\n[[resources]]\nkind = "room"\nid = "1"\n', "rota.toml:4"),
        ('[resources]\nkind = "room"\n', "write [[resources]] before each"),
        ('[[resource]]\nkind = "room"\n', 'did you mean "resources"?'),
    ],
)
def test_a_table_that_is_wrong_is_named_also_by_those_who_ask_for_something_else(
    folder: Path, text: str, said: str
) -> None:
    with pytest.raises(Invalid) as refused:
        declared_resources(folder, text)
    assert said in str(refused.value)
    with pytest.raises(Invalid):
        node(folder)


def test_settings_that_changed_since_they_were_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "rota.toml"
    file.write_text('[supervisor]\npolicy = "weighted"\n[runtime]\ndrain = "5s"\n')
    flags = {"store": "memory://", "drain": "3s"}
    running = [resolve(section, flags).config for section in (NodeConfig, RuntimeConfig, SupervisorConfig)]
    assert settings.changed(running, flags) == []
    file.write_text('[supervisor]\npolicy = "random"\n[runtime]\ndrain = "9s"\nhosts = 2\n')
    assert settings.changed(running, flags) == ["runtime.hosts", "supervisor.policy"], "a flag still beats the file"
