from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OverviewRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OverviewAnswer(_message.Message):
    __slots__ = ("as_of", "leader", "nodes", "nodes_up", "slots", "used", "tasks", "tasks_running", "resources", "pending", "jobs", "runs", "streams", "lag", "published", "spooled", "insecure", "concerns", "concerns_left_out", "failing")
    class RunsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class StreamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODES_UP_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    TASKS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    SPOOLED_FIELD_NUMBER: _ClassVar[int]
    INSECURE_FIELD_NUMBER: _ClassVar[int]
    CONCERNS_FIELD_NUMBER: _ClassVar[int]
    CONCERNS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    FAILING_FIELD_NUMBER: _ClassVar[int]
    as_of: _timestamp_pb2.Timestamp
    leader: LeaderView
    nodes: int
    nodes_up: int
    slots: int
    used: int
    tasks: int
    tasks_running: int
    resources: int
    pending: int
    jobs: int
    runs: _containers.ScalarMap[str, int]
    streams: _containers.ScalarMap[str, int]
    lag: int
    published: int
    spooled: int
    insecure: _containers.RepeatedScalarFieldContainer[str]
    concerns: _containers.RepeatedCompositeFieldContainer[Concern]
    concerns_left_out: int
    failing: int
    def __init__(self, as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., leader: _Optional[_Union[LeaderView, _Mapping]] = ..., nodes: _Optional[int] = ..., nodes_up: _Optional[int] = ..., slots: _Optional[int] = ..., used: _Optional[int] = ..., tasks: _Optional[int] = ..., tasks_running: _Optional[int] = ..., resources: _Optional[int] = ..., pending: _Optional[int] = ..., jobs: _Optional[int] = ..., runs: _Optional[_Mapping[str, int]] = ..., streams: _Optional[_Mapping[str, int]] = ..., lag: _Optional[int] = ..., published: _Optional[int] = ..., spooled: _Optional[int] = ..., insecure: _Optional[_Iterable[str]] = ..., concerns: _Optional[_Iterable[_Union[Concern, _Mapping]]] = ..., concerns_left_out: _Optional[int] = ..., failing: _Optional[int] = ...) -> None: ...

class LeaderView(_message.Message):
    __slots__ = ("node", "term", "since", "age_s")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    node: str
    term: int
    since: _timestamp_pb2.Timestamp
    age_s: int
    def __init__(self, node: _Optional[str] = ..., term: _Optional[int] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., age_s: _Optional[int] = ...) -> None: ...

class Concern(_message.Message):
    __slots__ = ("severity", "about", "subject", "text")
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    severity: str
    about: str
    subject: str
    text: str
    def __init__(self, severity: _Optional[str] = ..., about: _Optional[str] = ..., subject: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class Resource(_message.Message):
    __slots__ = ("kind", "id", "uid", "version", "created", "origin", "spec_json", "priority", "replicas", "cost", "labels", "pin", "status", "tags", "affinity")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    SPEC_JSON_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PIN_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_FIELD_NUMBER: _ClassVar[int]
    kind: str
    id: str
    uid: str
    version: int
    created: _timestamp_pb2.Timestamp
    origin: str
    spec_json: str
    priority: int
    replicas: int
    cost: int
    labels: _containers.ScalarMap[str, str]
    pin: str
    status: ResourceStatus
    tags: _containers.ScalarMap[str, str]
    affinity: Affinity
    def __init__(self, kind: _Optional[str] = ..., id: _Optional[str] = ..., uid: _Optional[str] = ..., version: _Optional[int] = ..., created: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., origin: _Optional[str] = ..., spec_json: _Optional[str] = ..., priority: _Optional[int] = ..., replicas: _Optional[int] = ..., cost: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., pin: _Optional[str] = ..., status: _Optional[_Union[ResourceStatus, _Mapping]] = ..., tags: _Optional[_Mapping[str, str]] = ..., affinity: _Optional[_Union[Affinity, _Mapping]] = ...) -> None: ...

class Affinity(_message.Message):
    __slots__ = ("prefer", "near", "apart", "prefer_near", "prefer_apart")
    class PreferEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class NearEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ApartEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class PreferNearEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class PreferApartEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PREFER_FIELD_NUMBER: _ClassVar[int]
    NEAR_FIELD_NUMBER: _ClassVar[int]
    APART_FIELD_NUMBER: _ClassVar[int]
    PREFER_NEAR_FIELD_NUMBER: _ClassVar[int]
    PREFER_APART_FIELD_NUMBER: _ClassVar[int]
    prefer: _containers.ScalarMap[str, str]
    near: _containers.ScalarMap[str, str]
    apart: _containers.ScalarMap[str, str]
    prefer_near: _containers.ScalarMap[str, str]
    prefer_apart: _containers.ScalarMap[str, str]
    def __init__(self, prefer: _Optional[_Mapping[str, str]] = ..., near: _Optional[_Mapping[str, str]] = ..., apart: _Optional[_Mapping[str, str]] = ..., prefer_near: _Optional[_Mapping[str, str]] = ..., prefer_apart: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ResourceStatus(_message.Message):
    __slots__ = ("replicas", "assigned", "places", "pending", "chosen", "refusals", "moving", "given_back", "failing", "running", "state")
    class ChosenEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class RefusalsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class FailingEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    MOVING_FIELD_NUMBER: _ClassVar[int]
    GIVEN_BACK_FIELD_NUMBER: _ClassVar[int]
    FAILING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    replicas: int
    assigned: int
    places: _containers.RepeatedCompositeFieldContainer[Place]
    pending: str
    chosen: _containers.ScalarMap[str, str]
    refusals: _containers.ScalarMap[str, str]
    moving: str
    given_back: GivenBack
    failing: _containers.ScalarMap[str, str]
    running: int
    state: str
    def __init__(self, replicas: _Optional[int] = ..., assigned: _Optional[int] = ..., places: _Optional[_Iterable[_Union[Place, _Mapping]]] = ..., pending: _Optional[str] = ..., chosen: _Optional[_Mapping[str, str]] = ..., refusals: _Optional[_Mapping[str, str]] = ..., moving: _Optional[str] = ..., given_back: _Optional[_Union[GivenBack, _Mapping]] = ..., failing: _Optional[_Mapping[str, str]] = ..., running: _Optional[int] = ..., state: _Optional[str] = ...) -> None: ...

class GivenBack(_message.Message):
    __slots__ = ("node", "at", "why", "strikes", "since", "epoch")
    NODE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    STRIKES_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    node: str
    at: _timestamp_pb2.Timestamp
    why: str
    strikes: int
    since: _timestamp_pb2.Timestamp
    epoch: int
    def __init__(self, node: _Optional[str] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., why: _Optional[str] = ..., strikes: _Optional[int] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., epoch: _Optional[int] = ...) -> None: ...

class Place(_message.Message):
    __slots__ = ("node", "address")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    node: str
    address: str
    def __init__(self, node: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class CreateResourceRequest(_message.Message):
    __slots__ = ("kind", "id", "spec_json", "priority", "replicas", "cost", "labels", "pin", "idempotency_key", "wait", "tags", "affinity")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_JSON_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PIN_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_FIELD_NUMBER: _ClassVar[int]
    kind: str
    id: str
    spec_json: str
    priority: int
    replicas: int
    cost: int
    labels: _containers.ScalarMap[str, str]
    pin: str
    idempotency_key: str
    wait: _duration_pb2.Duration
    tags: _containers.ScalarMap[str, str]
    affinity: Affinity
    def __init__(self, kind: _Optional[str] = ..., id: _Optional[str] = ..., spec_json: _Optional[str] = ..., priority: _Optional[int] = ..., replicas: _Optional[int] = ..., cost: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., pin: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., tags: _Optional[_Mapping[str, str]] = ..., affinity: _Optional[_Union[Affinity, _Mapping]] = ...) -> None: ...

class GetResourceRequest(_message.Message):
    __slots__ = ("kind", "id")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    kind: str
    id: str
    def __init__(self, kind: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class ListResourcesRequest(_message.Message):
    __slots__ = ("kind", "prefix", "pending", "limit", "token")
    KIND_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    kind: str
    prefix: str
    pending: bool
    limit: int
    token: str
    def __init__(self, kind: _Optional[str] = ..., prefix: _Optional[str] = ..., pending: bool = ..., limit: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class ResourcePage(_message.Message):
    __slots__ = ("resources", "revision", "next", "not_understood")
    class NotUnderstoodEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    NOT_UNDERSTOOD_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    revision: int
    next: str
    not_understood: _containers.ScalarMap[str, str]
    def __init__(self, resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ..., revision: _Optional[int] = ..., next: _Optional[str] = ..., not_understood: _Optional[_Mapping[str, str]] = ...) -> None: ...

class WatchResourcesRequest(_message.Message):
    __slots__ = ("kind", "prefix", "after")
    KIND_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    kind: str
    prefix: str
    after: int
    def __init__(self, kind: _Optional[str] = ..., prefix: _Optional[str] = ..., after: _Optional[int] = ...) -> None: ...

class ResourceChange(_message.Message):
    __slots__ = ("what", "resource", "why", "resume")
    WHAT_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    what: str
    resource: Resource
    why: str
    resume: int
    def __init__(self, what: _Optional[str] = ..., resource: _Optional[_Union[Resource, _Mapping]] = ..., why: _Optional[str] = ..., resume: _Optional[int] = ...) -> None: ...

class UpdateResourceRequest(_message.Message):
    __slots__ = ("kind", "id", "version", "spec_json", "priority", "replicas", "cost", "labels", "pin", "reset", "tags", "affinity")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SPEC_JSON_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PIN_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_FIELD_NUMBER: _ClassVar[int]
    kind: str
    id: str
    version: int
    spec_json: str
    priority: int
    replicas: int
    cost: int
    labels: Labels
    pin: str
    reset: _containers.RepeatedScalarFieldContainer[str]
    tags: Labels
    affinity: Affinity
    def __init__(self, kind: _Optional[str] = ..., id: _Optional[str] = ..., version: _Optional[int] = ..., spec_json: _Optional[str] = ..., priority: _Optional[int] = ..., replicas: _Optional[int] = ..., cost: _Optional[int] = ..., labels: _Optional[_Union[Labels, _Mapping]] = ..., pin: _Optional[str] = ..., reset: _Optional[_Iterable[str]] = ..., tags: _Optional[_Union[Labels, _Mapping]] = ..., affinity: _Optional[_Union[Affinity, _Mapping]] = ...) -> None: ...

class Labels(_message.Message):
    __slots__ = ("labels",)
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LABELS_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.ScalarMap[str, str]
    def __init__(self, labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DeleteResourceRequest(_message.Message):
    __slots__ = ("kind", "id", "version")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    kind: str
    id: str
    version: int
    def __init__(self, kind: _Optional[str] = ..., id: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class ListKindsRequest(_message.Message):
    __slots__ = ("limit", "token")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    limit: int
    token: str
    def __init__(self, limit: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class KindList(_message.Message):
    __slots__ = ("kinds", "next")
    KINDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedCompositeFieldContainer[Kind]
    next: str
    def __init__(self, kinds: _Optional[_Iterable[_Union[Kind, _Mapping]]] = ..., next: _Optional[str] = ...) -> None: ...

class Kind(_message.Message):
    __slots__ = ("name", "app", "replicas", "exclusive", "runs_alone", "silent_after", "start_within", "labels", "schema_json", "source_every", "source_timeout", "no_schema", "affinity")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    APP_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    RUNS_ALONE_FIELD_NUMBER: _ClassVar[int]
    SILENT_AFTER_FIELD_NUMBER: _ClassVar[int]
    START_WITHIN_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    SOURCE_EVERY_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    NO_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_FIELD_NUMBER: _ClassVar[int]
    name: str
    app: str
    replicas: int
    exclusive: bool
    runs_alone: bool
    silent_after: _duration_pb2.Duration
    start_within: _duration_pb2.Duration
    labels: _containers.ScalarMap[str, str]
    schema_json: str
    source_every: _duration_pb2.Duration
    source_timeout: _duration_pb2.Duration
    no_schema: str
    affinity: Affinity
    def __init__(self, name: _Optional[str] = ..., app: _Optional[str] = ..., replicas: _Optional[int] = ..., exclusive: bool = ..., runs_alone: bool = ..., silent_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., start_within: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., schema_json: _Optional[str] = ..., source_every: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., source_timeout: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., no_schema: _Optional[str] = ..., affinity: _Optional[_Union[Affinity, _Mapping]] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("limit", "token")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    limit: int
    token: str
    def __init__(self, limit: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class GetNodeRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class NodeList(_message.Message):
    __slots__ = ("nodes", "as_of", "next")
    NODES_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    as_of: _timestamp_pb2.Timestamp
    next: str
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., next: _Optional[str] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("id", "is_up", "leads", "role", "host", "http", "grpc", "labels", "app", "kinds", "slots", "used", "tasks", "cordon", "since", "age_s", "version", "not_understood", "configured_slots", "load", "standing", "standing_why", "drain", "insecure", "generation", "code", "app_version", "daemons", "configured_labels", "slots_set", "labels_set")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ConfiguredLabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    IS_UP_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    HTTP_FIELD_NUMBER: _ClassVar[int]
    GRPC_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    APP_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    CORDON_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NOT_UNDERSTOOD_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_SLOTS_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    STANDING_WHY_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    INSECURE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    APP_VERSION_FIELD_NUMBER: _ClassVar[int]
    DAEMONS_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_LABELS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_SET_FIELD_NUMBER: _ClassVar[int]
    LABELS_SET_FIELD_NUMBER: _ClassVar[int]
    id: str
    is_up: bool
    leads: bool
    role: str
    host: str
    http: str
    grpc: str
    labels: _containers.ScalarMap[str, str]
    app: str
    kinds: _containers.RepeatedScalarFieldContainer[str]
    slots: int
    used: int
    tasks: int
    cordon: CordonAnswer
    since: _timestamp_pb2.Timestamp
    age_s: int
    version: str
    not_understood: str
    configured_slots: int
    load: NodeLoad
    standing: str
    standing_why: str
    drain: DrainAnswer
    insecure: bool
    generation: int
    code: str
    app_version: str
    daemons: str
    configured_labels: _containers.ScalarMap[str, str]
    slots_set: SlotsSet
    labels_set: LabelsSet
    def __init__(self, id: _Optional[str] = ..., is_up: bool = ..., leads: bool = ..., role: _Optional[str] = ..., host: _Optional[str] = ..., http: _Optional[str] = ..., grpc: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., app: _Optional[str] = ..., kinds: _Optional[_Iterable[str]] = ..., slots: _Optional[int] = ..., used: _Optional[int] = ..., tasks: _Optional[int] = ..., cordon: _Optional[_Union[CordonAnswer, _Mapping]] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., age_s: _Optional[int] = ..., version: _Optional[str] = ..., not_understood: _Optional[str] = ..., configured_slots: _Optional[int] = ..., load: _Optional[_Union[NodeLoad, _Mapping]] = ..., standing: _Optional[str] = ..., standing_why: _Optional[str] = ..., drain: _Optional[_Union[DrainAnswer, _Mapping]] = ..., insecure: bool = ..., generation: _Optional[int] = ..., code: _Optional[str] = ..., app_version: _Optional[str] = ..., daemons: _Optional[str] = ..., configured_labels: _Optional[_Mapping[str, str]] = ..., slots_set: _Optional[_Union[SlotsSet, _Mapping]] = ..., labels_set: _Optional[_Union[LabelsSet, _Mapping]] = ...) -> None: ...

class SlotsSet(_message.Message):
    __slots__ = ("node", "slots", "since")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    node: str
    slots: int
    since: _timestamp_pb2.Timestamp
    def __init__(self, node: _Optional[str] = ..., slots: _Optional[int] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class LabelsSet(_message.Message):
    __slots__ = ("node", "labels", "since", "removed")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    node: str
    labels: _containers.ScalarMap[str, str]
    since: _timestamp_pb2.Timestamp
    removed: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., removed: _Optional[_Iterable[str]] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("node", "why", "deadline")
    NODE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    node: str
    why: str
    deadline: _duration_pb2.Duration
    def __init__(self, node: _Optional[str] = ..., why: _Optional[str] = ..., deadline: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class DrainAnswer(_message.Message):
    __slots__ = ("node", "since", "deadline", "why", "tasks")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    node: str
    since: _timestamp_pb2.Timestamp
    deadline: _timestamp_pb2.Timestamp
    why: str
    tasks: int
    def __init__(self, node: _Optional[str] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., deadline: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., why: _Optional[str] = ..., tasks: _Optional[int] = ...) -> None: ...

class UndrainRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class UndrainAnswer(_message.Message):
    __slots__ = ("node", "was_drained")
    NODE_FIELD_NUMBER: _ClassVar[int]
    WAS_DRAINED_FIELD_NUMBER: _ClassVar[int]
    node: str
    was_drained: bool
    def __init__(self, node: _Optional[str] = ..., was_drained: bool = ...) -> None: ...

class NodeLoad(_message.Message):
    __slots__ = ("score", "cpu", "memory", "executors", "executors_used")
    SCORE_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_USED_FIELD_NUMBER: _ClassVar[int]
    score: float
    cpu: float
    memory: float
    executors: int
    executors_used: int
    def __init__(self, score: _Optional[float] = ..., cpu: _Optional[float] = ..., memory: _Optional[float] = ..., executors: _Optional[int] = ..., executors_used: _Optional[int] = ...) -> None: ...

class IdlestRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IdlestAnswer(_message.Message):
    __slots__ = ("node", "score", "executors_free", "http", "grpc", "as_of")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FREE_FIELD_NUMBER: _ClassVar[int]
    HTTP_FIELD_NUMBER: _ClassVar[int]
    GRPC_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    node: str
    score: float
    executors_free: int
    http: str
    grpc: str
    as_of: _timestamp_pb2.Timestamp
    def __init__(self, node: _Optional[str] = ..., score: _Optional[float] = ..., executors_free: _Optional[int] = ..., http: _Optional[str] = ..., grpc: _Optional[str] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CordonRequest(_message.Message):
    __slots__ = ("node", "why")
    NODE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    node: str
    why: str
    def __init__(self, node: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class CordonAnswer(_message.Message):
    __slots__ = ("node", "since", "why")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    node: str
    since: _timestamp_pb2.Timestamp
    why: str
    def __init__(self, node: _Optional[str] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., why: _Optional[str] = ...) -> None: ...

class UncordonRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class UncordonAnswer(_message.Message):
    __slots__ = ("node", "was_cordoned")
    NODE_FIELD_NUMBER: _ClassVar[int]
    WAS_CORDONED_FIELD_NUMBER: _ClassVar[int]
    node: str
    was_cordoned: bool
    def __init__(self, node: _Optional[str] = ..., was_cordoned: bool = ...) -> None: ...

class SetSlotsRequest(_message.Message):
    __slots__ = ("node", "slots")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    node: str
    slots: int
    def __init__(self, node: _Optional[str] = ..., slots: _Optional[int] = ...) -> None: ...

class SlotsAnswer(_message.Message):
    __slots__ = ("node", "slots")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    node: str
    slots: int
    def __init__(self, node: _Optional[str] = ..., slots: _Optional[int] = ...) -> None: ...

class LabelNodeRequest(_message.Message):
    __slots__ = ("node", "labels", "remove", "reset")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    node: str
    labels: _containers.ScalarMap[str, str]
    remove: _containers.RepeatedScalarFieldContainer[str]
    reset: bool
    def __init__(self, node: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., remove: _Optional[_Iterable[str]] = ..., reset: bool = ...) -> None: ...

class LabelsAnswer(_message.Message):
    __slots__ = ("node", "labels", "labels_set")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LABELS_SET_FIELD_NUMBER: _ClassVar[int]
    node: str
    labels: _containers.ScalarMap[str, str]
    labels_set: LabelsSet
    def __init__(self, node: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., labels_set: _Optional[_Union[LabelsSet, _Mapping]] = ...) -> None: ...

class ListRelaysRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class RelayList(_message.Message):
    __slots__ = ("relays", "map", "as_of")
    RELAYS_FIELD_NUMBER: _ClassVar[int]
    MAP_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    relays: _containers.RepeatedCompositeFieldContainer[Relay]
    map: RelayMap
    as_of: _timestamp_pb2.Timestamp
    def __init__(self, relays: _Optional[_Iterable[_Union[Relay, _Mapping]]] = ..., map: _Optional[_Union[RelayMap, _Mapping]] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RelayMap(_message.Message):
    __slots__ = ("version", "nodes", "before")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    version: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    before: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ..., before: _Optional[_Iterable[str]] = ...) -> None: ...

class Relay(_message.Message):
    __slots__ = ("node", "is_home", "status", "age_s", "not_understood")
    NODE_FIELD_NUMBER: _ClassVar[int]
    IS_HOME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    NOT_UNDERSTOOD_FIELD_NUMBER: _ClassVar[int]
    node: str
    is_home: bool
    status: RelayStatus
    age_s: int
    not_understood: str
    def __init__(self, node: _Optional[str] = ..., is_home: bool = ..., status: _Optional[_Union[RelayStatus, _Mapping]] = ..., age_s: _Optional[int] = ..., not_understood: _Optional[str] = ...) -> None: ...

class RelayStatus(_message.Message):
    __slots__ = ("address", "since", "map_version", "is_moving", "lines", "window", "passed_on", "refused", "sinks", "is_leaving", "unreached", "waiting")
    class RefusedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class UnreachedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    MAP_VERSION_FIELD_NUMBER: _ClassVar[int]
    IS_MOVING_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    PASSED_ON_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    IS_LEAVING_FIELD_NUMBER: _ClassVar[int]
    UNREACHED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    address: str
    since: _timestamp_pb2.Timestamp
    map_version: int
    is_moving: bool
    lines: int
    window: int
    passed_on: int
    refused: _containers.ScalarMap[str, int]
    sinks: _containers.RepeatedCompositeFieldContainer[SinkStatus]
    is_leaving: bool
    unreached: _containers.ScalarMap[str, str]
    waiting: int
    def __init__(self, address: _Optional[str] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., map_version: _Optional[int] = ..., is_moving: bool = ..., lines: _Optional[int] = ..., window: _Optional[int] = ..., passed_on: _Optional[int] = ..., refused: _Optional[_Mapping[str, int]] = ..., sinks: _Optional[_Iterable[_Union[SinkStatus, _Mapping]]] = ..., is_leaving: bool = ..., unreached: _Optional[_Mapping[str, str]] = ..., waiting: _Optional[int] = ...) -> None: ...

class SinkStatus(_message.Message):
    __slots__ = ("sink", "state", "published", "confirmed", "rejected", "waiting", "spool_messages", "spool_bytes", "spool_limit", "last_error", "under_way")
    class RejectedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SINK_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    SPOOL_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SPOOL_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPOOL_LIMIT_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    UNDER_WAY_FIELD_NUMBER: _ClassVar[int]
    sink: str
    state: str
    published: int
    confirmed: int
    rejected: _containers.ScalarMap[str, int]
    waiting: int
    spool_messages: int
    spool_bytes: int
    spool_limit: int
    last_error: str
    under_way: int
    def __init__(self, sink: _Optional[str] = ..., state: _Optional[str] = ..., published: _Optional[int] = ..., confirmed: _Optional[int] = ..., rejected: _Optional[_Mapping[str, int]] = ..., waiting: _Optional[int] = ..., spool_messages: _Optional[int] = ..., spool_bytes: _Optional[int] = ..., spool_limit: _Optional[int] = ..., last_error: _Optional[str] = ..., under_way: _Optional[int] = ...) -> None: ...

class CountMessagesRequest(_message.Message):
    __slots__ = ("kind", "id")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    kind: str
    id: str
    def __init__(self, kind: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class ResourceTally(_message.Message):
    __slots__ = ("kind", "resource", "unique", "duplicates", "seen_by_one", "last_s")
    KIND_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    SEEN_BY_ONE_FIELD_NUMBER: _ClassVar[int]
    LAST_S_FIELD_NUMBER: _ClassVar[int]
    kind: str
    resource: str
    unique: int
    duplicates: int
    seen_by_one: int
    last_s: float
    def __init__(self, kind: _Optional[str] = ..., resource: _Optional[str] = ..., unique: _Optional[int] = ..., duplicates: _Optional[int] = ..., seen_by_one: _Optional[int] = ..., last_s: _Optional[float] = ...) -> None: ...

class WhyResourceRequest(_message.Message):
    __slots__ = ("kind", "id")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    kind: str
    id: str
    def __init__(self, kind: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class WhySourceRequest(_message.Message):
    __slots__ = ("kind",)
    KIND_FIELD_NUMBER: _ClassVar[int]
    kind: str
    def __init__(self, kind: _Optional[str] = ...) -> None: ...

class WhyNodeRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class WhyAnswer(_message.Message):
    __slots__ = ("thing", "says", "chosen", "refusals", "holds", "reasons", "remedies")
    class ChosenEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class RefusalsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class RemediesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    THING_FIELD_NUMBER: _ClassVar[int]
    SAYS_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    REMEDIES_FIELD_NUMBER: _ClassVar[int]
    thing: str
    says: str
    chosen: _containers.ScalarMap[str, str]
    refusals: _containers.ScalarMap[str, str]
    holds: _containers.RepeatedScalarFieldContainer[str]
    reasons: _containers.RepeatedScalarFieldContainer[str]
    remedies: _containers.ScalarMap[str, str]
    def __init__(self, thing: _Optional[str] = ..., says: _Optional[str] = ..., chosen: _Optional[_Mapping[str, str]] = ..., refusals: _Optional[_Mapping[str, str]] = ..., holds: _Optional[_Iterable[str]] = ..., reasons: _Optional[_Iterable[str]] = ..., remedies: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ListEventsRequest(_message.Message):
    __slots__ = ("since", "until", "kinds", "node", "limit", "token")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    kinds: _containers.RepeatedScalarFieldContainer[str]
    node: str
    limit: int
    token: str
    def __init__(self, since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., kinds: _Optional[_Iterable[str]] = ..., node: _Optional[str] = ..., limit: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class EventList(_message.Message):
    __slots__ = ("events", "revision", "next")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    revision: int
    next: str
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., revision: _Optional[int] = ..., next: _Optional[str] = ...) -> None: ...

class WatchEventsRequest(_message.Message):
    __slots__ = ("kinds", "node", "limit", "after")
    KINDS_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedScalarFieldContainer[str]
    node: str
    limit: int
    after: int
    def __init__(self, kinds: _Optional[_Iterable[str]] = ..., node: _Optional[str] = ..., limit: _Optional[int] = ..., after: _Optional[int] = ...) -> None: ...

class Happened(_message.Message):
    __slots__ = ("event", "resume")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    event: Event
    resume: int
    def __init__(self, event: _Optional[_Union[Event, _Mapping]] = ..., resume: _Optional[int] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("id", "at", "kind", "subject", "node", "severity", "text", "fields_json")
    ID_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FIELDS_JSON_FIELD_NUMBER: _ClassVar[int]
    id: str
    at: _timestamp_pb2.Timestamp
    kind: str
    subject: str
    node: str
    severity: str
    text: str
    fields_json: str
    def __init__(self, id: _Optional[str] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., kind: _Optional[str] = ..., subject: _Optional[str] = ..., node: _Optional[str] = ..., severity: _Optional[str] = ..., text: _Optional[str] = ..., fields_json: _Optional[str] = ...) -> None: ...

class PlanRequest(_message.Message):
    __slots__ = ("rebalance", "without", "add", "like")
    REBALANCE_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_FIELD_NUMBER: _ClassVar[int]
    ADD_FIELD_NUMBER: _ClassVar[int]
    LIKE_FIELD_NUMBER: _ClassVar[int]
    rebalance: bool
    without: _containers.RepeatedScalarFieldContainer[str]
    add: int
    like: str
    def __init__(self, rebalance: bool = ..., without: _Optional[_Iterable[str]] = ..., add: _Optional[int] = ..., like: _Optional[str] = ...) -> None: ...

class PlanAnswer(_message.Message):
    __slots__ = ("moves", "pending", "nodes")
    class PendingEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MOVES_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    moves: _containers.RepeatedCompositeFieldContainer[PlannedMove]
    pending: _containers.ScalarMap[str, str]
    nodes: _containers.RepeatedCompositeFieldContainer[PlannedNode]
    def __init__(self, moves: _Optional[_Iterable[_Union[PlannedMove, _Mapping]]] = ..., pending: _Optional[_Mapping[str, str]] = ..., nodes: _Optional[_Iterable[_Union[PlannedNode, _Mapping]]] = ...) -> None: ...

class PlannedMove(_message.Message):
    __slots__ = ("task", "source", "target", "why")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    task: str
    source: str
    target: str
    why: str
    def __init__(self, task: _Optional[str] = ..., source: _Optional[str] = ..., target: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class PlannedNode(_message.Message):
    __slots__ = ("id", "slots", "before", "after")
    ID_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    id: str
    slots: int
    before: int
    after: int
    def __init__(self, id: _Optional[str] = ..., slots: _Optional[int] = ..., before: _Optional[int] = ..., after: _Optional[int] = ...) -> None: ...

class Hook(_message.Message):
    __slots__ = ("name", "events", "url", "command", "timeout", "retries", "per_minute", "enabled", "created", "waiting", "delivered", "failed", "error", "status")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    name: str
    events: _containers.RepeatedScalarFieldContainer[str]
    url: str
    command: _containers.RepeatedScalarFieldContainer[str]
    timeout: _duration_pb2.Duration
    retries: int
    per_minute: int
    enabled: bool
    created: _timestamp_pb2.Timestamp
    waiting: int
    delivered: int
    failed: int
    error: str
    status: HookStatus
    def __init__(self, name: _Optional[str] = ..., events: _Optional[_Iterable[str]] = ..., url: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., timeout: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., retries: _Optional[int] = ..., per_minute: _Optional[int] = ..., enabled: bool = ..., created: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., waiting: _Optional[int] = ..., delivered: _Optional[int] = ..., failed: _Optional[int] = ..., error: _Optional[str] = ..., status: _Optional[_Union[HookStatus, _Mapping]] = ...) -> None: ...

class HookStatus(_message.Message):
    __slots__ = ("delivered", "failed", "last", "last_at", "error", "output")
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    delivered: int
    failed: int
    last: str
    last_at: _timestamp_pb2.Timestamp
    error: str
    output: str
    def __init__(self, delivered: _Optional[int] = ..., failed: _Optional[int] = ..., last: _Optional[str] = ..., last_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[str] = ..., output: _Optional[str] = ...) -> None: ...

class ListHooksRequest(_message.Message):
    __slots__ = ("limit", "token")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    limit: int
    token: str
    def __init__(self, limit: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class GetHookRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class HookList(_message.Message):
    __slots__ = ("hooks", "next")
    HOOKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    hooks: _containers.RepeatedCompositeFieldContainer[Hook]
    next: str
    def __init__(self, hooks: _Optional[_Iterable[_Union[Hook, _Mapping]]] = ..., next: _Optional[str] = ...) -> None: ...

class CreateHookRequest(_message.Message):
    __slots__ = ("name", "events", "url", "command", "timeout", "retries", "per_minute", "enabled")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    name: str
    events: _containers.RepeatedScalarFieldContainer[str]
    url: str
    command: _containers.RepeatedScalarFieldContainer[str]
    timeout: _duration_pb2.Duration
    retries: int
    per_minute: int
    enabled: bool
    def __init__(self, name: _Optional[str] = ..., events: _Optional[_Iterable[str]] = ..., url: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., timeout: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., retries: _Optional[int] = ..., per_minute: _Optional[int] = ..., enabled: bool = ...) -> None: ...

class EnableHookRequest(_message.Message):
    __slots__ = ("name", "enabled")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    name: str
    enabled: bool
    def __init__(self, name: _Optional[str] = ..., enabled: bool = ...) -> None: ...

class EnableHookAnswer(_message.Message):
    __slots__ = ("name", "enabled")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    name: str
    enabled: bool
    def __init__(self, name: _Optional[str] = ..., enabled: bool = ...) -> None: ...

class DeleteHookRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteHookAnswer(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class TestHookRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class TestHookAnswer(_message.Message):
    __slots__ = ("hook", "event", "error", "output")
    HOOK_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    hook: str
    event: str
    error: str
    output: str
    def __init__(self, hook: _Optional[str] = ..., event: _Optional[str] = ..., error: _Optional[str] = ..., output: _Optional[str] = ...) -> None: ...
