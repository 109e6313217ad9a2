from google.protobuf import empty_pb2 as _empty_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ResourceSpec(_message.Message):
    __slots__ = ("id", "name", "assigned_node", "creation_time")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_NODE_FIELD_NUMBER: _ClassVar[int]
    CREATION_TIME_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    assigned_node: str
    creation_time: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., assigned_node: _Optional[str] = ..., creation_time: _Optional[int] = ...) -> None: ...

class NodeSpec(_message.Message):
    __slots__ = ("id", "Address")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    id: str
    Address: str
    def __init__(self, id: _Optional[str] = ..., Address: _Optional[str] = ...) -> None: ...
