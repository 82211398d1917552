"""The namespace ``T`` of scripts: ``from ir.script import tir as T``.

Outside of scripts its expression functions (``T.exp``, ``T.int32``) build nodes, its decorators parse functions, and its
declarations work inside an :class:`ir.script.ir_builder.IRBuilder`.
"""

# ruff: noqa: F401  what is imported here is the namespace
from __future__ import annotations

import difflib as _difflib
import functools as _functools
from collections.abc import Callable
from inspect import signature as _signature
from typing import Any

import numpy as _np

from .. import dtype as _dt
from ..error import IRTypeError, IRValueError
from ..op import Op as _Op
from ..tir import (
    op as _op,
)
from ..tir import (
    operators as _operators,
)
from ..tir.buffer import Buffer as _BufferNode
from ..tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CommReducer,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    ProducerLoad,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
)
from ..tir.index_map import IndexMap
from ..tir.intrinsic.declaration import INTRINSICS as _INTRINSICS
from ..tir.intrinsic.declaration import Intrinsic as _Intrinsic
from ..tir.operators import cast as _cast
from ..tir.operators import const as _const
from ..tir.operators import convert as _convert
from ..tir.stmt import BufferRegion
from ..type import PointerType, PrimType
from .ir_builder.tir_access import BufferType as Buffer
from .ir_builder.tir_access import buffer, buffer_decl
from .ir_builder.tir_access import region_as_load as _region_as_load
from .ir_builder.tir_functions import (
    Assert,
    Else,
    If,
    Let,
    LetStmt,
    Then,
    While,
    alloc_buffer,
    allocate,
    allocate_const,
    arg,
    attr,
    axis,
    block,
    block_attr,
    buffer_store,
    comm_reducer,
    decl_buffer,
    env_thread,
    evaluate,
    func_attr,
    func_name,
    func_ret,
    grid,
    index_map,
    init,
    iter_var,
    launch_thread,
    let,
    match_buffer,
    parallel,
    reads,
    realize,
    serial,
    target,
    thread_binding,
    unroll,
    vectorized,
    where,
    writes,
)
from .ir_builder.tir_functions import call_of as _call_of
from .parser.tir_entry import macro, meta_var, prim_func
from .parser.tir_entry import macro as inline


class DtypeFunction:
    """A dtype in the namespace: ``T.int32`` annotates, ``T.int32()`` is a new variable, ``T.int32(x)`` a constant or cast."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def __call__(self, expr: Any = None, *, is_size_var: bool = False) -> Any:
        if expr is None:
            return (SizeVar if is_size_var else Var)("", self.dtype)
        if isinstance(expr, BufferRegion):
            expr = _region_as_load(expr)
        if isinstance(expr, str):
            if expr not in ("inf", "-inf", "nan"):
                raise IRTypeError(f"T.{self.dtype}: expected a number or 'inf', '-inf', 'nan', got {expr!r}")
            return FloatImm(self.dtype, float(expr))
        if isinstance(expr, PrimExpr):
            return _cast(self.dtype, expr)
        if isinstance(expr, _BufferNode):
            raise IRTypeError(
                f"T.{self.dtype}: expected a number or expression, got buffer {expr.name}; index it first"
            )
        self._check_holds(expr)
        return _const(expr, self.dtype)

    def _check_holds(self, number: Any) -> None:
        if not _dt.is_integral(self.dtype) or _dt.is_bool(self.dtype):
            return
        least, greatest = _dt.integer_range(self.dtype)
        if isinstance(number, int | float | _np.number) and not least <= number <= greatest:
            raise IRValueError(
                f"T.{self.dtype}: {number} does not fit; it holds the numbers from {least} to {greatest}"
            )

    def __repr__(self) -> str:
        return f"T.{self.dtype}"


class _HandleFunction(DtypeFunction):
    """``T.handle`` annotates; ``T.handle("float32", "shared")`` is a typed pointer variable."""

    __slots__ = ()

    def __call__(
        self,
        dtype: Any = None,
        storage_scope: str = "global",
        *,
        is_size_var: bool = False,
        type_annotation: Any = None,
    ) -> Any:
        if is_size_var:
            raise IRTypeError("T.handle: a pointer is no size")
        if dtype is None:
            return Var("", "handle") if type_annotation is None else Var("", type_annotation)
        if isinstance(dtype, DtypeFunction):
            dtype = dtype.dtype
        if isinstance(dtype, PrimExpr):
            return _cast("handle", dtype)
        return Var("", PointerType(PrimType(dtype), storage_scope))


def ptr(dtype: str, storage_scope: str = "global", is_size_var: bool = False) -> Any:
    """A typed pointer variable."""
    if is_size_var:
        raise IRTypeError("T.ptr: a pointer is no size")
    return Var("", PointerType(PrimType(dtype), storage_scope))


buffer_var = Ptr = ptr


def var(dtype: str, name: str = "") -> Var:
    """A new variable."""
    return Var(name, dtype)


_NAMESPACE = globals()
for _name in _dt.SCALARS.keys() - {"bool", "handle", "void"}:
    _NAMESPACE[_name] = DtypeFunction(_name)
    for _lanes in (2, 4, 8, 16, 32, 64):
        _NAMESPACE[f"{_name}x{_lanes}"] = DtypeFunction(f"{_name}x{_lanes}")
boolean = DtypeFunction("bool")
handle = _HandleFunction("handle")
void = DtypeFunction("void")
_NAMESPACE["bool"] = boolean
for _lanes in (2, 4, 8, 16, 32, 64):
    _NAMESPACE[f"boolx{_lanes}"] = DtypeFunction(f"boolx{_lanes}")


_INSTEAD = {
    "print": 'call a function that is registered with ir.register_func, as in T.call_packed("name", ...)'
}
"""By a name that people look for: what to write."""


def __getattr__(name: str) -> Any:
    """Dtypes with unusual lanes (``T.float32x3``) and intrinsics that were registered later."""
    try:
        _dt.parse(name)
    except IRTypeError:
        pass
    else:
        return DtypeFunction(name)
    record = _INTRINSICS.get(f"tir.{name}")
    if record is not None:
        return _script_function(record)
    if f"tir.{name}" in _Op.registry:
        return _with_dtype(f"tir.{name}")
    if name in _INSTEAD:
        raise AttributeError(f"the namespace T has no {name!r}; {_INSTEAD[name]}")
    close = _difflib.get_close_matches(name, [key for key in _NAMESPACE if not key.startswith("_")], 1)
    hint = f"; did you mean T.{close[0]}?" if close else ""
    raise AttributeError(f"the namespace T has no {name!r}{hint}")


def _dtype_of(value: Any) -> Any:
    return value.dtype if isinstance(value, DtypeFunction) else value


def _with_dtype(op_name: str) -> Callable[..., Any]:
    """The script function of an operator whose calls begin with the dtype of the result, or end with ``dtype=...``."""

    def build(*args: Any, dtype: Any = None) -> Call:
        if dtype is None:
            dtype, *rest = args
            return _call_of(_dtype_of(dtype), op_name, rest)
        return _call_of(_dtype_of(dtype), op_name, args)

    build.__name__ = build.__qualname__ = op_name.removeprefix("tir.")
    build.__doc__ = f"Call ``{op_name}``; the first argument is the dtype of the result."
    return build


def _lifted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function for arguments that may be regions (``A[0:4]`` is a vector where a value is expected).

    Older programs repeat the dtype of the result by keyword at the end; another one is refused.
    """
    parameters = list(_signature(function).parameters)
    leads, takes = parameters[:1] == ["dtype"], "dtype" in parameters

    @_functools.wraps(function)
    def build(*args: Any, **kwargs: Any) -> Any:
        repeated = None
        if kwargs and "dtype" in kwargs:
            dtype = _dtype_of(kwargs.pop("dtype"))
            if leads:
                args = (dtype, *args)
            elif takes:
                kwargs["dtype"] = dtype
            else:
                repeated = dtype
        for item in args:
            if item.__class__ is BufferRegion:
                args = tuple(_region_as_load(x) if isinstance(x, BufferRegion) else x for x in args)
                break
        result = function(*args, **kwargs)
        if repeated is not None and result.dtype != repeated:
            raise IRTypeError(f"{function.__name__}: the result is {result.dtype}, not dtype={repeated!r}")
        return result

    return build


def _script_function(record: _Intrinsic) -> Callable[..., Any]:
    """What an intrinsic is in scripts: its builder, or, where only the caller knows the dtype, a call that begins with it."""
    return _with_dtype(record.op_name) if record.dtype_first else _lifted(record.build)


for _record in _INTRINSICS.values():
    _NAMESPACE[_record.name] = _NAMESPACE[_record.script_name] = _script_function(_record)
_FUNCTIONS = {name: getattr(_op, name) for name in vars(_op)["__all__"]}
_FUNCTIONS |= {name: getattr(_operators, name) for name in _operators.FUNCTIONS}
for _name, _function in _FUNCTIONS.items():
    if _name not in _NAMESPACE and _name not in ("CallEffectKind", "sum", "reduce_axis"):
        _NAMESPACE[_name] = _lifted(_function)


def cast(*args: Any) -> Any:
    """``T.cast(value, dtype)`` as in Python's order; ``T.cast(dtype, value)`` is understood too."""
    value, dtype = args if not isinstance(args[0], str) else (args[1], args[0])
    return _cast(dtype.dtype if isinstance(dtype, DtypeFunction) else dtype, _lift_value(value))


def _lift_value(value: Any) -> Any:
    return _region_as_load(value) if isinstance(value, BufferRegion) else value


def broadcast(value: Any, lanes: int) -> Broadcast:
    """A vector of copies."""
    return Broadcast(_convert(value), lanes)


def ramp(base: Any, stride: Any, lanes: int) -> Ramp:
    """The vector ``base, base + stride, ...``."""
    return Ramp(base, stride, lanes)


def reinterpret(*args: Any, dtype: Any = None) -> PrimExpr:
    """``T.reinterpret(dtype, value)``: the bits of a value as another dtype."""
    if dtype is not None:
        args = (_dtype_of(dtype), *args)
    kind, value = args if isinstance(args[0], str | DtypeFunction) else (args[1], args[0])
    return _call_of(_dtype_of(kind), "tir.reinterpret", (value,))


truncdiv = _NAMESPACE["truncdiv"]
vectorize = vectorized
unrolled = unroll

__all__ = [
    name for name in _NAMESPACE if not name.startswith("_") and name not in ("annotations", "Any", "Callable")
]
