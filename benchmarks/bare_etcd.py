"""etcd without Rota: the messages of the store's transactions and watches, sent straight through `grpc.aio`.

Channel options, time-out and metadata are the store's own: they are the server's and gRPC's work, not ours.
"""

import asyncio
from collections.abc import Sequence
from time import monotonic

import grpc

from rota.store.etcd.client import LEADER_ONLY, OPTIONS
from rota.store.etcd.pb import etcd_pb2 as pb
from rota.store.url import DEFAULT_TIMEOUT

_TIMEOUT = DEFAULT_TIMEOUT.total_seconds()


class BareEtcd:
    """A channel that writes and watches as the store does, below a namespace."""

    def __init__(self, endpoint: str, namespace: str) -> None:
        self._namespace = namespace
        self._channel = grpc.aio.insecure_channel(f"dns:///{endpoint}", OPTIONS)
        self._txn = self._channel.unary_unary(
            "/etcdserverpb.KV/Txn", pb.TxnRequest.SerializeToString, pb.TxnResponse.FromString
        )
        self._watch = self._channel.stream_stream(
            "/etcdserverpb.Watch/Watch", pb.WatchRequest.SerializeToString, pb.WatchResponse.FromString
        )

    async def put_if(self, key: str, value: bytes, modified: int) -> int:
        """Put one key if it was last written at `modified`; the new revision."""
        full = (self._namespace + key).encode()
        request = pb.TxnRequest(
            compare=[pb.Compare(target=pb.Compare.MOD, key=full, mod_revision=modified)],
            success=[pb.RequestOp(request_put=pb.PutRequest(key=full, value=value))],
            failure=[pb.RequestOp(request_range=pb.RangeRequest(key=full, keys_only=True))],
        )
        response = await self._txn(request, timeout=_TIMEOUT, metadata=LEADER_ONLY)
        if not response.succeeded:
            raise LookupError(key)
        return int(response.header.revision)

    async def put_all(self, keys: Sequence[str], value: bytes) -> int:
        """Put all of the keys; the new revision."""
        namespace = self._namespace
        request = pb.TxnRequest(
            success=[
                pb.RequestOp(request_put=pb.PutRequest(key=(namespace + key).encode(), value=value)) for key in keys
            ]
        )
        response = await self._txn(request, timeout=_TIMEOUT, metadata=LEADER_ONLY)
        return int(response.header.revision)

    async def watch(self, prefix: str, after: int, seen: dict[int, float]) -> None:
        """Note in `seen` when each revision past `after` came, for ever."""
        first = (self._namespace + prefix).encode()
        end = first[:-1] + bytes((first[-1] + 1,))
        call = self._watch(metadata=LEADER_ONLY, wait_for_ready=True)
        create = pb.WatchCreateRequest(key=first, range_end=end, start_revision=after + 1, progress_notify=True)
        try:
            await call.write(pb.WatchRequest(create_request=create))
            while isinstance(response := await call.read(), pb.WatchResponse):
                for event in response.events:
                    seen[event.kv.mod_revision] = monotonic()
        except asyncio.CancelledError:
            call.cancel()
            raise

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()
