from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListTokensRequest(_message.Message):
    __slots__ = ("limit", "token")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    limit: int
    token: str
    def __init__(self, limit: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class GetTokenRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class TokenList(_message.Message):
    __slots__ = ("tokens", "next")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[Token]
    next: str
    def __init__(self, tokens: _Optional[_Iterable[_Union[Token, _Mapping]]] = ..., next: _Optional[str] = ...) -> None: ...

class Token(_message.Message):
    __slots__ = ("name", "access", "made", "by", "expires", "revoked", "is_good")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    MADE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    IS_GOOD_FIELD_NUMBER: _ClassVar[int]
    name: str
    access: str
    made: _timestamp_pb2.Timestamp
    by: str
    expires: _timestamp_pb2.Timestamp
    revoked: _timestamp_pb2.Timestamp
    is_good: bool
    def __init__(self, name: _Optional[str] = ..., access: _Optional[str] = ..., made: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., by: _Optional[str] = ..., expires: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., revoked: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., is_good: bool = ...) -> None: ...

class CreateTokenRequest(_message.Message):
    __slots__ = ("name", "role", "expires_in")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: str
    expires_in: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., role: _Optional[str] = ..., expires_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RotateTokenRequest(_message.Message):
    __slots__ = ("name", "keep_old", "expires_in")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEEP_OLD_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    name: str
    keep_old: _duration_pb2.Duration
    expires_in: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., keep_old: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., expires_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RevokeTokenRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class NewToken(_message.Message):
    __slots__ = ("name", "access", "expires", "token")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    access: str
    expires: _timestamp_pb2.Timestamp
    token: str
    def __init__(self, name: _Optional[str] = ..., access: _Optional[str] = ..., expires: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., token: _Optional[str] = ...) -> None: ...

class ReadAuditRequest(_message.Message):
    __slots__ = ("limit", "by", "refused", "since", "token")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    limit: int
    by: str
    refused: bool
    since: _timestamp_pb2.Timestamp
    token: str
    def __init__(self, limit: _Optional[int] = ..., by: _Optional[str] = ..., refused: bool = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., token: _Optional[str] = ...) -> None: ...

class AuditLines(_message.Message):
    __slots__ = ("entries", "next")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[AuditLine]
    next: str
    def __init__(self, entries: _Optional[_Iterable[_Union[AuditLine, _Mapping]]] = ..., next: _Optional[str] = ...) -> None: ...

class AuditLine(_message.Message):
    __slots__ = ("number", "hash", "id", "at", "by", "origin", "what", "changes", "refused", "count")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    number: int
    hash: str
    id: str
    at: _timestamp_pb2.Timestamp
    by: str
    origin: str
    what: str
    changes: _containers.RepeatedCompositeFieldContainer[AuditChange]
    refused: str
    count: int
    def __init__(self, number: _Optional[int] = ..., hash: _Optional[str] = ..., id: _Optional[str] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., by: _Optional[str] = ..., origin: _Optional[str] = ..., what: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[AuditChange, _Mapping]]] = ..., refused: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class AuditChange(_message.Message):
    __slots__ = ("key", "before", "after")
    KEY_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    key: str
    before: str
    after: str
    def __init__(self, key: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ...) -> None: ...

class VerifyAuditRequest(_message.Message):
    __slots__ = ("noted",)
    NOTED_FIELD_NUMBER: _ClassVar[int]
    noted: str
    def __init__(self, noted: _Optional[str] = ...) -> None: ...

class AuditVerdict(_message.Message):
    __slots__ = ("is_whole", "links", "waiting", "head", "flaw", "doubt")
    IS_WHOLE_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    FLAW_FIELD_NUMBER: _ClassVar[int]
    DOUBT_FIELD_NUMBER: _ClassVar[int]
    is_whole: bool
    links: int
    waiting: int
    head: str
    flaw: str
    doubt: str
    def __init__(self, is_whole: bool = ..., links: _Optional[int] = ..., waiting: _Optional[int] = ..., head: _Optional[str] = ..., flaw: _Optional[str] = ..., doubt: _Optional[str] = ...) -> None: ...
