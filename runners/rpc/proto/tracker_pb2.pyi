from runners.rpc.proto import device_pb2 as _device_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ServerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SERVER_STATE_UNSPECIFIED: _ClassVar[ServerState]
    FREE: _ClassVar[ServerState]
    RESERVED: _ClassVar[ServerState]
    BUSY: _ClassVar[ServerState]
SERVER_STATE_UNSPECIFIED: ServerState
FREE: ServerState
RESERVED: ServerState
BUSY: ServerState

class ServerReport(_message.Message):
    __slots__ = ("device", "address", "state", "client", "sessions", "busy_secs", "ticket")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    BUSY_SECS_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    device: _device_pb2.DeviceDescription
    address: str
    state: ServerState
    client: str
    sessions: int
    busy_secs: float
    ticket: str
    def __init__(self, device: _Optional[_Union[_device_pb2.DeviceDescription, _Mapping]] = ..., address: _Optional[str] = ..., state: _Optional[_Union[ServerState, str]] = ..., client: _Optional[str] = ..., sessions: _Optional[int] = ..., busy_secs: _Optional[float] = ..., ticket: _Optional[str] = ...) -> None: ...

class Ticket(_message.Message):
    __slots__ = ("ticket", "client")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    ticket: str
    client: str
    def __init__(self, ticket: _Optional[str] = ..., client: _Optional[str] = ...) -> None: ...

class AcquireRequest(_message.Message):
    __slots__ = ("key", "priority", "client")
    KEY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    key: str
    priority: int
    client: str
    def __init__(self, key: _Optional[str] = ..., priority: _Optional[int] = ..., client: _Optional[str] = ...) -> None: ...

class AcquireReply(_message.Message):
    __slots__ = ("ahead", "grant")
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    ahead: int
    grant: Grant
    def __init__(self, ahead: _Optional[int] = ..., grant: _Optional[_Union[Grant, _Mapping]] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("address", "ticket", "server")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    address: str
    ticket: str
    server: str
    def __init__(self, address: _Optional[str] = ..., ticket: _Optional[str] = ..., server: _Optional[str] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FleetServer(_message.Message):
    __slots__ = ("report", "silent_secs")
    REPORT_FIELD_NUMBER: _ClassVar[int]
    SILENT_SECS_FIELD_NUMBER: _ClassVar[int]
    report: ServerReport
    silent_secs: float
    def __init__(self, report: _Optional[_Union[ServerReport, _Mapping]] = ..., silent_secs: _Optional[float] = ...) -> None: ...

class FleetQueue(_message.Message):
    __slots__ = ("key", "waiting")
    KEY_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    key: str
    waiting: _containers.RepeatedCompositeFieldContainer[FleetRequest]
    def __init__(self, key: _Optional[str] = ..., waiting: _Optional[_Iterable[_Union[FleetRequest, _Mapping]]] = ...) -> None: ...

class FleetRequest(_message.Message):
    __slots__ = ("client", "priority", "waiting_secs")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    WAITING_SECS_FIELD_NUMBER: _ClassVar[int]
    client: str
    priority: int
    waiting_secs: float
    def __init__(self, client: _Optional[str] = ..., priority: _Optional[int] = ..., waiting_secs: _Optional[float] = ...) -> None: ...

class Fleet(_message.Message):
    __slots__ = ("servers", "queues", "version")
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    servers: _containers.RepeatedCompositeFieldContainer[FleetServer]
    queues: _containers.RepeatedCompositeFieldContainer[FleetQueue]
    version: str
    def __init__(self, servers: _Optional[_Iterable[_Union[FleetServer, _Mapping]]] = ..., queues: _Optional[_Iterable[_Union[FleetQueue, _Mapping]]] = ..., version: _Optional[str] = ...) -> None: ...
