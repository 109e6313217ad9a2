from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Job(_message.Message):
    __slots__ = ("name", "version", "origin", "app", "enabled", "since", "at", "by", "schedule", "spec_json", "next", "live", "last")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    APP_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    SPEC_JSON_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    origin: str
    app: str
    enabled: bool
    since: _timestamp_pb2.Timestamp
    at: _timestamp_pb2.Timestamp
    by: str
    schedule: str
    spec_json: str
    next: _timestamp_pb2.Timestamp
    live: int
    last: Run
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., origin: _Optional[str] = ..., app: _Optional[str] = ..., enabled: bool = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., by: _Optional[str] = ..., schedule: _Optional[str] = ..., spec_json: _Optional[str] = ..., next: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., live: _Optional[int] = ..., last: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class JobRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class JobDeleted(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("prefix", "limit", "token")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    limit: int
    token: str
    def __init__(self, prefix: _Optional[str] = ..., limit: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class JobPage(_message.Message):
    __slots__ = ("jobs", "next", "not_understood")
    class NotUnderstoodEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    NOT_UNDERSTOOD_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    next: str
    not_understood: _containers.ScalarMap[str, str]
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., next: _Optional[str] = ..., not_understood: _Optional[_Mapping[str, str]] = ...) -> None: ...

class PutJobRequest(_message.Message):
    __slots__ = ("name", "spec_json", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SPEC_JSON_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    spec_json: str
    version: int
    def __init__(self, name: _Optional[str] = ..., spec_json: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class RunJobRequest(_message.Message):
    __slots__ = ("name", "payload_json", "wait", "idempotency_key")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_JSON_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    payload_json: str
    wait: _duration_pb2.Duration
    idempotency_key: str
    def __init__(self, name: _Optional[str] = ..., payload_json: _Optional[str] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., idempotency_key: _Optional[str] = ...) -> None: ...

class PreviewJobRequest(_message.Message):
    __slots__ = ("name", "count", "after")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    name: str
    count: int
    after: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., count: _Optional[int] = ..., after: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class DueTimes(_message.Message):
    __slots__ = ("due",)
    DUE_FIELD_NUMBER: _ClassVar[int]
    due: _containers.RepeatedCompositeFieldContainer[DueTime]
    def __init__(self, due: _Optional[_Iterable[_Union[DueTime, _Mapping]]] = ...) -> None: ...

class DueTime(_message.Message):
    __slots__ = ("due", "local", "odd")
    DUE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    ODD_FIELD_NUMBER: _ClassVar[int]
    due: _timestamp_pb2.Timestamp
    local: str
    odd: str
    def __init__(self, due: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., local: _Optional[str] = ..., odd: _Optional[str] = ...) -> None: ...

class BackfillJobRequest(_message.Message):
    __slots__ = ("name", "first", "last", "force")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    first: _timestamp_pb2.Timestamp
    last: _timestamp_pb2.Timestamp
    force: bool
    def __init__(self, name: _Optional[str] = ..., first: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., last: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., force: bool = ...) -> None: ...

class RunIds(_message.Message):
    __slots__ = ("runs",)
    RUNS_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, runs: _Optional[_Iterable[str]] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("id", "job", "state", "due", "cause", "created", "attempt", "node", "started", "ended", "seconds", "exit_code", "error", "cpu_seconds", "peak_memory", "log_bytes", "not_before", "why", "stop", "of", "by", "payload_json", "earlier", "late", "skipped")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CPU_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    OF_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_JSON_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    id: str
    job: str
    state: str
    due: _timestamp_pb2.Timestamp
    cause: str
    created: _timestamp_pb2.Timestamp
    attempt: int
    node: str
    started: _timestamp_pb2.Timestamp
    ended: _timestamp_pb2.Timestamp
    seconds: float
    exit_code: int
    error: str
    cpu_seconds: float
    peak_memory: int
    log_bytes: int
    not_before: _timestamp_pb2.Timestamp
    why: str
    stop: str
    of: str
    by: str
    payload_json: str
    earlier: _containers.RepeatedCompositeFieldContainer[Attempt]
    late: _containers.RepeatedCompositeFieldContainer[Attempt]
    skipped: Skipped
    def __init__(self, id: _Optional[str] = ..., job: _Optional[str] = ..., state: _Optional[str] = ..., due: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., cause: _Optional[str] = ..., created: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., attempt: _Optional[int] = ..., node: _Optional[str] = ..., started: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., ended: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., seconds: _Optional[float] = ..., exit_code: _Optional[int] = ..., error: _Optional[str] = ..., cpu_seconds: _Optional[float] = ..., peak_memory: _Optional[int] = ..., log_bytes: _Optional[int] = ..., not_before: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., why: _Optional[str] = ..., stop: _Optional[str] = ..., of: _Optional[str] = ..., by: _Optional[str] = ..., payload_json: _Optional[str] = ..., earlier: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., late: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., skipped: _Optional[_Union[Skipped, _Mapping]] = ...) -> None: ...

class Skipped(_message.Message):
    __slots__ = ("first", "last", "count")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    first: _timestamp_pb2.Timestamp
    last: _timestamp_pb2.Timestamp
    count: int
    def __init__(self, first: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., last: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., count: _Optional[int] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("attempt", "node", "state", "error", "ended", "epoch", "outcome")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    node: str
    state: str
    error: str
    ended: _timestamp_pb2.Timestamp
    epoch: int
    outcome: Outcome
    def __init__(self, attempt: _Optional[int] = ..., node: _Optional[str] = ..., state: _Optional[str] = ..., error: _Optional[str] = ..., ended: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., epoch: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("state", "started", "seconds", "exit_code", "error", "cpu_seconds", "peak_memory", "log_bytes")
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CPU_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    state: str
    started: _timestamp_pb2.Timestamp
    seconds: float
    exit_code: int
    error: str
    cpu_seconds: float
    peak_memory: int
    log_bytes: int
    def __init__(self, state: _Optional[str] = ..., started: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., seconds: _Optional[float] = ..., exit_code: _Optional[int] = ..., error: _Optional[str] = ..., cpu_seconds: _Optional[float] = ..., peak_memory: _Optional[int] = ..., log_bytes: _Optional[int] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("job", "states", "limit", "token", "node", "since")
    JOB_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    job: str
    states: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    token: str
    node: str
    since: _timestamp_pb2.Timestamp
    def __init__(self, job: _Optional[str] = ..., states: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., token: _Optional[str] = ..., node: _Optional[str] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RunPage(_message.Message):
    __slots__ = ("runs", "next", "looked_at")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    next: str
    looked_at: int
    def __init__(self, runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., next: _Optional[str] = ..., looked_at: _Optional[int] = ...) -> None: ...

class WhyWork(_message.Message):
    __slots__ = ("thing", "says", "reasons")
    THING_FIELD_NUMBER: _ClassVar[int]
    SAYS_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    thing: str
    says: str
    reasons: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, thing: _Optional[str] = ..., says: _Optional[str] = ..., reasons: _Optional[_Iterable[str]] = ...) -> None: ...

class RunRequest(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: str
    def __init__(self, run: _Optional[str] = ...) -> None: ...

class RunDeleted(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: str
    def __init__(self, run: _Optional[str] = ...) -> None: ...

class InterruptRunRequest(_message.Message):
    __slots__ = ("run", "why", "wait")
    RUN_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    run: str
    why: str
    wait: _duration_pb2.Duration
    def __init__(self, run: _Optional[str] = ..., why: _Optional[str] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RunLogRequest(_message.Message):
    __slots__ = ("run", "attempt", "offset")
    RUN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    run: str
    attempt: int
    offset: int
    def __init__(self, run: _Optional[str] = ..., attempt: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class LogPart(_message.Message):
    __slots__ = ("attempt", "offset", "data", "next", "is_whole")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    IS_WHOLE_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    offset: int
    data: bytes
    next: int
    is_whole: bool
    def __init__(self, attempt: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., next: _Optional[int] = ..., is_whole: bool = ...) -> None: ...
