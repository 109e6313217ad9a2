"""What only etcd has: users and certificates, several members, namespaces, backlogs sent in batches."""

import asyncio
import base64
import json
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import trustme

from rota.model.errors import Compacted, Denied, Invalid, RotaError, Unavailable, Unknown
from rota.model.ids import Revision
from rota.store import Absent, Commit, Delete, Put, Store, open_store
from tests.kit.etcd import PASSWORD, ask, encoded, set_up_users
from tests.kit.faultproxy import FaultProxy
from tests.kit.server_pool import ServerPool
from tests.kit.servers import Etcd, Tls, etcd_cluster, make_tls
from tests.kit.waiting import Recorder, eventually

pytestmark = pytest.mark.needs("etcd")


@pytest.fixture
def etcd(servers: ServerPool) -> Etcd:
    """An etcd that nobody hurts."""
    server = servers.get(Etcd, "steady")
    assert isinstance(server, Etcd)
    return server


@pytest.fixture
def space() -> str:
    """A namespace of this test's own."""
    return f"/{uuid4().hex}"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Etcd]:
    """An etcd with users: root, and ann whose role is /ann."""
    with etcd_cluster(tmp_path, 1) as (member,):
        set_up_users(member)
        yield member


def raw(member: Etcd, key: str) -> str | None:
    """The value etcd has under a key of its own."""
    found = ask(member, "kv/range", key=encoded(key)).get("kvs", [])
    return base64.b64decode(found[0]["value"]).decode() if found else None


def leader(members: list[Etcd]) -> Etcd | None:
    """The member that leads; None while they elect one."""
    states = [(member, ask(member, "maintenance/status")) for member in members]
    return next((member for member, state in states if state["header"]["member_id"] == state["leader"]), None)


async def opening(url: str) -> RotaError:
    """The error that opening a store raises, on one line and without the password."""
    with pytest.raises(RotaError) as error:
        async with open_store(url):
            pass
    assert "\n" not in str(error.value)
    assert PASSWORD not in str(error.value)
    return error.value


# Certificates


def tls_url(member: Etcd, tls: Tls, *, shows: bool, **options: str) -> str:
    files = {"ca": tls.authority} | ({"cert": tls.certificate, "key": tls.key} if shows else {})
    query = "&".join(f"{name}={value}" for name, value in (files | options).items())
    return f"etcd://127.0.0.1:{member.port}?{query}"


async def test_with_certificates_on_both_sides_everything_works(tmp_path: Path) -> None:
    tls = make_tls(tmp_path, ask_clients=True)
    with etcd_cluster(tmp_path, 1, tls=tls) as (member,):
        async with open_store(tls_url(member, tls, shows=True)) as store:
            start = await store.commit(Put("/k", b"1"))
            async with Recorder(store, "/", start) as seen:
                await seen.reach(await store.commit(Put("/k", b"2")))
            await store.renew(await store.grant(timedelta(seconds=5)))
            assert abs(await store.now() - datetime.now(UTC)) < timedelta(minutes=1)
        async with open_store(tls_url(member, tls, shows=True, server_name="localhost")) as store:
            assert await store.get("/k") is not None
            assert abs(await store.now() - datetime.now(UTC)) < timedelta(minutes=1)


async def test_three_members_share_a_name_in_their_certificates(tmp_path: Path) -> None:
    tls = make_tls(tmp_path, ask_clients=True)
    with etcd_cluster(tmp_path, 3, tls=tls) as members:
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in members)
        url = tls_url(members[0], tls, shows=True).replace(f"127.0.0.1:{members[0].port}", hosts)
        for options in ("", "&server_name=localhost"):
            async with open_store(url + options) as store:
                await asyncio.gather(*(store.commit(Put(f"/{number}", b"")) for number in range(9)))


async def test_who_is_not_trusted_does_not_get_in(tmp_path: Path) -> None:
    tls = make_tls(tmp_path, ask_clients=True)
    stranger = tmp_path / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(stranger)
    with etcd_cluster(tmp_path, 1, tls=tls) as (member,):
        for url in (
            tls_url(member, tls, shows=False),
            tls_url(member, tls, shows=True, ca=str(stranger)),
            tls_url(member, tls, shows=True, server_name="elsewhere.example"),
            f"etcd://127.0.0.1:{member.port}?tls=on",
            f"etcd://127.0.0.1:{member.port}",
        ):
            assert isinstance(await opening(f"{url}{'&' if '?' in url else '?'}timeout=2s"), Unavailable)


# Users


async def test_only_the_right_password_opens(guarded: Etcd, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n")
    host = f"127.0.0.1:{guarded.port}"
    async with open_store(f"etcd://root@{host}?password_file={secret}") as store:
        await store.commit(Put("/k", b"1"))
    assert isinstance(await opening(f"etcd://root:wrong@{host}"), Denied)
    assert isinstance(await opening(f"etcd://nobody:{PASSWORD}@{host}"), Denied)
    assert "name a user" in str(await opening(f"etcd://{host}"))


async def test_a_role_opens_its_prefix_and_no_other(guarded: Etcd) -> None:
    host = f"127.0.0.1:{guarded.port}"
    async with open_store(f"etcd://ann:{PASSWORD}@{host}/ann") as store:
        start = await store.commit(Put("/k", b"1"))
        async with Recorder(store, "/", start) as seen:
            await seen.reach(await store.commit(Put("/k", b"2")))
    denied = await opening(f"etcd://ann:{PASSWORD}@{host}/bob")
    assert isinstance(denied, Denied)
    assert "grant the user's role" in str(denied)


async def test_a_role_taken_away_ends_commits_and_watches(guarded: Etcd) -> None:
    host = f"127.0.0.1:{guarded.port}"
    async with open_store(f"etcd://ann:{PASSWORD}@{host}/ann") as store:
        start = await store.commit(Put("/k", b"1"))
        token = ask(guarded, "auth/authenticate", name="root", password=PASSWORD)["token"]
        request = urllib.request.Request(
            f"{guarded.url}/v3/auth/user/revoke",
            json.dumps({"name": "ann", "role": "ann"}).encode(),
            {"Authorization": token},
            method="POST",
        )
        await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=10).close())
        with pytest.raises(Denied):
            await store.commit(Put("/k", b"2"))
        async with aclosing(store.watch("/", start)) as commits:
            with pytest.raises(Denied):
                await anext(commits)


async def test_a_restart_forgets_tokens_and_the_client_logs_in_again(guarded: Etcd) -> None:
    url = f"etcd://ann:{PASSWORD}@127.0.0.1:{guarded.port}/ann"
    async with open_store(url) as store, open_store(url) as watching:
        lease = await store.grant(timedelta(minutes=1))
        start = await store.commit(Put("/k", b"1", lease.id))
        async with Recorder(watching, "/", start) as seen:  # on a handle that nothing else logs in
            for value in (b"2", b"3"):
                await asyncio.to_thread(guarded.restart)
                revision = await eventually(lambda value=value: commit_once(store, value), despite=(Unavailable,))
                await seen.reach(revision)
            await eventually(lambda: store.renew(lease), despite=(Unavailable, Unknown))
        assert [changes["/k"] for changes in seen.changes] == [b"2", b"3"]


async def commit_once(store: Store, value: bytes) -> Revision:
    """Commit a value; a try of unknown outcome fails the test, for the server was up before it was made."""
    return await store.commit(Put("/k", value))


# Backlogs


async def fill(store: Store, count: int) -> list[Revision]:
    """Make that many commits, and return their revisions in order."""
    revisions: list[Revision] = []

    async def write(worker: int) -> None:
        for number in range(worker, count, 16):
            revisions.append(await store.commit(Put(f"/b/{number:05}", bytes(512)), Put(f"/a/{number:05}", b"")))

    await asyncio.gather(*(write(worker) for worker in range(16)))
    return sorted(revisions)


async def test_a_backlog_cut_in_the_middle_comes_once_and_whole(etcd: Etcd, space: str) -> None:
    async with open_store(f"etcd://127.0.0.1:{etcd.port}{space}") as store:
        start = await store.revision()
        revisions = await fill(store, 3500)
    async with FaultProxy(etcd.port) as proxy, open_store(f"etcd://127.0.0.1:{proxy.port}{space}") as store:
        seen: list[Commit] = []
        async with aclosing(store.watch("/", start)) as commits:
            async for commit in commits:
                seen.append(commit)
                if len(seen) in (1, 999, 1000, 1001, 2345):
                    proxy.cut()
                if commit.revision == revisions[-1]:
                    break
    assert [commit.revision for commit in seen] == revisions
    assert all([change.key[:3] for change in commit.changes] == ["/a/", "/b/"] for commit in seen)


async def test_a_deletion_at_the_compacted_revision_is_not_passed_over(etcd: Etcd, space: str) -> None:
    """etcd 3.4 lets such a watch in and leaves the deletion out."""
    async with open_store(f"etcd://127.0.0.1:{etcd.port}{space}") as store:
        created = await store.commit(Put("/k", b""))
        deleted = await store.commit(Delete("/k"))
        last = await store.commit(Put("/other", b""))
        await store.compact(deleted)
        async with aclosing(store.watch("/", created)) as commits:
            with pytest.raises(Compacted) as error:
                await anext(commits)
        assert error.value.oldest >= deleted
        async with Recorder(store, "/", deleted) as seen:
            await seen.reach(last)
        assert seen.changes == [{"/other": b""}]


# Several members


@asynccontextmanager
async def writing(store: Store) -> AsyncIterator[dict[str, Revision | RotaError]]:
    """Inside, commits are made one after the other; what the store said to each is noted."""
    said: dict[str, Revision | RotaError] = {}

    async def write() -> None:
        while True:
            key = f"/w/{len(said):06}"
            try:
                said[key] = await store.commit(Put(key, b""), expect=[Absent(key)])
            except (Unavailable, Unknown) as error:
                said[key] = error
                await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        writer = tasks.create_task(write())
        yield said
        writer.cancel()


def acknowledged(said: dict[str, Revision | RotaError]) -> dict[str, Revision]:
    return {key: answer for key, answer in said.items() if not isinstance(answer, RotaError)}


async def test_the_death_of_a_leader_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with etcd_cluster(tmp_path, 3) as members:
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in members)
        async with open_store(f"etcd://{hosts}?timeout=2s") as store:
            lease = await store.grant(timedelta(minutes=1))
            start = await store.revision()
            async with Recorder(store, "/w/", start) as seen, writing(store) as said:
                for _ in range(2):
                    await eventually(lambda: len(seen.commits) > 50)
                    victim = await eventually(lambda: asyncio.to_thread(leader, members))
                    victim.kill()
                    known = len(acknowledged(said))
                    await eventually(lambda known=known: len(acknowledged(said)) > known + 50, within=30)
                    await asyncio.to_thread(victim.restart)
                last = acknowledged(said)
                await seen.reach(max(last.values()), within=30)
            await eventually(lambda: store.renew(lease), despite=(Unavailable, Unknown))
            assert await store.now()
    happened = {commit.changes[0].key: commit.revision for commit in seen.commits}
    assert seen.revisions == sorted(set(seen.revisions))
    assert len(happened) == len(seen.commits)
    assert last.items() <= happened.items()
    assert not [key for key in happened if isinstance(said.get(key), Unavailable)]


async def test_a_member_without_the_others_says_so_and_its_watch_goes_on_later(tmp_path: Path) -> None:
    with etcd_cluster(tmp_path, 3) as (member, *others):
        async with open_store(f"etcd://127.0.0.1:{member.port}?timeout=2s") as store:
            start = await store.revision()
            async with Recorder(store, "/", start) as seen:
                await seen.reach(await store.commit(Put("/before", b"")))
                for other in others:
                    other.freeze()
                await eventually(lambda: says_no_leader(store), within=30, despite=(Unknown,))
                for other in others:
                    other.thaw()
                revision = await eventually(
                    lambda: store.commit(Put("/after", b"")), within=30, despite=(Unavailable, Unknown)
                )
                await seen.reach(revision)


async def says_no_leader(store: Store) -> bool:
    try:
        await store.commit(Put("/between", b""))
    except Unavailable as error:
        return "no leader" in str(error)
    return False


# Namespaces and the schema


async def test_namespaces_do_not_see_each_other(etcd: Etcd, space: str) -> None:
    host = f"etcd://127.0.0.1:{etcd.port}"
    async with open_store(f"{host}{space}") as one, open_store(f"{host}{space}-two") as two:
        start = await one.revision()
        async with Recorder(one, "/", start) as seen_by_one, Recorder(two, "/", start) as seen_by_two:
            first = await one.commit(Put("/k", b"one"))
            second = await two.commit(Put("/k", b"two"), expect=[Absent("/k")])
            await seen_by_one.reach(first)
            await seen_by_two.reach(second)
        assert seen_by_one.changes == [{"/k": b"one"}]
        assert seen_by_two.changes == [{"/k": b"two"}]
        assert [entry.value for entry in (await one.scan("/")).entries] == [b"one"]
    assert raw(etcd, f"{space}/k") == "one"
    assert raw(etcd, f"{space}-two/k") == "two"


async def test_without_a_path_keys_are_below_rota(tmp_path: Path) -> None:
    with etcd_cluster(tmp_path, 1) as (member,):
        for tail in ("", "/"):
            async with open_store(f"etcd://127.0.0.1:{member.port}{tail}") as store:
                await store.commit(Put("/k", b"v"))
                assert [entry.key for entry in (await store.scan("/")).entries] == ["/k"]
        assert raw(member, "/rota/k") == "v"
        assert raw(member, "/rota#schema") == '{"v":1}'


async def test_many_may_open_a_new_store_at_once(etcd: Etcd, space: str) -> None:
    async def write(number: int) -> None:
        async with open_store(f"etcd://127.0.0.1:{etcd.port}{space}") as store:
            await store.commit(Put(f"/{number}", b""))

    await asyncio.gather(*(write(number) for number in range(8)))
    assert raw(etcd, f"{space}#schema") == '{"v":1}'


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        pytest.param('{"v":2}', "schema version 2, and this Rota knows 1; upgrade Rota on this machine", id="newer"),
        pytest.param("mine", "not Rota's; choose another namespace", id="not ours"),
    ],
)
async def test_a_schema_we_do_not_know_is_left_alone(etcd: Etcd, space: str, schema: str, complaint: str) -> None:
    ask(etcd, "kv/put", key=encoded(f"{space}#schema"), value=encoded(schema))
    before = ask(etcd, "kv/range", key=encoded(space))["header"]["revision"]
    error = await opening(f"etcd://127.0.0.1:{etcd.port}{space}")
    assert isinstance(error, Invalid)
    assert f"etcd://127.0.0.1:{etcd.port}{space}" in str(error)
    assert complaint in str(error)
    assert raw(etcd, f"{space}#schema") == schema
    assert ask(etcd, "kv/range", key=encoded(space))["header"]["revision"] == before


# Closing


async def test_closing_tells_those_who_still_wait(tmp_path: Path) -> None:
    with etcd_cluster(tmp_path, 1) as (member,):
        async with open_store(f"etcd://127.0.0.1:{member.port}") as store:
            member.freeze()
            reading = asyncio.create_task(store.get("/k"))
            writing = asyncio.create_task(store.commit(Put("/k", b"")))
            await asyncio.sleep(0)  # both have asked now
        member.thaw()
        with pytest.raises(Unavailable):
            await reading
        with pytest.raises(Unknown):
            await writing
        with pytest.raises(Unavailable, match="closed; open it again"):
            await store.get("/k")


async def test_a_namespace_inside_another_is_refused(etcd: Etcd, space: str) -> None:
    async with open_store(f"etcd://127.0.0.1:{etcd.port}{space}"):
        with pytest.raises(Invalid, match=f"is inside {space}, where a fleet is already; choose one beside it"):
            async with open_store(f"etcd://127.0.0.1:{etcd.port}{space}/nodes"):
                pass


async def test_a_namespace_around_another_is_refused(etcd: Etcd, space: str) -> None:
    async with open_store(f"etcd://127.0.0.1:{etcd.port}{space}/inner") as store:
        await store.commit(Put("/k", b"v"))
        with pytest.raises(Invalid, match=f"there are keys below it in etcd, such as {space}/inner"):
            async with open_store(f"etcd://127.0.0.1:{etcd.port}{space}"):
                pass
