"""The operations on streams over gRPC: each request is decoded, one operation called, its answer encoded."""

import msgspec

from rota.api import stream_operations, wire
from rota.api.methods import Call, Method, Stream
from rota.api.operations import PAGE
from rota.api.pb import streams_pb2 as pb
from rota.api.stream_schema import GroupView, StreamDetail, StreamTaskView, StreamView
from rota.model.manifest import Manifest
from rota.model.stream import MoveRecord, Reset, SkipRecord


async def _list(call: Call, request: pb.ListStreamsRequest) -> pb.StreamPage:
    limit = wire.given(request, "limit")
    page = await stream_operations.list_streams(
        call.store,
        prefix=request.prefix,
        with_past=request.all,
        limit=PAGE if limit is None else limit,
        token=request.token or None,
    )
    return pb.StreamPage(
        streams=map(to_stream, page.streams),
        next=page.next or "",
        left_out=page.left_out,
        not_understood=page.not_understood,
    )


async def _get(call: Call, request: pb.StreamRequest) -> pb.Stream:
    return to_stream(await stream_operations.get_stream(call.store, request.name))


async def _status(call: Call, request: pb.StreamRequest) -> pb.StreamDetail:
    return to_detail(await stream_operations.stream_status(call.store, request.name))


async def _why(call: Call, request: pb.StreamRequest) -> pb.WhyStream:
    found = await stream_operations.why_stream(call.store, request.name)
    return pb.WhyStream(stream=found.thing, says=found.says, reasons=found.reasons)


async def _lag(call: Call, request: pb.StreamRequest) -> pb.StreamLag:
    found = await stream_operations.stream_lag(call.store, request.name)
    return pb.StreamLag(
        partitions=[
            pb.PartitionLag(partition=each.partition, committed=each.committed, latest=each.latest, lag=each.lag)
            for each in found
        ]
    )


async def _history(call: Call, request: pb.StreamRequest) -> pb.StreamHistory:
    found = await stream_operations.stream_history(call.store, request.name)
    return pb.StreamHistory(
        versions=[
            pb.StreamVersion(
                at=wire.to_time(each.at),
                node=each.node,
                app=each.app,
                spec_json=msgspec.json.encode(each.spec).decode(),
                changed_json=msgspec.json.encode(each.changed).decode(),
            )
            for each in found
        ]
    )


async def _published(call: Call, request: pb.ListPublishedRequest) -> pb.PublishedPage:
    limit = wire.given(request, "limit")
    page = await stream_operations.list_published(
        call.store, request.name, limit=PAGE if limit is None else limit, token=request.token or None
    )
    return pb.PublishedPage(published=map(_manifest, page.published), next=page.next or "")


async def _suspend(call: Call, request: pb.StreamVerb) -> pb.Stream:
    wait = call.wait(request)
    return to_stream(await stream_operations.suspend_stream(call.store, request.name, by=call.by, wait=wait))


async def _resume(call: Call, request: pb.StreamVerb) -> pb.Stream:
    wait = call.wait(request)
    return to_stream(await stream_operations.resume_stream(call.store, request.name, by=call.by, wait=wait))


async def _terminate(call: Call, request: pb.StreamVerb) -> pb.Stream:
    wait = call.wait(request)
    return to_stream(await stream_operations.terminate_stream(call.store, request.name, by=call.by, wait=wait))


async def _scale(call: Call, request: pb.ScaleStreamRequest) -> pb.Stream:
    tasks = wire.given(request, "tasks")
    return to_stream(await stream_operations.scale_stream(call.store, request.name, tasks, by=call.by))


async def _hand_off(call: Call, request: pb.HandOffRequest) -> pb.Stream:
    wait, groups = call.wait(request), list(request.groups)
    return to_stream(await stream_operations.hand_off_groups(call.store, request.name, groups, by=call.by, wait=wait))


async def _reset(call: Call, request: pb.ResetStreamRequest) -> pb.Stream:
    wait, to = call.wait(request), request.to or None
    return to_stream(
        await stream_operations.reset_stream(
            call.store, request.name, by=call.by, to=to, backfill=request.backfill, wait=wait
        )
    )


async def _reset_offsets(call: Call, request: pb.ResetOffsetsRequest) -> pb.Stream:
    wait, offsets = call.wait(request), dict(request.offsets)
    return to_stream(await stream_operations.reset_offsets(call.store, request.name, offsets, by=call.by, wait=wait))


# Answers


def to_stream(view: StreamView) -> pb.Stream:
    """A stream, and how it is."""
    return pb.Stream(
        name=view.name,
        version=view.version,
        app=view.app,
        source=view.source,
        sink=view.sink,
        spec_json=msgspec.json.encode(view.spec).decode(),
        tasks=view.tasks,
        replicas=view.replicas,
        state=view.state,
        healthy=view.healthy,
        detail=view.detail,
        since=wire.to_time(view.since),
        phases=view.phases,
        committed=view.committed,
        latest=view.latest,
        lag=view.lag,
        dropped=view.dropped,
        errors=[pb.StreamError(at=wire.to_time(each.at), why=each.why) for each in view.errors],
        suspended=view.suspended,
        terminated=view.terminated,
        hand_off=view.hand_off,
        reset=_wanted(view.reset) if view.reset else None,
        by=view.by,
        at=wire.to_time(view.at),
    )


def to_detail(detail: StreamDetail) -> pb.StreamDetail:
    """A stream with its groups."""
    return pb.StreamDetail(
        stream=to_stream(detail.stream),
        groups=map(_group, detail.groups),
        skips=map(_skip, detail.skips),
        moves=map(_move, detail.moves),
    )


def _wanted(reset: Reset) -> pb.StreamReset:
    return pb.StreamReset(
        to=reset.to,
        partitions=reset.partitions,
        by=reset.by,
        at=wire.to_time(reset.at),
        backfill=reset.is_backfilled,
    )


def _group(group: GroupView) -> pb.StreamGroup:
    return pb.StreamGroup(
        id=group.id,
        number=group.number,
        generation=group.generation,
        phase=group.phase,
        since=wire.to_time(group.since),
        why=group.why,
        partitions=group.partitions,
        starts=group.starts,
        ends=group.ends,
        tasks=map(_task, group.tasks),
    )


def _task(task: StreamTaskView) -> pb.StreamTask:
    return pb.StreamTask(
        slot=task.slot,
        node=task.node,
        epoch=task.epoch,
        state=task.state,
        started=wire.to_time(task.started),
        offsets=task.offsets,
        lag=task.lag,
        rows=task.rows,
        dropped=task.dropped,
        trouble=task.trouble,
        error=task.error,
        at=wire.to_time(task.at),
    )


def _skip(skip: SkipRecord) -> pb.StreamSkip:
    return pb.StreamSkip(
        partition=skip.partition,
        first=skip.first,
        last=skip.last,
        offset=skip.offset,
        policy=skip.policy,
        why=skip.why,
        at=wire.to_time(skip.at),
    )


def _move(move: MoveRecord) -> pb.StreamMove:
    return pb.StreamMove(
        id=move.id,
        before=move.before,
        after=move.after,
        by=move.by,
        why=move.why,
        at=wire.to_time(move.at),
        backfill=move.backfill,
    )


def _manifest(manifest: Manifest) -> pb.Published:
    return pb.Published(
        id=manifest.id,
        ranges=[
            pb.PublishedRange(partition=each.partition, start=each.start, end=each.end) for each in manifest.ranges
        ],
        rows=manifest.rows,
        files=[pb.PublishedFile(path=each.path, rows=each.rows, bytes=each.bytes) for each in manifest.segments],
        list=manifest.file or "",
        at=wire.to_time(manifest.at),
        by=manifest.by,
    )


METHODS: dict[str, Method | Stream] = {
    "rota.v1.Streams.List": Method("list_streams", _list),
    "rota.v1.Streams.Get": Method("get_stream", _get),
    "rota.v1.Streams.Status": Method("stream_status", _status),
    "rota.v1.Streams.Why": Method("why_stream", _why),
    "rota.v1.Streams.Lag": Method("stream_lag", _lag),
    "rota.v1.Streams.History": Method("stream_history", _history),
    "rota.v1.Streams.Published": Method("list_published", _published),
    "rota.v1.Streams.Suspend": Method("suspend_stream", _suspend),
    "rota.v1.Streams.Resume": Method("resume_stream", _resume),
    "rota.v1.Streams.Terminate": Method("terminate_stream", _terminate),
    "rota.v1.Streams.Scale": Method("scale_stream", _scale),
    "rota.v1.Streams.HandOff": Method("hand_off_groups", _hand_off),
    "rota.v1.Streams.Reset": Method("reset_stream", _reset),
    "rota.v1.Streams.ResetOffsets": Method("reset_offsets", _reset_offsets),
}
"""What answers each method of the contract."""
