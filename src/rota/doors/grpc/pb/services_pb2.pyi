from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListServicesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServiceList(_message.Message):
    __slots__ = ("nodes", "as_of")
    NODES_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeServices]
    as_of: _timestamp_pb2.Timestamp
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodeServices, _Mapping]]] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class NodeServicesRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class NodeServices(_message.Message):
    __slots__ = ("node", "services", "error")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    node: str
    services: _containers.RepeatedCompositeFieldContainer[Service]
    error: str
    def __init__(self, node: _Optional[str] = ..., services: _Optional[_Iterable[_Union[Service, _Mapping]]] = ..., error: _Optional[str] = ...) -> None: ...

class Service(_message.Message):
    __slots__ = ("service", "admin", "admin_closed", "stat", "error")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    ADMIN_FIELD_NUMBER: _ClassVar[int]
    ADMIN_CLOSED_FIELD_NUMBER: _ClassVar[int]
    STAT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    service: str
    admin: str
    admin_closed: str
    stat: ServiceStat
    error: str
    def __init__(self, service: _Optional[str] = ..., admin: _Optional[str] = ..., admin_closed: _Optional[str] = ..., stat: _Optional[_Union[ServiceStat, _Mapping]] = ..., error: _Optional[str] = ...) -> None: ...

class ServiceStat(_message.Message):
    __slots__ = ("service", "clients", "workers", "busy_workers", "idle_workers", "pending_tasks", "client_req", "client_rsp", "worker_req", "worker_rsp", "discard_tasks", "tasks_time", "in_flight", "silent", "failures", "drops", "groups", "cmds", "generation", "listening", "not_listening", "proxies", "uptime_s", "cpu_s", "slow")
    class WorkersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class BusyWorkersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class IdleWorkersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class PendingTasksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class WorkerReqEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class WorkerRspEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class DiscardTasksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class TasksTimeEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class InFlightEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class FailuresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class DropsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class GroupsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Latency
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Latency, _Mapping]] = ...) -> None: ...
    class CmdsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Latency
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Latency, _Mapping]] = ...) -> None: ...
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    BUSY_WORKERS_FIELD_NUMBER: _ClassVar[int]
    IDLE_WORKERS_FIELD_NUMBER: _ClassVar[int]
    PENDING_TASKS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_REQ_FIELD_NUMBER: _ClassVar[int]
    CLIENT_RSP_FIELD_NUMBER: _ClassVar[int]
    WORKER_REQ_FIELD_NUMBER: _ClassVar[int]
    WORKER_RSP_FIELD_NUMBER: _ClassVar[int]
    DISCARD_TASKS_FIELD_NUMBER: _ClassVar[int]
    TASKS_TIME_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    DROPS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    CMDS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    LISTENING_FIELD_NUMBER: _ClassVar[int]
    NOT_LISTENING_FIELD_NUMBER: _ClassVar[int]
    PROXIES_FIELD_NUMBER: _ClassVar[int]
    UPTIME_S_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    SLOW_FIELD_NUMBER: _ClassVar[int]
    service: str
    clients: int
    workers: _containers.ScalarMap[str, int]
    busy_workers: _containers.ScalarMap[str, int]
    idle_workers: _containers.ScalarMap[str, int]
    pending_tasks: _containers.ScalarMap[str, int]
    client_req: int
    client_rsp: int
    worker_req: _containers.ScalarMap[str, int]
    worker_rsp: _containers.ScalarMap[str, int]
    discard_tasks: _containers.ScalarMap[str, int]
    tasks_time: _containers.ScalarMap[str, int]
    in_flight: _containers.ScalarMap[str, int]
    silent: int
    failures: _containers.ScalarMap[str, int]
    drops: _containers.ScalarMap[str, int]
    groups: _containers.MessageMap[str, Latency]
    cmds: _containers.MessageMap[str, Latency]
    generation: int
    listening: _containers.RepeatedScalarFieldContainer[str]
    not_listening: str
    proxies: int
    uptime_s: float
    cpu_s: float
    slow: _containers.RepeatedCompositeFieldContainer[SlowRequest]
    def __init__(self, service: _Optional[str] = ..., clients: _Optional[int] = ..., workers: _Optional[_Mapping[str, int]] = ..., busy_workers: _Optional[_Mapping[str, int]] = ..., idle_workers: _Optional[_Mapping[str, int]] = ..., pending_tasks: _Optional[_Mapping[str, int]] = ..., client_req: _Optional[int] = ..., client_rsp: _Optional[int] = ..., worker_req: _Optional[_Mapping[str, int]] = ..., worker_rsp: _Optional[_Mapping[str, int]] = ..., discard_tasks: _Optional[_Mapping[str, int]] = ..., tasks_time: _Optional[_Mapping[str, int]] = ..., in_flight: _Optional[_Mapping[str, int]] = ..., silent: _Optional[int] = ..., failures: _Optional[_Mapping[str, int]] = ..., drops: _Optional[_Mapping[str, int]] = ..., groups: _Optional[_Mapping[str, Latency]] = ..., cmds: _Optional[_Mapping[str, Latency]] = ..., generation: _Optional[int] = ..., listening: _Optional[_Iterable[str]] = ..., not_listening: _Optional[str] = ..., proxies: _Optional[int] = ..., uptime_s: _Optional[float] = ..., cpu_s: _Optional[float] = ..., slow: _Optional[_Iterable[_Union[SlowRequest, _Mapping]]] = ...) -> None: ...

class SlowRequest(_message.Message):
    __slots__ = ("pid", "group", "cmd", "age_s", "generation", "is_draining")
    PID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CMD_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    IS_DRAINING_FIELD_NUMBER: _ClassVar[int]
    pid: int
    group: int
    cmd: int
    age_s: float
    generation: int
    is_draining: bool
    def __init__(self, pid: _Optional[int] = ..., group: _Optional[int] = ..., cmd: _Optional[int] = ..., age_s: _Optional[float] = ..., generation: _Optional[int] = ..., is_draining: bool = ...) -> None: ...

class Latency(_message.Message):
    __slots__ = ("count", "p50_ms", "p90_ms", "p99_ms")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    P50_MS_FIELD_NUMBER: _ClassVar[int]
    P90_MS_FIELD_NUMBER: _ClassVar[int]
    P99_MS_FIELD_NUMBER: _ClassVar[int]
    count: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    def __init__(self, count: _Optional[int] = ..., p50_ms: _Optional[float] = ..., p90_ms: _Optional[float] = ..., p99_ms: _Optional[float] = ...) -> None: ...

class ReloadRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class RollbackRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class Reloaded(_message.Message):
    __slots__ = ("generation", "previous", "note")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    generation: int
    previous: int
    note: str
    def __init__(self, generation: _Optional[int] = ..., previous: _Optional[int] = ..., note: _Optional[str] = ...) -> None: ...

class ClearServiceRequest(_message.Message):
    __slots__ = ("node", "service", "groups")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    node: str
    service: str
    groups: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node: _Optional[str] = ..., service: _Optional[str] = ..., groups: _Optional[_Iterable[int]] = ...) -> None: ...

class ServiceCleared(_message.Message):
    __slots__ = ("service", "dropped")
    class DroppedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    service: str
    dropped: _containers.ScalarMap[str, int]
    def __init__(self, service: _Optional[str] = ..., dropped: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ResizeServiceRequest(_message.Message):
    __slots__ = ("node", "service", "group", "count")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    node: str
    service: str
    group: int
    count: int
    def __init__(self, node: _Optional[str] = ..., service: _Optional[str] = ..., group: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class ServiceResized(_message.Message):
    __slots__ = ("service", "group", "before", "count")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    service: str
    group: int
    before: int
    count: int
    def __init__(self, service: _Optional[str] = ..., group: _Optional[int] = ..., before: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...
