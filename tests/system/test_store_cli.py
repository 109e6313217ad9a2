"""`rota store` on real stores: check, dump, load and compact, and fleets on what was loaded."""

import asyncio
import json
import signal
import subprocess
from contextlib import aclosing
from pathlib import Path

import pytest

from rota.fleet.audit import trail as audit
from rota.kit.time.clock import SYSTEM
from rota.model import codec, keys
from rota.model.ids import Revision
from rota.model.node import Incarnation
from rota.store import Put, incarnation, open_store
from rota.store.tools import backup, dumpfile
from tests.kit.cli import ROTA, Answer, rota
from tests.kit.harness import HARNESSES, StoreHarness, params
from tests.kit.process import Process
from tests.kit.server_pool import ServerPool
from tests.kit.servers import free_port
from tests.kit.trials import rota_node
from tests.kit.waiting import eventually

ENTRIES = {
    **{f"/app/{number:03}": b'{"v":1,"number":%d}' % number for number in range(250)},
    "/app/é/😀": "naïve".encode(),
    "/bytes": bytes(range(256)),
    "/empty": b"",
    "/huge/json": b'"%s"' % (b"x" * 1_000_000),
    "/huge/bytes": b"\xff" * 1024 * 1024,
}


@pytest.fixture(params=params(kind for kind in HARNESSES if kind.is_shared))
def place(request: pytest.FixtureRequest, servers: ServerPool, tmp_path: Path) -> StoreHarness:
    """A place for a store that a command can reach."""
    kind: type[StoreHarness] = request.param
    return kind(tmp_path, servers.get(kind.server, "steady") if kind.server else None)


@pytest.fixture
async def source(tmp_path: Path) -> str:
    """A store with all kinds of entries."""
    url = f"sqlite:///{tmp_path / 'source.db'}"
    async with open_store(url) as store:
        await incarnation.current(store, SYSTEM)
        for batch in backup.batches(Put(key, value) for key, value in sorted(ENTRIES.items())):
            await store.commit(*batch)
    return url


@pytest.fixture
def dump(source: str, tmp_path: Path) -> Path:
    """A dump of that store."""
    file = tmp_path / "source.dump"
    assert rota("store", "dump", source, file, cwd=tmp_path).code == 0
    return file


def lines(file: Path) -> list[bytes]:
    """The entries of a dump, but for those that say who loaded it."""
    return [line for line in file.read_bytes().splitlines()[1:-1] if keys.AUDIT_OPEN.encode() not in line]


async def trail(url: str) -> list[str]:
    """What the audit trail says was done."""
    async with open_store(url) as store:
        return [entry.what for entry in await audit.unsealed(store)]


def refusal(answer: Answer) -> tuple[int, str]:
    """The exit code and the one line."""
    assert answer.out == ""
    assert answer.err.startswith("rota: ")
    assert answer.err.count("\n") == 1
    return answer.code, answer.err


async def keys_in(url: str) -> list[str]:
    async with open_store(url) as store:
        return [entry.key for entry in (await store.scan("/")).entries]


# Dump and load


async def test_a_dump_of_sqlite_is_the_same_after_a_visit_to_any_store(
    dump: Path, place: StoreHarness, tmp_path: Path
) -> None:
    answer = rota("store", "load", place.url(), dump, cwd=tmp_path)
    assert (answer.code, answer.err) == (0, "")
    assert f"loaded {len(ENTRIES)} entries of revision" in answer.out
    async with open_store(place.url()) as store:
        assert {key: value for key, value in ENTRIES.items() if (await store.get(key)).value != value} == {}  # type: ignore[union-attr]
    again, third = tmp_path / "again.dump", f"sqlite:///{tmp_path / 'third.db'}"
    assert rota("store", "dump", place.url(), again, cwd=tmp_path).code == 0
    assert lines(again) == lines(dump)
    assert len(lines(again)) == len(ENTRIES)
    assert rota("store", "load", third, again, cwd=tmp_path).code == 0
    assert rota("store", "dump", third, again, "--force", cwd=tmp_path).code == 0
    assert lines(again) == lines(dump)


async def test_a_fleet_moves_from_one_store_to_another(place: StoreHarness, tmp_path: Path) -> None:
    old, file = f"sqlite:///{tmp_path / 'old.db'}", tmp_path / "dump"
    with rota_node(old, "a", tmp_path, "5s") as node:
        await eventually(lambda: "node joined subject=a" in node.complaint())
        await eventually(lambda: _has(old, keys.PLACING, keys.ROSTER))
        assert rota("store", "dump", old, file, cwd=tmp_path).code == 0, "while the fleet runs"
    dumped = [json.loads(line)["key"] for line in lines(file)]
    assert {keys.PLACING, keys.ROSTER} <= set(dumped)
    assert not [key for key in dumped if key == keys.LEADER or key.startswith(keys.NODES)], "they end with their lease"
    assert rota("store", "load", place.url(), file, cwd=tmp_path).code == 0
    with rota_node(place.url(), "b", tmp_path, "5s") as node:
        await eventually(lambda: "node left subject=a" in node.complaint())
        status = json.loads(rota("status", "--store", place.url(), "-o", "json", cwd=tmp_path).out)
        assert status["leader"]["node"] == "b"


async def _has(url: str, *wanted: str) -> bool:
    return {*wanted} <= {*await keys_in(url)}


def test_dump_writes_to_stdout_and_load_reads_stdin_with_the_store_in_the_environment(
    source: str, dump: Path, tmp_path: Path
) -> None:
    from_source = {"ROTA_STORE": source}
    out = subprocess.run([ROTA, "store", "dump"], env=from_source, cwd=tmp_path, capture_output=True, check=True)
    assert out.stdout.splitlines()[1:-1] == lines(dump)
    copy = {"ROTA_STORE": f"sqlite:///{tmp_path / 'copy.db'}"}
    subprocess.run([ROTA, "store", "load", "-"], env=copy, cwd=tmp_path, input=out.stdout, check=True)
    assert rota("store", "dump", "copy.dump", cwd=tmp_path, environ=copy).code == 0
    assert lines(tmp_path / "copy.dump") == lines(dump)


def test_a_reader_that_stops_is_no_bug(source: str, tmp_path: Path) -> None:
    command = f"'{ROTA}' store dump '{source}' | head -c 1"
    answer = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.stderr == "rota: cannot write to stdout: Broken pipe\n"


def test_dump_does_not_overwrite(source: str, dump: Path, tmp_path: Path) -> None:
    before = dump.read_bytes()
    code, line = refusal(rota("store", "dump", source, dump, cwd=tmp_path))
    assert code == 2
    assert f"{dump} exists; choose another name, or --force to replace it" in line
    assert dump.read_bytes() == before
    assert dump.stat().st_mode & 0o777 == 0o600


def test_dump_makes_no_store_and_no_file(tmp_path: Path) -> None:
    code, line = refusal(rota("store", "dump", "sqlite:///typo.db", "x.dump", cwd=tmp_path))
    assert (code, "no fleet has used it yet" in line) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["", "forced"])
def test_a_damaged_file_changes_nothing(dump: Path, tmp_path: Path, force: list[str]) -> None:
    dump.write_bytes(dump.read_bytes()[:-200])
    code, line = refusal(rota("store", "load", "sqlite:///new.db", dump, *force, cwd=tmp_path))
    assert code == 2
    assert f"{dump}: " in line
    assert "take another copy" in line
    assert not (tmp_path / "new.db").exists()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    code, line = refusal(rota("store", "load", "sqlite:///new.db", "none.dump", cwd=tmp_path))
    assert code == 2
    assert "cannot read none.dump: No such file or directory" in line


async def test_a_store_in_use_is_refused_until_forced(source: str, dump: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'used.db'}"
    async with open_store(url) as store:
        await store.commit(Put("/old", b"1"))
    code, line = refusal(rota("store", "load", url, dump, cwd=tmp_path))
    assert code == 2
    assert "the store has keys, such as /old; take an empty one, or --force to replace them" in line
    assert await keys_in(url) == ["/old"]
    answer = rota("store", "load", url, dump, "--force", cwd=tmp_path)
    assert answer.code == 0
    assert "in place of 1 key;" in answer.out
    assert "/old" not in await keys_in(url)
    (told,) = await trail(url)
    assert told.startswith("rota store load revision ")


async def test_a_store_with_nodes_is_refused_and_they_are_named(dump: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'used.db'}"
    with rota_node(url, "a", tmp_path, "5s") as node:
        await eventually(lambda: "leading" in node.complaint())
        for force in ([], ["--force"]):
            code, line = refusal(rota("store", "load", url, dump, *force, cwd=tmp_path))
            assert code == 5
            assert "nodes are on this store: a; stop them" in line
        assert "term ended" not in node.complaint()


async def test_nothing_works_on_a_half_loaded_store_but_loading_it_again(
    dump: Path, place: StoreHarness, tmp_path: Path
) -> None:
    url = place.url()
    async with open_store(url) as store:
        loading = Incarnation(id="x", since=SYSTEM.wall(), is_loading=True)
        await store.commit(Put(keys.INCARNATION, codec.encode(loading)), Put("/app/000", b"half"))
    commands: list[tuple[object, ...]] = [("store", "dump", url), ("node", "--store", url, "--id", "a")]
    for command in commands:
        answer = rota(*command, cwd=tmp_path)
        assert answer.code == 2
        assert "the store is half loaded: a load that began at" in answer.err
        assert "repeat it with rota store load" in answer.err
    assert "failed  incarnation  the store is half loaded" in rota("store", "check", url, cwd=tmp_path).out
    assert rota("store", "load", url, dump, cwd=tmp_path).code == 0
    with rota_node(url, "a", tmp_path, "5s") as node:
        await eventually(lambda: "leading" in node.complaint())


async def test_a_killed_load_can_be_repeated(dump: Path, tmp_path: Path) -> None:
    """Wherever it was killed, be it behind its end (hence --force)."""
    url = f"sqlite:///{tmp_path / 'new.db'}"
    async with open_store(url) as store:
        with Process([ROTA, "store", "load", url, dump], tmp_path / "load.out") as load:
            async with asyncio.timeout(60), aclosing(store.watch(keys.INCARNATION, Revision(0))) as commits:
                await anext(commits)
                load.kill()
    assert rota("store", "load", url, dump, "--force", cwd=tmp_path).code == 0
    async with open_store(url) as store:
        kept = [entry async for entry in backup.entries(store) if dumpfile.is_restored(entry.key)]
        assert {each.key: each.value for each in kept if not each.key.startswith(keys.AUDIT_OPEN)} == ENTRIES


# Check


def test_check_of_a_healthy_store(source: str, place: StoreHarness, dump: Path, tmp_path: Path) -> None:
    url = place.url()
    rota("store", "load", url, dump, cwd=tmp_path)
    answer = rota("store", "check", url, "-o", "json", cwd=tmp_path)
    assert (answer.code, answer.err) == (0, "")
    seen = json.loads(answer.out)
    assert (seen["ok"], seen["store"]) == (True, place.shown)
    probes = {probe.pop("probe"): probe for probe in seen["probes"]}
    assert {name for name, probe in probes.items() if not probe["ok"]} == set()
    assert probes["keys"]["keys"] == len(ENTRIES) + 3
    assert 0 < probes["commit"]["median_ms"] <= probes["commit"]["worst_ms"]
    assert probes["lease"]["ttl_s"] >= 2
    assert abs(probes["clock"]["skew_s"]) < 60, "it is the clock of this machine, looked at a little later"
    again = rota("store", "check", url, cwd=tmp_path)
    assert again.code == 0
    assert [line.split()[:2] for line in again.out.splitlines()] == [["ok", name] for name in probes]


async def test_check_leaves_nothing_behind_also_when_interrupted(source: str, tmp_path: Path) -> None:
    assert rota("store", "check", source, cwd=tmp_path).code == 0
    assert [key for key in await keys_in(source) if key.startswith(keys.CHECK)] == []
    with Process([ROTA, "store", "check", source], tmp_path / "check.out") as check:
        async with open_store(source) as store:
            after = await store.revision()
            async with asyncio.timeout(60), aclosing(store.watch(keys.CHECK, after)) as commits:
                await anext(commits)
            check.send(signal.SIGINT)
            await eventually(lambda: not check.is_running)
            assert "Traceback" not in check.complaint()
            await eventually(lambda: _is_clean(source))


async def _is_clean(url: str) -> bool:
    return not [key for key in await keys_in(url) if key.startswith(keys.CHECK)]


def test_check_of_a_store_out_of_reach(tmp_path: Path) -> None:
    url = f"etcd://127.0.0.1:{free_port()}?timeout=1s"
    code, line = refusal(rota("store", "check", url, cwd=tmp_path))
    assert code == 7
    assert "is etcd running there?" in line


def test_check_makes_no_store(tmp_path: Path) -> None:
    code, line = refusal(rota("store", "check", "sqlite:///typo.db", cwd=tmp_path))
    assert (code, "no fleet has used it yet" in line) == (2, True)
    assert list(tmp_path.iterdir()) == []


# Compact


async def test_compact_says_from_where_to_where(source: str, tmp_path: Path) -> None:
    async with open_store(source) as store:
        newest = await store.revision()
    answer = rota("store", "compact", source, "--before", 3, cwd=tmp_path)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.endswith("started at revision 0, and starts at 3 now\n")
    answer = rota("store", "compact", source, "--keep", "100ms", cwd=tmp_path)
    assert answer.out.endswith(f"started at revision 3, and starts at {newest + 1} now\n")
    assert f"revision {newest + 1} is the present; it will be compacted in 100ms" in answer.err
    assert await trail(source) == [f"rota store compact before revision {number}" for number in (3, newest + 1)]


def test_compact_takes_one_limit(source: str, tmp_path: Path) -> None:
    answer = rota("store", "compact", source, "--before", 3, "--keep", "1s", cwd=tmp_path)
    assert answer.code == 2
    assert "--keep and --before exclude each other" in answer.err


def test_a_url_is_needed(tmp_path: Path) -> None:
    for verb in ("check", "dump", "load", "compact"):
        answer = rota("store", verb, cwd=tmp_path, environ={"ROTA_STORE": ""})
        assert answer.code == 2
        assert "Missing argument 'URL'" in answer.err
