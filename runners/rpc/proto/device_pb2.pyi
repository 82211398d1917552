from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeviceDescription(_message.Message):
    __slots__ = ("key", "name", "target", "hardware", "fingerprint", "version", "protocol", "confinement")
    KEY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    HARDWARE_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CONFINEMENT_FIELD_NUMBER: _ClassVar[int]
    key: str
    name: str
    target: str
    hardware: str
    fingerprint: str
    version: str
    protocol: int
    confinement: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., name: _Optional[str] = ..., target: _Optional[str] = ..., hardware: _Optional[str] = ..., fingerprint: _Optional[str] = ..., version: _Optional[str] = ..., protocol: _Optional[int] = ..., confinement: _Optional[_Iterable[str]] = ...) -> None: ...

class OpenRequest(_message.Message):
    __slots__ = ("ticket", "client", "timeout_sec", "protocol")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SEC_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ticket: str
    client: str
    timeout_sec: float
    protocol: int
    def __init__(self, ticket: _Optional[str] = ..., client: _Optional[str] = ..., timeout_sec: _Optional[float] = ..., protocol: _Optional[int] = ...) -> None: ...

class SessionState(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class ContentKeys(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keys: _Optional[_Iterable[str]] = ...) -> None: ...

class ContentPart(_message.Message):
    __slots__ = ("key", "size", "data")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    key: str
    size: int
    data: bytes
    def __init__(self, key: _Optional[str] = ..., size: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class BuildRequest(_message.Message):
    __slots__ = ("program", "target", "timeout_sec")
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SEC_FIELD_NUMBER: _ClassVar[int]
    program: str
    target: str
    timeout_sec: float
    def __init__(self, program: _Optional[str] = ..., target: _Optional[str] = ..., timeout_sec: _Optional[float] = ...) -> None: ...

class BuildReply(_message.Message):
    __slots__ = ("kind", "error", "code", "build_secs", "metrics")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    KIND_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    BUILD_SECS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    error: str
    code: str
    build_secs: float
    metrics: _containers.ScalarMap[str, float]
    def __init__(self, kind: _Optional[str] = ..., error: _Optional[str] = ..., code: _Optional[str] = ..., build_secs: _Optional[float] = ..., metrics: _Optional[_Mapping[str, float]] = ...) -> None: ...

class Evaluator(_message.Message):
    __slots__ = ("number", "repeat", "min_repeat_ms", "enable_cpu_cache_flush", "weight_distance")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REPEAT_FIELD_NUMBER: _ClassVar[int]
    MIN_REPEAT_MS_FIELD_NUMBER: _ClassVar[int]
    ENABLE_CPU_CACHE_FLUSH_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DISTANCE_FIELD_NUMBER: _ClassVar[int]
    number: int
    repeat: int
    min_repeat_ms: int
    enable_cpu_cache_flush: bool
    weight_distance: int
    def __init__(self, number: _Optional[int] = ..., repeat: _Optional[int] = ..., min_repeat_ms: _Optional[int] = ..., enable_cpu_cache_flush: bool = ..., weight_distance: _Optional[int] = ...) -> None: ...

class Settings(_message.Message):
    __slots__ = ("evaluator", "timeout_sec", "cut_ratio", "cooldown_sec", "reference_timeout_sec", "measure_energy")
    EVALUATOR_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SEC_FIELD_NUMBER: _ClassVar[int]
    CUT_RATIO_FIELD_NUMBER: _ClassVar[int]
    COOLDOWN_SEC_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_TIMEOUT_SEC_FIELD_NUMBER: _ClassVar[int]
    MEASURE_ENERGY_FIELD_NUMBER: _ClassVar[int]
    evaluator: Evaluator
    timeout_sec: float
    cut_ratio: float
    cooldown_sec: float
    reference_timeout_sec: float
    measure_energy: bool
    def __init__(self, evaluator: _Optional[_Union[Evaluator, _Mapping]] = ..., timeout_sec: _Optional[float] = ..., cut_ratio: _Optional[float] = ..., cooldown_sec: _Optional[float] = ..., reference_timeout_sec: _Optional[float] = ..., measure_energy: bool = ...) -> None: ...

class Argument(_message.Message):
    __slots__ = ("dtype", "shape")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ...) -> None: ...

class MeasureRequest(_message.Message):
    __slots__ = ("id", "code", "reference", "target", "settings", "best_secs", "best_noise", "confirm_later", "again", "args_info", "has_args_info")
    ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    BEST_SECS_FIELD_NUMBER: _ClassVar[int]
    BEST_NOISE_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_LATER_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    ARGS_INFO_FIELD_NUMBER: _ClassVar[int]
    HAS_ARGS_INFO_FIELD_NUMBER: _ClassVar[int]
    id: str
    code: str
    reference: str
    target: str
    settings: Settings
    best_secs: float
    best_noise: float
    confirm_later: bool
    again: bool
    args_info: _containers.RepeatedCompositeFieldContainer[Argument]
    has_args_info: bool
    def __init__(self, id: _Optional[str] = ..., code: _Optional[str] = ..., reference: _Optional[str] = ..., target: _Optional[str] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ..., best_secs: _Optional[float] = ..., best_noise: _Optional[float] = ..., confirm_later: bool = ..., again: bool = ..., args_info: _Optional[_Iterable[_Union[Argument, _Mapping]]] = ..., has_args_info: bool = ...) -> None: ...

class MeasureReply(_message.Message):
    __slots__ = ("kind", "error", "run_secs", "cut", "verified", "baseline_secs", "check", "check_secs", "confirmed", "metrics", "can_confirm")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    KIND_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RUN_SECS_FIELD_NUMBER: _ClassVar[int]
    CUT_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_FIELD_NUMBER: _ClassVar[int]
    BASELINE_SECS_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    CHECK_SECS_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    CAN_CONFIRM_FIELD_NUMBER: _ClassVar[int]
    kind: str
    error: str
    run_secs: _containers.RepeatedScalarFieldContainer[float]
    cut: bool
    verified: bool
    baseline_secs: float
    check: str
    check_secs: float
    confirmed: bool
    metrics: _containers.ScalarMap[str, float]
    can_confirm: bool
    def __init__(self, kind: _Optional[str] = ..., error: _Optional[str] = ..., run_secs: _Optional[_Iterable[float]] = ..., cut: bool = ..., verified: bool = ..., baseline_secs: _Optional[float] = ..., check: _Optional[str] = ..., check_secs: _Optional[float] = ..., confirmed: bool = ..., metrics: _Optional[_Mapping[str, float]] = ..., can_confirm: bool = ...) -> None: ...

class ConfirmRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class Rival(_message.Message):
    __slots__ = ("code", "confirmed")
    CODE_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    code: str
    confirmed: bool
    def __init__(self, code: _Optional[str] = ..., confirmed: bool = ...) -> None: ...

class CompareRequest(_message.Message):
    __slots__ = ("rivals", "reference", "target", "settings")
    RIVALS_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    rivals: _containers.RepeatedCompositeFieldContainer[Rival]
    reference: str
    target: str
    settings: Settings
    def __init__(self, rivals: _Optional[_Iterable[_Union[Rival, _Mapping]]] = ..., reference: _Optional[str] = ..., target: _Optional[str] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ...) -> None: ...

class CompareReply(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[MeasureReply]
    def __init__(self, results: _Optional[_Iterable[_Union[MeasureReply, _Mapping]]] = ...) -> None: ...
