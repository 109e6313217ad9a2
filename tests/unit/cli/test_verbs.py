"""Words that people type: aliases of other tools, suggestions that destroy nothing, names in one word."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from rota.cli.main import COMMANDS, cli, main
from rota.cli.verbs import DESTRUCTIVE, Verbs, suggestion
from rota.store import open_store


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    out, err = capsys.readouterr()
    return ended.value.code if isinstance(ended.value.code, int) else 0, out, err


def groups(group: click.Group) -> Iterator[click.Group]:
    yield group
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from groups(command)


@pytest.mark.parametrize(
    ("words", "never"),
    [(["tops"], "stop"), (["stpo"], "stop"), (["services", "scales"], "clear"), (["services", "cler"], "clear"),
     (["runs", "rn"], "rm"), (["streams", "terminat"], "terminate"), (["store", "lod"], "load")],
)  # fmt: skip
def test_nothing_that_destroys_is_suggested(words: list[str], never: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, *words)
    assert code == 2
    assert f"No such command '{words[-1]}'." in err
    assert f"'{never}'" not in err


def test_every_group_suggests_so() -> None:
    others = [each for each in groups(cli) if not isinstance(each, Verbs)]
    assert len(others) == 2  # the root, which does so itself, and the scenarios of the simulator
    known = {name for each in groups(cli) for name in each.list_commands(click.Context(each))}
    assert known >= DESTRUCTIVE
    assert suggestion("statu", COMMANDS) == " Did you mean 'status'?"


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["jobs", "list"], "rota jobs ls"),
        (["jobs", "delete"], "rota jobs rm"),
        (["token", "delete"], "rota token revoke"),
        (["resources", "describe"], "rota resources get"),
        (["streams", "describe"], "rota streams status"),
        (["services", "scale"], "rota services resize"),
        (["streams", "scale"], "rota streams scale"),
        (["runs", "cancel"], "rota runs interrupt"),
        (["cancel"], "rota runs interrupt"),
        (["describe"], "rota why"),
        (["top"], "rota nodes ls"),
        (["ps"], "rota status"),
    ],
)
def test_words_of_other_tools_are_understood(words: list[str], usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, *words, "--help")
    assert (code, out.splitlines()[0].startswith(f"Usage: {usage} ")) == (0, True)


def test_help_and_version_are_commands_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "version") == said(capsys, "--version")
    assert said(capsys, "help") == said(capsys, "--help")
    assert said(capsys, "help", "jobs", "run") == said(capsys, "jobs", "run", "--help")


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/rota.db"

    async def make() -> None:
        async with open_store(url):
            pass

    asyncio.run(make())
    return url


@pytest.mark.parametrize("verb", ["get", "rm", "update"])
def test_a_resource_may_be_named_in_one_word(verb: str, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    one = said(capsys, "resources", verb, "room/r/00", "--store", store)
    assert one == said(capsys, "resources", verb, "room", "r/00", "--store", store)
    assert (one[0], "there is no resource room/r/00" in one[2]) == (3, True)
    code, _, err = said(capsys, "resources", verb, "room", "--store", store)
    assert (code, "write the kind and the id, like room/21452505" in err) == (2, True)


def test_a_kind_of_events_that_there_is_not_is_refused(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, "events", "--kind", "nosuch", "--store", store)
    assert (code, 'rota: --kind "nosuch": no event has such a kind; there are ' in err) == (2, True)
    assert 'did you mean "node.offline"?' in said(capsys, "events", "--kind", "node.ofline", "--store", store)[2]
    assert said(capsys, "events", "--kind", "worker.*", "--store", store)[0] == 0


def test_the_newest_run_of_a_job_is_named_by_the_job(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, "runs", "logs", "--last", "nosuch", "--store", store)
    assert (code, 'there is no job "nosuch"' in err) == (3, True)
    assert said(capsys, "runs", "logs", "--store", store)[0] == 2
    said(capsys, "jobs", "add", "says", "--store", store, "--", "echo")
    code, _, err = said(capsys, "runs", "logs", "--last", "says", "--store", store)
    assert (code, 'job "says" has no runs yet' in err) == (3, True)
    code, _, err = said(capsys, "logs", "--last", "says", "--store", store)
    assert (code, 'job "says" has no runs yet' in err) == (3, True)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ((), 2, "name what printed"),
        (("room",), 2, "name what printed"),
        (("room/9",), 3, "room/9"),
        (("service/chat",), 3, 'no node has a service "chat"; there are: none'),
        (("stream/clicks",), 3, "clicks"),
        (("worker/n9",), 3, "n9"),
        (("report/20260131T030000.000Z",), 3, "report/20260131T030000.000Z"),
        (("report/20260131T030000.000Z", "--tail", "3"), 2, "--tail, --node and -o are for resources"),
        (("room/9", "--raw"), 2, "--attempt, --raw and --logs are for runs"),
    ],
)
def test_logs_says_what_it_cannot_show(
    store: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, sentence: str
) -> None:
    given, _, err = said(capsys, "logs", *words, "--store", store)
    assert (given, sentence in err) == (code, True), err
