"""Dump and load: the format, what is refused, and what a load leaves when it is interrupted."""

import hashlib
import io
import json
import stat
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from rota.kit.time.clock import SYSTEM
from rota.model import codec, keys
from rota.model.errors import Conflict, Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import Key, Revision
from rota.model.node import Incarnation
from rota.store import Absent, Delete, Put, Store, history, incarnation, open_store, rules
from rota.store.port import Expect, Write
from rota.store.tools import backup, dumpfile
from rota.store.tools.backup import batches
from rota.store.tools.dumpfile import Dump, line_of, put_of

MIB = rules.MAX_VALUE_BYTES
RECORD = b'{"v":1,"name":"caf\xc3\xa9"}'


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        yield store


@pytest.fixture
async def copy() -> AsyncIterator[Store]:
    async with open_store("memory://") as store:
        yield store


async def dumped(store: Store) -> bytes:
    file = io.BytesIO()
    await backup.dump(store, file)
    return file.getvalue()


async def loaded(store: Store, data: bytes, *, force: bool = False) -> backup.LoadResult:
    return await backup.load(store, Dump(io.BytesIO(data), "x"), SYSTEM, force=force)


async def content(store: Store) -> dict[Key, bytes]:
    """What a dump would take along."""
    return {entry.key: entry.value async for entry in backup.entries(store) if dumpfile.is_restored(entry.key)}


def sealed(*lines: bytes) -> bytes:
    """Lines with the footer that fits."""
    body = b"".join(line + b"\n" for line in lines)
    return body + json.dumps({"entries": len(lines) - 1, "sha256": hashlib.sha256(body).hexdigest()}).encode() + b"\n"


HEADER = b'{"rota":"dump","v":1,"revision":7,"incarnation":null,"at":"2026-01-01T00:00:00Z"}'


async def test_a_dump_is_a_header_a_line_per_key_and_a_footer(store: Store) -> None:
    await store.commit(Put("/b", b"\xff\x00"), Put("/a", RECORD))
    header, *lines, footer = (await dumped(store)).splitlines()
    assert json.loads(header) == {
        "rota": "dump",
        "v": 1,
        "revision": 1,
        "incarnation": None,
        "at": json.loads(header)["at"],
    }
    assert lines == [b'{"key":"/a","value":' + RECORD + b"}", b'{"key":"/b","base64":"/wA="}']
    assert json.loads(footer)["entries"] == 2


@pytest.mark.parametrize(
    ("value", "is_plain"),
    [
        pytest.param(b'{"v":1,"a":[1,2.5,null,true,"x"]}', True, id="a record"),
        pytest.param(b"null", True, id="null"),
        pytest.param(b"12345678901234567890123", True, id="a large number"),
        pytest.param("\u00e9\u2028😀".join('""').encode(), True, id="text in UTF-8"),
        pytest.param(b"", False, id="nothing"),
        pytest.param(b'{"a": 1}', False, id="a space"),
        pytest.param(b"1e5", False, id="a number in another spelling"),
        pytest.param(b'{"a":1,"a":2}', False, id="a name twice"),
        pytest.param(b'"\\ud800"', False, id="half a character"),
        pytest.param(b'"caf\\u00e9"', False, id="an escape that is not needed"),
        pytest.param(b"],[", False, id="what is JSON only inside of JSON"),
        pytest.param(b"[" * 900 + b"]" * 900, False, id="nested deeply"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, False, id="nested too deeply"),
        pytest.param(b"\xff\xfe", False, id="no UTF-8"),
        pytest.param(bytes(range(256)) * 4096, False, id="1 MiB of bytes"),
    ],
)
def test_a_value_comes_back_byte_by_byte(value: bytes, is_plain: bool) -> None:
    data = sealed(HEADER, dumpfile.encoded(line_of("/k", value)).rstrip(b"\n"))
    assert (b'"value":' in data) is is_plain
    assert list(Dump(io.BytesIO(data), "x").puts()) == [Put("/k", value)]


async def test_keys_come_in_the_order_of_their_bytes_over_many_pages(store: Store, copy: Store) -> None:
    names = [f"/k/{number}" for number in range(1000)] + ["/k/é", "/k/😀", "/k/\uffee", "/K", "/k"]
    for batch in batches(Put(name, b"1") for name in names):
        await store.commit(*batch)
    data = await dumped(store)
    assert [json.loads(line)["key"] for line in data.splitlines()[1:-1]] == sorted(names, key=str.encode)
    await loaded(copy, data)
    assert await content(copy) == await content(store)


async def test_a_dump_is_of_one_revision_although_somebody_writes(store: Store) -> None:
    await store.commit(*(Put(f"/k/{number:03}", b"1") for number in range(100)))

    universe = store._universe  # type: ignore[attr-defined]
    scan, numbers = universe.scan, count(100)

    def scan_and_write(*arguments: object) -> object:
        universe.commit([Put("/k/000", b"2"), Put(f"/k/{next(numbers)}", b"2"), Delete("/k/099")], [])
        return scan(*arguments)

    universe.scan = scan_and_write
    lines = (await dumped(store)).splitlines()[1:-1]
    assert [json.loads(line) for line in lines] == [{"key": f"/k/{number:03}", "value": 1} for number in range(100)]


async def test_leased_keys_the_incarnation_and_scratch_keys_stay_behind(store: Store) -> None:
    lease = await store.grant(timedelta(minutes=1))
    await incarnation.current(store, SYSTEM)
    await store.commit(Put("/nodes/a", b"1", lease.id), Put("/leader", b"1", lease.id), Put("/check/x/y", b"1"))
    await store.commit(Put("/fleet/roster", b"1"))
    header, *lines, _ = (await dumped(store)).splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["/fleet/roster"]
    assert json.loads(header)["incarnation"] == (await present(store)).id


async def test_incarnation_keys_in_a_dump_are_not_restored(copy: Store) -> None:
    old = codec.encode(Incarnation(id="old", since=SYSTEM.wall())).decode()
    lines = [f'{{"key":"{key}","value":{old}}}' for key in (keys.INCARNATION, "/incarnations/old")]
    done = await loaded(copy, sealed(HEADER, *(line.encode() for line in lines)))
    assert done.entries == 0
    assert (await present(copy)).id == done.incarnation != "old"
    assert await copy.get("/incarnations/old") is None


async def present(store: Store) -> Incarnation:
    entry = await store.get(keys.INCARNATION)
    assert entry is not None
    return codec.decode(Incarnation, entry.value)


# Files that are not whole


WHOLE = sealed(HEADER, b'{"key":"/a","value":1}', b'{"key":"/b","base64":"/w=="}')


def test_every_cut_is_noticed() -> None:
    for length in range(len(WHOLE) - 1):  # without its very last line break it is still whole
        with pytest.raises(Invalid, match=r"^x: .*(cut off|damaged|no dump)"):
            Dump(io.BytesIO(WHOLE[:length]), "x")
    assert Dump(io.BytesIO(WHOLE[:-1]), "x").footer.entries == 2


def test_every_changed_byte_is_noticed() -> None:
    for place in range(len(WHOLE) - 1):
        changed = bytearray(WHOLE)
        changed[place] ^= 0x01
        with pytest.raises(Invalid):
            Dump(io.BytesIO(bytes(changed)), "x")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"", "this is no dump; make one with rota store dump", id="empty"),
        pytest.param(b"these are notes\n", "this is no dump", id="something else"),
        pytest.param(sealed(HEADER.replace(b'"dump"', b'"dumb"')), "this is no dump", id="another kind"),
        pytest.param(sealed(HEADER.replace(b'"v":1', b'"v":2')), "version 2, this Rota knows 1; upgrade", id="newer"),
        pytest.param(sealed(HEADER, b'{"key":"/a"}'), "line 2: key '/a' has no value", id="no value"),
        pytest.param(sealed(HEADER, b'{"key":"a","value":1}'), "line 2: key 'a': keys are strings that", id="bad key"),
        pytest.param(sealed(HEADER, b'{"key":"/a","base64":"?"}'), "line 2: it cannot be read", id="bad base64"),
        pytest.param(sealed(HEADER, b"\xff\xff"), "line 2: it cannot be read", id="no text"),
        pytest.param(
            sealed(HEADER, b'{"key":"/b","value":1}', b'{"key":"/a","value":1}'),
            "line 3: key '/a' comes after '/b'",
            id="out of order",
        ),
        pytest.param(
            sealed(HEADER, b'{"key":"/a","value":1}', b'{"key":"/a","value":1}'), "comes after '/a'", id="a key twice"
        ),
        pytest.param(
            sealed(HEADER, b'{"key":"/a","value":"' + b"x" * MIB + b'"}'), "at most 1048576 go in one", id="too large"
        ),
        pytest.param(HEADER + b"\n" + b"x" * 10 * MIB, "line 2: it cannot be read", id="an endless line"),
        pytest.param(WHOLE + WHOLE, "goes on behind its footer", id="two files in one"),
    ],
)
def test_what_is_not_whole_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        Dump(io.BytesIO(data), "x")


# Batches


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([1] * 250, [100, 100, 50], id="by number"),
        pytest.param([MIB, 1, MIB, MIB - 1, 1], [1, 1, 1, 2], id="by size"),
        pytest.param([MIB // 2] * 5, [2, 2, 1], id="by size, several to a commit"),
    ],
)
def test_batches_are_as_large_as_a_commit_may_be(sizes: list[int], expected: list[int]) -> None:
    writes = [Put(f"/{number}", bytes(size)) for number, size in enumerate(sizes)]
    split = list(batches(writes))
    assert [len(batch) for batch in split] == expected
    assert [write for batch in split for write in batch] == writes
    for batch in split:
        rules.check_commit(batch, [Absent(write.key) for write in batch])


async def test_huge_values_are_loaded(store: Store, copy: Store) -> None:
    for number in range(5):
        await store.commit(Put(f"/huge/{number}", bytes([number]) * MIB))
    await store.commit(*(Put(f"/many/{number}", b"x" * 10_000) for number in range(100)))
    await loaded(copy, await dumped(store))
    assert await content(copy) == await content(store)


# Load


async def test_a_load_begins_a_new_incarnation(store: Store, copy: Store) -> None:
    old = await incarnation.current(store, SYSTEM)
    await store.commit(Put("/a", b"1"))
    done = await loaded(copy, await dumped(store))
    new = await incarnation.current(copy, SYSTEM)
    assert new.key == keys.incarnation(done.incarnation) != old.key
    entry = await copy.get(new.key)
    assert entry is not None
    assert entry.modified == new.revision
    assert await copy.get(old.key) is None


async def test_a_store_with_keys_is_refused_unless_forced(store: Store, copy: Store) -> None:
    await store.commit(Put("/a", b"1"))
    old = await incarnation.current(copy, SYSTEM)
    await copy.commit(*(Put(f"/old/{number}", b"2") for number in range(100)))
    before = await copy.revision()
    with pytest.raises(Invalid, match=r"the store has keys, such as /fleet/incarnation; .* --force"):
        await loaded(copy, await dumped(store))
    assert await copy.revision() == before
    done = await loaded(copy, await dumped(store), force=True)
    assert (done.entries, done.removed) == (1, 100)
    assert await content(copy) == {"/a": b"1"}
    assert await copy.get(old.key) is None


@pytest.mark.parametrize("force", [False, True])
async def test_a_store_with_nodes_is_always_refused(store: Store, copy: Store, force: bool) -> None:
    lease = await copy.grant(timedelta(minutes=1))
    await copy.commit(Put("/nodes/a", b"1", lease.id), Put("/nodes/b", b"1", lease.id))
    before = await copy.revision()
    with pytest.raises(Conflict, match="nodes are on this store: a, b; stop them"):
        await loaded(copy, await dumped(store), force=force)
    assert await copy.revision() == before


async def test_keys_under_a_lease_are_left_alone(store: Store, copy: Store) -> None:
    lease = await copy.grant(timedelta(minutes=1))
    await copy.commit(Put("/held", b"2", lease.id))
    await store.commit(Put("/a", b"1"))
    await loaded(copy, await dumped(store))
    assert await content(copy) == {"/a": b"1", "/held": b"2"}


class Hindered:
    """A store whose commits meet something."""

    def __init__(self, store: Store, meet: Callable[[int], None]) -> None:
        self._store, self._meet, self._commits = store, meet, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
        self._commits += 1
        self._meet(self._commits)
        return await self._store.commit(*writes, expect=expect)


def failing_at(number: int, error: RotaError) -> Callable[[int], None]:
    def meet(count: int) -> None:
        if count == number:
            raise error

    return meet


@pytest.mark.parametrize("error", [Unavailable, Unknown])
@pytest.mark.parametrize("number", [2, 3, 4, 5])
async def test_an_interrupted_load_is_declared_and_can_be_repeated(
    store: Store, copy: Store, number: int, error: type[Unavailable | Unknown]
) -> None:
    for part in range(3):
        await store.commit(*(Put(f"/k/{part}/{name}", b"1") for name in range(100)))
    data = await dumped(store)
    hindered: Store = Hindered(copy, failing_at(number, error("no answer")))  # type: ignore[assignment]
    with pytest.raises(error, match="no answer; the store may be half loaded now, so load it again"):
        await loaded(hindered, data)
    for refused in (incarnation.current(copy, SYSTEM), dumped(copy)):
        with pytest.raises(Invalid, match=r"the store is half loaded: .* repeat it with rota store load"):
            await refused
    done = await loaded(copy, data)
    assert (done.entries, done.removed) == (300, 100 * (number - 2))
    assert await content(copy) == await content(store)
    assert (await incarnation.current(copy, SYSTEM)).key == keys.incarnation(done.incarnation)


async def test_of_two_loads_at_once_the_later_one_wins_and_the_other_stops(store: Store, copy: Store) -> None:
    await store.commit(Put("/a", b"1"), Put("/b", b"1"))
    data = await dumped(store)

    class Overtaken(Hindered):
        async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
            if self._commits == 1:
                self.later = await loaded(copy, data)
            return await super().commit(*writes, expect=expect)

    overtaken = Overtaken(copy, lambda count: None)
    with pytest.raises(Conflict, match=r"/fleet/incarnation, .* another process writes to this store"):
        await loaded(overtaken, data)  # type: ignore[arg-type]
    assert await content(copy) == {"/a": b"1", "/b": b"1"}
    assert (await present(copy)).id == overtaken.later.incarnation


async def test_nodes_that_join_while_a_load_begins_go_on_in_a_new_incarnation(store: Store, copy: Store) -> None:
    old = await incarnation.current(copy, SYSTEM)
    await copy.commit(Put("/kept", b"1"))
    lease = await copy.grant(timedelta(minutes=1))

    class Joined(Hindered):
        async def commit(self, *writes: Write, expect: Iterable[Expect] = ()) -> Revision:
            if self._commits == 0:
                await self._store.commit(Put("/nodes/a", b"1", lease.id), expect=[old])
            return await super().commit(*writes, expect=expect)

    with pytest.raises(Conflict, match="nodes are on this store: a; stop them"):
        await loaded(Joined(copy, lambda count: None), await dumped(store), force=True)  # type: ignore[arg-type]
    assert await copy.get("/kept") is not None
    assert (await incarnation.current(copy, SYSTEM)).key != old.key


# Files


def test_a_file_appears_when_it_is_complete_and_only_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    with dumpfile.fresh_file(path, force=False) as file:
        file.write(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_was_not_finished_does_not_appear(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_bytes(b"old")
    with suppress(ZeroDivisionError), dumpfile.fresh_file(path, force=True) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_replaced_only_on_demand(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_bytes(b"old")
    with pytest.raises(Invalid, match="dump exists; choose another name, or --force to replace it"):
        dumpfile.fresh_file(path, force=False).__enter__()
    with dumpfile.fresh_file(path, force=True) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


def test_what_is_no_plain_file_is_never_replaced(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/null")):
        with pytest.raises(Invalid, match="is not a plain file"):
            dumpfile.fresh_file(path, force=True).__enter__()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RotaError, match=r"cannot write .*nowhere/dump: No such file"):
        dumpfile.fresh_file(tmp_path / "nowhere/dump", force=False).__enter__()


# Compaction


async def test_compaction_says_from_where_to_where(store: Store) -> None:
    for _ in range(5):
        await store.commit(Put("/a", b"1"))
    assert await history.compact(store, Revision(3)) == (0, 3)
    assert await history.compact(store, Revision(2)) == (3, 3)
    assert await history.compact(store, Revision(99)) == (3, 5)


def test_put_of_refuses_what_no_store_takes() -> None:
    with pytest.raises(Invalid, match="strings that start with /"):
        put_of(line_of("nodes", b"1"))
