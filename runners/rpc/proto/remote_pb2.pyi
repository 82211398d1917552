from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LoadRequest(_message.Message):
    __slots__ = ("content", "device", "name")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    content: str
    device: str
    name: str
    def __init__(self, content: _Optional[str] = ..., device: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class AllocateRequest(_message.Message):
    __slots__ = ("dtype", "shape", "device")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    device: str
    def __init__(self, dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., device: _Optional[str] = ...) -> None: ...

class ArrayPart(_message.Message):
    __slots__ = ("array", "begin", "data")
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    array: int
    begin: int
    data: bytes
    def __init__(self, array: _Optional[int] = ..., begin: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("array", "begin", "size")
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    array: int
    begin: int
    size: int
    def __init__(self, array: _Optional[int] = ..., begin: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class CopyRequest(_message.Message):
    __slots__ = ("source", "target")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    source: int
    target: int
    def __init__(self, source: _Optional[int] = ..., target: _Optional[int] = ...) -> None: ...

class FreeRequest(_message.Message):
    __slots__ = ("arrays", "programs")
    ARRAYS_FIELD_NUMBER: _ClassVar[int]
    PROGRAMS_FIELD_NUMBER: _ClassVar[int]
    arrays: _containers.RepeatedScalarFieldContainer[int]
    programs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, arrays: _Optional[_Iterable[int]] = ..., programs: _Optional[_Iterable[int]] = ...) -> None: ...

class CallRequest(_message.Message):
    __slots__ = ("program", "function", "arguments", "timeout_sec")
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SEC_FIELD_NUMBER: _ClassVar[int]
    program: int
    function: str
    arguments: _containers.RepeatedCompositeFieldContainer[Value]
    timeout_sec: float
    def __init__(self, program: _Optional[int] = ..., function: _Optional[str] = ..., arguments: _Optional[_Iterable[_Union[Value, _Mapping]]] = ..., timeout_sec: _Optional[float] = ...) -> None: ...

class TimeRequest(_message.Message):
    __slots__ = ("call", "number", "repeat", "min_repeat_ms", "cooldown_interval_ms", "repeats_to_cooldown")
    CALL_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REPEAT_FIELD_NUMBER: _ClassVar[int]
    MIN_REPEAT_MS_FIELD_NUMBER: _ClassVar[int]
    COOLDOWN_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    REPEATS_TO_COOLDOWN_FIELD_NUMBER: _ClassVar[int]
    call: CallRequest
    number: int
    repeat: int
    min_repeat_ms: int
    cooldown_interval_ms: int
    repeats_to_cooldown: int
    def __init__(self, call: _Optional[_Union[CallRequest, _Mapping]] = ..., number: _Optional[int] = ..., repeat: _Optional[int] = ..., min_repeat_ms: _Optional[int] = ..., cooldown_interval_ms: _Optional[int] = ..., repeats_to_cooldown: _Optional[int] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("failure", "program", "array", "part", "value", "times", "table", "nothing")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    NOTHING_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    program: ProgramInfo
    array: ArrayInfo
    part: ArrayPart
    value: Value
    times: Times
    table: str
    nothing: Nothing
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., program: _Optional[_Union[ProgramInfo, _Mapping]] = ..., array: _Optional[_Union[ArrayInfo, _Mapping]] = ..., part: _Optional[_Union[ArrayPart, _Mapping]] = ..., value: _Optional[_Union[Value, _Mapping]] = ..., times: _Optional[_Union[Times, _Mapping]] = ..., table: _Optional[str] = ..., nothing: _Optional[_Union[Nothing, _Mapping]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("kind", "message")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    message: str
    def __init__(self, kind: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ProgramInfo(_message.Message):
    __slots__ = ("program", "described")
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    program: int
    described: str
    def __init__(self, program: _Optional[int] = ..., described: _Optional[str] = ...) -> None: ...

class ArrayInfo(_message.Message):
    __slots__ = ("array", "dtype", "shape", "device")
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    array: int
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    device: str
    def __init__(self, array: _Optional[int] = ..., dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., device: _Optional[str] = ...) -> None: ...

class Value(_message.Message):
    __slots__ = ("given", "array", "elements", "integer", "real", "boolean", "text", "tuple", "nothing", "object")
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    REAL_FIELD_NUMBER: _ClassVar[int]
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TUPLE_FIELD_NUMBER: _ClassVar[int]
    NOTHING_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    given: int
    array: ArrayInfo
    elements: Elements
    integer: int
    real: float
    boolean: bool
    text: str
    tuple: Values
    nothing: Nothing
    object: ObjectInfo
    def __init__(self, given: _Optional[int] = ..., array: _Optional[_Union[ArrayInfo, _Mapping]] = ..., elements: _Optional[_Union[Elements, _Mapping]] = ..., integer: _Optional[int] = ..., real: _Optional[float] = ..., boolean: bool = ..., text: _Optional[str] = ..., tuple: _Optional[_Union[Values, _Mapping]] = ..., nothing: _Optional[_Union[Nothing, _Mapping]] = ..., object: _Optional[_Union[ObjectInfo, _Mapping]] = ...) -> None: ...

class ObjectInfo(_message.Message):
    __slots__ = ("object", "kind")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    object: int
    kind: str
    def __init__(self, object: _Optional[int] = ..., kind: _Optional[str] = ...) -> None: ...

class Elements(_message.Message):
    __slots__ = ("dtype", "shape", "data")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    def __init__(self, dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...

class Values(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, items: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class Times(_message.Message):
    __slots__ = ("secs",)
    SECS_FIELD_NUMBER: _ClassVar[int]
    secs: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, secs: _Optional[_Iterable[float]] = ...) -> None: ...

class Nothing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ProgramPart(_message.Message):
    __slots__ = ("is_first", "data")
    IS_FIRST_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    is_first: bool
    data: bytes
    def __init__(self, is_first: bool = ..., data: _Optional[bytes] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("load", "allocate", "write", "read", "copy", "free", "call", "time", "profile", "part")
    LOAD_FIELD_NUMBER: _ClassVar[int]
    ALLOCATE_FIELD_NUMBER: _ClassVar[int]
    WRITE_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    COPY_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    load: LoadRequest
    allocate: AllocateRequest
    write: ArrayPart
    read: ReadRequest
    copy: CopyRequest
    free: FreeRequest
    call: CallRequest
    time: TimeRequest
    profile: CallRequest
    part: ProgramPart
    def __init__(self, load: _Optional[_Union[LoadRequest, _Mapping]] = ..., allocate: _Optional[_Union[AllocateRequest, _Mapping]] = ..., write: _Optional[_Union[ArrayPart, _Mapping]] = ..., read: _Optional[_Union[ReadRequest, _Mapping]] = ..., copy: _Optional[_Union[CopyRequest, _Mapping]] = ..., free: _Optional[_Union[FreeRequest, _Mapping]] = ..., call: _Optional[_Union[CallRequest, _Mapping]] = ..., time: _Optional[_Union[TimeRequest, _Mapping]] = ..., profile: _Optional[_Union[CallRequest, _Mapping]] = ..., part: _Optional[_Union[ProgramPart, _Mapping]] = ...) -> None: ...
