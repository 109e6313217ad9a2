from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WhyStream(_message.Message):
    __slots__ = ("stream", "says", "reasons")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SAYS_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    stream: str
    says: str
    reasons: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, stream: _Optional[str] = ..., says: _Optional[str] = ..., reasons: _Optional[_Iterable[str]] = ...) -> None: ...

class Stream(_message.Message):
    __slots__ = ("name", "version", "app", "source", "sink", "spec_json", "tasks", "replicas", "state", "healthy", "detail", "since", "phases", "committed", "latest", "lag", "errors", "suspended", "terminated", "hand_off", "reset", "by", "at", "dropped")
    class PhasesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class CommittedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    class LatestEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    class DroppedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    APP_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SINK_FIELD_NUMBER: _ClassVar[int]
    SPEC_JSON_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    PHASES_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    TERMINATED_FIELD_NUMBER: _ClassVar[int]
    HAND_OFF_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    app: str
    source: str
    sink: str
    spec_json: str
    tasks: int
    replicas: int
    state: str
    healthy: bool
    detail: str
    since: _timestamp_pb2.Timestamp
    phases: _containers.ScalarMap[str, int]
    committed: _containers.ScalarMap[int, int]
    latest: _containers.ScalarMap[int, int]
    lag: int
    errors: _containers.RepeatedCompositeFieldContainer[StreamError]
    suspended: bool
    terminated: bool
    hand_off: _containers.RepeatedScalarFieldContainer[int]
    reset: StreamReset
    by: str
    at: _timestamp_pb2.Timestamp
    dropped: _containers.ScalarMap[str, int]
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., app: _Optional[str] = ..., source: _Optional[str] = ..., sink: _Optional[str] = ..., spec_json: _Optional[str] = ..., tasks: _Optional[int] = ..., replicas: _Optional[int] = ..., state: _Optional[str] = ..., healthy: bool = ..., detail: _Optional[str] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., phases: _Optional[_Mapping[str, int]] = ..., committed: _Optional[_Mapping[int, int]] = ..., latest: _Optional[_Mapping[int, int]] = ..., lag: _Optional[int] = ..., errors: _Optional[_Iterable[_Union[StreamError, _Mapping]]] = ..., suspended: bool = ..., terminated: bool = ..., hand_off: _Optional[_Iterable[int]] = ..., reset: _Optional[_Union[StreamReset, _Mapping]] = ..., by: _Optional[str] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., dropped: _Optional[_Mapping[str, int]] = ...) -> None: ...

class StreamError(_message.Message):
    __slots__ = ("at", "why")
    AT_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    at: _timestamp_pb2.Timestamp
    why: str
    def __init__(self, at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., why: _Optional[str] = ...) -> None: ...

class StreamReset(_message.Message):
    __slots__ = ("to", "partitions", "by", "at", "backfill", "move", "source")
    class PartitionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    TO_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    MOVE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    to: str
    partitions: _containers.ScalarMap[int, str]
    by: str
    at: _timestamp_pb2.Timestamp
    backfill: bool
    move: str
    source: str
    def __init__(self, to: _Optional[str] = ..., partitions: _Optional[_Mapping[int, str]] = ..., by: _Optional[str] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., backfill: bool = ..., move: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class StreamRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class StreamVerb(_message.Message):
    __slots__ = ("name", "wait")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    wait: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ListStreamsRequest(_message.Message):
    __slots__ = ("prefix", "limit", "token", "all")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    limit: int
    token: str
    all: bool
    def __init__(self, prefix: _Optional[str] = ..., limit: _Optional[int] = ..., token: _Optional[str] = ..., all: bool = ...) -> None: ...

class StreamPage(_message.Message):
    __slots__ = ("streams", "next", "not_understood", "left_out")
    class NotUnderstoodEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    NOT_UNDERSTOOD_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    streams: _containers.RepeatedCompositeFieldContainer[Stream]
    next: str
    not_understood: _containers.ScalarMap[str, str]
    left_out: int
    def __init__(self, streams: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ..., next: _Optional[str] = ..., not_understood: _Optional[_Mapping[str, str]] = ..., left_out: _Optional[int] = ...) -> None: ...

class StreamDetail(_message.Message):
    __slots__ = ("stream", "groups", "skips", "moves")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    SKIPS_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    stream: Stream
    groups: _containers.RepeatedCompositeFieldContainer[StreamGroup]
    skips: _containers.RepeatedCompositeFieldContainer[StreamSkip]
    moves: _containers.RepeatedCompositeFieldContainer[StreamMove]
    def __init__(self, stream: _Optional[_Union[Stream, _Mapping]] = ..., groups: _Optional[_Iterable[_Union[StreamGroup, _Mapping]]] = ..., skips: _Optional[_Iterable[_Union[StreamSkip, _Mapping]]] = ..., moves: _Optional[_Iterable[_Union[StreamMove, _Mapping]]] = ...) -> None: ...

class StreamGroup(_message.Message):
    __slots__ = ("id", "number", "generation", "phase", "since", "why", "partitions", "starts", "ends", "tasks")
    class StartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    class EndsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    id: str
    number: int
    generation: int
    phase: str
    since: _timestamp_pb2.Timestamp
    why: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    starts: _containers.ScalarMap[int, int]
    ends: _containers.ScalarMap[int, int]
    tasks: _containers.RepeatedCompositeFieldContainer[StreamTask]
    def __init__(self, id: _Optional[str] = ..., number: _Optional[int] = ..., generation: _Optional[int] = ..., phase: _Optional[str] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., why: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., starts: _Optional[_Mapping[int, int]] = ..., ends: _Optional[_Mapping[int, int]] = ..., tasks: _Optional[_Iterable[_Union[StreamTask, _Mapping]]] = ...) -> None: ...

class StreamTask(_message.Message):
    __slots__ = ("slot", "node", "epoch", "state", "started", "offsets", "lag", "rows", "dropped", "trouble", "error", "at")
    class OffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    class DroppedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SLOT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    slot: int
    node: str
    epoch: int
    state: str
    started: _timestamp_pb2.Timestamp
    offsets: _containers.ScalarMap[int, int]
    lag: int
    rows: int
    dropped: _containers.ScalarMap[str, int]
    trouble: str
    error: str
    at: _timestamp_pb2.Timestamp
    def __init__(self, slot: _Optional[int] = ..., node: _Optional[str] = ..., epoch: _Optional[int] = ..., state: _Optional[str] = ..., started: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., offsets: _Optional[_Mapping[int, int]] = ..., lag: _Optional[int] = ..., rows: _Optional[int] = ..., dropped: _Optional[_Mapping[str, int]] = ..., trouble: _Optional[str] = ..., error: _Optional[str] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class StreamSkip(_message.Message):
    __slots__ = ("partition", "first", "last", "offset", "policy", "why", "at", "stream")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    partition: int
    first: int
    last: int
    offset: int
    policy: str
    why: str
    at: _timestamp_pb2.Timestamp
    stream: str
    def __init__(self, partition: _Optional[int] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., offset: _Optional[int] = ..., policy: _Optional[str] = ..., why: _Optional[str] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., stream: _Optional[str] = ...) -> None: ...

class StreamMove(_message.Message):
    __slots__ = ("before", "after", "by", "why", "at", "backfill", "id", "stream")
    class BeforeEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    class AfterEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    before: _containers.ScalarMap[int, int]
    after: _containers.ScalarMap[int, int]
    by: str
    why: str
    at: _timestamp_pb2.Timestamp
    backfill: str
    id: str
    stream: str
    def __init__(self, before: _Optional[_Mapping[int, int]] = ..., after: _Optional[_Mapping[int, int]] = ..., by: _Optional[str] = ..., why: _Optional[str] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., backfill: _Optional[str] = ..., id: _Optional[str] = ..., stream: _Optional[str] = ...) -> None: ...

class StreamLag(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionLag]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionLag, _Mapping]]] = ...) -> None: ...

class PartitionLag(_message.Message):
    __slots__ = ("partition", "committed", "latest", "lag", "stream")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    partition: int
    committed: int
    latest: int
    lag: int
    stream: str
    def __init__(self, partition: _Optional[int] = ..., committed: _Optional[int] = ..., latest: _Optional[int] = ..., lag: _Optional[int] = ..., stream: _Optional[str] = ...) -> None: ...

class StreamHistory(_message.Message):
    __slots__ = ("versions",)
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedCompositeFieldContainer[StreamVersion]
    def __init__(self, versions: _Optional[_Iterable[_Union[StreamVersion, _Mapping]]] = ...) -> None: ...

class StreamVersion(_message.Message):
    __slots__ = ("at", "node", "app", "spec_json", "changed_json")
    AT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    APP_FIELD_NUMBER: _ClassVar[int]
    SPEC_JSON_FIELD_NUMBER: _ClassVar[int]
    CHANGED_JSON_FIELD_NUMBER: _ClassVar[int]
    at: _timestamp_pb2.Timestamp
    node: str
    app: str
    spec_json: str
    changed_json: str
    def __init__(self, at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., node: _Optional[str] = ..., app: _Optional[str] = ..., spec_json: _Optional[str] = ..., changed_json: _Optional[str] = ...) -> None: ...

class ListPublishedRequest(_message.Message):
    __slots__ = ("name", "limit", "token")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    limit: int
    token: str
    def __init__(self, name: _Optional[str] = ..., limit: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class PublishedPage(_message.Message):
    __slots__ = ("published", "next")
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    published: _containers.RepeatedCompositeFieldContainer[Published]
    next: str
    def __init__(self, published: _Optional[_Iterable[_Union[Published, _Mapping]]] = ..., next: _Optional[str] = ...) -> None: ...

class Published(_message.Message):
    __slots__ = ("id", "ranges", "rows", "files", "list", "at", "by", "stream")
    ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    id: str
    ranges: _containers.RepeatedCompositeFieldContainer[PublishedRange]
    rows: int
    files: _containers.RepeatedCompositeFieldContainer[PublishedFile]
    list: str
    at: _timestamp_pb2.Timestamp
    by: str
    stream: str
    def __init__(self, id: _Optional[str] = ..., ranges: _Optional[_Iterable[_Union[PublishedRange, _Mapping]]] = ..., rows: _Optional[int] = ..., files: _Optional[_Iterable[_Union[PublishedFile, _Mapping]]] = ..., list: _Optional[str] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., by: _Optional[str] = ..., stream: _Optional[str] = ...) -> None: ...

class PublishedRange(_message.Message):
    __slots__ = ("partition", "start", "end")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    partition: int
    start: int
    end: int
    def __init__(self, partition: _Optional[int] = ..., start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class PublishedFile(_message.Message):
    __slots__ = ("path", "rows", "bytes")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    path: str
    rows: int
    bytes: int
    def __init__(self, path: _Optional[str] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class ScaleStreamRequest(_message.Message):
    __slots__ = ("name", "tasks")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    name: str
    tasks: int
    def __init__(self, name: _Optional[str] = ..., tasks: _Optional[int] = ...) -> None: ...

class HandOffRequest(_message.Message):
    __slots__ = ("name", "groups", "wait")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    groups: _containers.RepeatedScalarFieldContainer[int]
    wait: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., groups: _Optional[_Iterable[int]] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ResetStreamRequest(_message.Message):
    __slots__ = ("name", "to", "wait", "backfill")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    name: str
    to: str
    wait: _duration_pb2.Duration
    backfill: bool
    def __init__(self, name: _Optional[str] = ..., to: _Optional[str] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., backfill: bool = ...) -> None: ...

class ResetOffsetsRequest(_message.Message):
    __slots__ = ("name", "offsets", "wait")
    class OffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    offsets: _containers.ScalarMap[int, str]
    wait: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., offsets: _Optional[_Mapping[int, str]] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...
