"""Place: how far a watch has come.

`request` asks etcd for what follows, `take` turns an answer into commits and moves the place. Two things about etcd
are easy to get wrong, and both lose commits:

- An answer with events may carry a header newer than events still to come: etcd sends a backlog in batches, each
  with the present revision. So events move the place to the last of them, and only an answer without any, a
  progress note, moves it to the header's revision. Without those notes a quiet prefix would fall behind compaction.
- A watch from the very revision that history was compacted at is let in, but a deletion made at that revision is
  gone (seen on 3.4.23). So the watch starts at the place itself rather than behind it, which etcd refuses when the
  history that follows is not whole, and what it sends for the place itself is dropped. The price: a watch starts up
  to 100 ms late, for etcd takes it for one with a backlog.
"""

from itertools import groupby

from rota.model.errors import Compacted
from rota.model.ids import Key, Revision
from rota.store.etcd.pb import etcd_pb2 as pb
from rota.store.etcd.wire import NamespaceCodec
from rota.store.port import Change, Commit


class WatchPosition:
    """The revision up to which a watch of one prefix has seen everything."""

    def __init__(self, wire: NamespaceCodec, prefix: Key, after: Revision) -> None:
        self.after = after
        self._wire = wire
        self._span = wire.span(prefix)

    def request(self) -> pb.WatchRequest:
        """What to ask of etcd to go on from here."""
        first, end = self._span
        start = max(self.after, 1)  # 0 would mean: from now on
        return pb.WatchRequest(
            create_request=pb.WatchCreateRequest(key=first, range_end=end, start_revision=start, progress_notify=True)
        )

    def take(self, response: pb.WatchResponse) -> list[Commit]:
        """The commits of an answer that are new here; Compacted if history ends before the place."""
        if response.compact_revision:
            raise Compacted(self.after, Revision(response.compact_revision))
        if not response.events:
            if not response.created:
                self.after = max(self.after, Revision(response.header.revision))
            return []
        commits = []
        for revision, events in groupby(response.events, lambda event: event.kv.mod_revision):
            if revision > self.after:
                self.after = Revision(revision)
                changes = sorted(map(self._change, events), key=lambda change: change.key)
                commits.append(Commit(self.after, tuple(changes)))
        return commits

    def _change(self, event: pb.Event) -> Change:
        if event.type == pb.Event.DELETE:
            return Change(self._wire.inward(event.kv.key), None)
        entry = self._wire.entry(event.kv)
        return Change(entry.key, entry)
