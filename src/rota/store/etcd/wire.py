"""The port's records as etcd's messages, and back.

A namespace is put before every key on its way out and taken off on its way in. Pure: nothing here talks to etcd.
"""

from collections.abc import Iterable, Sequence

from rota.model.errors import LeaseLost
from rota.model.ids import Key, LeaseId, Revision
from rota.store.etcd.pb import etcd_pb2 as pb
from rota.store.port import At, Entry, Expect, Put, Write

NO_REVISION = -1
"""A revision at which no key was written; in etcd an absent key compares as 0."""


class NamespaceCodec:
    """Keys, entries and transactions of one namespace."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace.encode()
        self._cut = len(self._namespace)
        self.schema_key = self._namespace + b"#schema"
        """Beside the keys, not among them: every key goes on with a slash."""

    def __str__(self) -> str:
        return self._namespace.decode()

    def around(self) -> "list[NamespaceCodec]":
        """The namespaces that would contain this one."""
        parts = str(self).split("/")
        return [NamespaceCodec("/".join(parts[:count])) for count in range(2, len(parts))]

    def outward(self, key: Key) -> bytes:
        """A key as etcd has it."""
        return self._namespace + key.encode()

    def inward(self, key: bytes) -> Key:
        """A key as the port has it; a key that another program wrote may be no text, and must not stop a scan."""
        return key[self._cut :].decode(errors="replace")

    def span(self, prefix: Key) -> tuple[bytes, bytes]:
        """Where the keys that start with `prefix` begin, and where they have ended."""
        first = self.outward(prefix)
        return first, first[:-1] + bytes((first[-1] + 1,))  # a byte of UTF-8 is never the greatest

    def entry(self, found: pb.KeyValue) -> Entry:
        """An entry as the port has it."""
        lease = LeaseId(str(found.lease)) if found.lease else None
        created, modified = Revision(found.create_revision), Revision(found.mod_revision)
        return Entry(self.inward(found.key), found.value, created, modified, lease)

    def txn(self, writes: Iterable[Write], expectations: Iterable[Expect]) -> pb.TxnRequest:
        """Write if all is as expected, else read the expected keys, so that the stale ones can be named."""
        request = pb.TxnRequest(success=[self._write(write) for write in writes])
        for expectation in expectations:
            key = self.outward(expectation.key)
            request.compare.append(pb.Compare(target=pb.Compare.MOD, key=key, mod_revision=_modified(expectation)))
            request.failure.append(pb.RequestOp(request_range=pb.RangeRequest(key=key, keys_only=True)))
        return request

    def _write(self, write: Write) -> pb.RequestOp:
        key = self.outward(write.key)
        if not isinstance(write, Put):
            return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key))
        lease = 0 if write.lease is None else lease_number(write.lease)
        return pb.RequestOp(request_put=pb.PutRequest(key=key, value=write.value, lease=lease))


def stale(expectations: Sequence[Expect], response: pb.TxnResponse) -> list[Key]:
    """The keys that were not as expected, from the answer to a `txn` that failed."""
    found = (answer.response_range.kvs for answer in response.responses)
    return [
        expectation.key
        for expectation, kvs in zip(expectations, found, strict=True)
        if (kvs[0].mod_revision if kvs else 0) != _modified(expectation)
    ]


def lease_number(lease: LeaseId) -> int:
    """The number etcd knows a lease by; LeaseLost if it cannot have granted it."""
    if not (lease.isascii() and lease.isdigit() and 0 < int(lease) < 2**63):
        raise LeaseLost(lease)
    return int(lease)


def _modified(expectation: Expect) -> int:
    """The revision a key must compare with; an absent one compares as 0."""
    if isinstance(expectation, At):
        return expectation.revision if expectation.revision > 0 else NO_REVISION
    return 0
