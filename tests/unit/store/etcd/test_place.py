"""How far a watch has come: every commit once, whole and in order, whatever etcd's headers say."""

import pytest

from rota.model.errors import Compacted
from rota.model.ids import Revision
from rota.store import Change, Commit, Entry
from rota.store.etcd.pb import etcd_pb2 as pb
from rota.store.etcd.place import WatchPosition
from rota.store.etcd.wire import NamespaceCodec


def put(key: str, revision: int) -> pb.Event:
    name = f"/rota{key}".encode()
    return pb.Event(kv=pb.KeyValue(key=name, value=b"v", create_revision=revision, mod_revision=revision))


def deleted(key: str, revision: int) -> pb.Event:
    return pb.Event(type=pb.Event.DELETE, kv=pb.KeyValue(key=f"/rota{key}".encode(), mod_revision=revision))


def answer(*events: pb.Event, header: int, created: bool = False, compacted: int = 0) -> pb.WatchResponse:
    return pb.WatchResponse(
        header=pb.ResponseHeader(revision=header), events=events, created=created, compact_revision=compacted
    )


def changed(key: str, revision: int) -> Change:
    return Change(key, Entry(key, b"v", Revision(revision), Revision(revision)))


def place(after: int) -> WatchPosition:
    return WatchPosition(NamespaceCodec("/rota"), "/", Revision(after))


def test_commits_come_whole_in_order_and_in_key_order() -> None:
    response = answer(put("/b", 5), deleted("/a", 5), put("/a", 7), header=7)
    assert place(4).take(response) == [
        Commit(Revision(5), (Change("/a", None), changed("/b", 5))),
        Commit(Revision(7), (changed("/a", 7),)),
    ]


def test_a_batch_of_a_backlog_moves_the_place_to_its_last_event_only() -> None:
    here = place(4)
    here.take(answer(put("/a", 5), put("/a", 6), header=900))
    assert here.after == 6


def test_a_progress_note_moves_the_place_to_its_header() -> None:
    here = place(4)
    assert here.take(answer(header=900)) == []
    assert here.after == 900


def test_the_answer_that_a_watch_was_made_moves_nothing() -> None:
    here = place(4)
    assert here.take(answer(header=900, created=True)) == []
    assert here.after == 4


def test_a_member_that_lags_does_not_move_the_place_back() -> None:
    here = place(40)
    here.take(answer(header=30))
    assert here.after == 40


def test_the_watch_starts_at_the_place_and_drops_what_was_seen() -> None:
    here = place(5)
    assert here.request().create_request.start_revision == 5
    assert here.take(answer(put("/a", 5), put("/b", 6), header=6)) == [Commit(Revision(6), (changed("/b", 6),))]


@pytest.mark.parametrize("after", [-3, 0, 1])
def test_from_the_beginning_is_not_from_now(after: int) -> None:
    assert place(after).request().create_request.start_revision == 1


def test_the_request_covers_the_prefix_and_asks_for_progress() -> None:
    request = WatchPosition(NamespaceCodec("/rota"), "/nodes/", Revision(1)).request().create_request
    assert (request.key, request.range_end, request.progress_notify) == (b"/rota/nodes/", b"/rota/nodes0", True)


def test_history_that_is_gone_says_where_it_starts() -> None:
    with pytest.raises(Compacted) as error:
        place(4).take(answer(header=900, compacted=800))
    assert (error.value.asked, error.value.oldest) == (4, 800)
