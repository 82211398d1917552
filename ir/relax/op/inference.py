"""What struct-info inference of many operators shares: checked arguments, broadcasting, axes, sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import dtype as dt
from ...arith.analyzer import Analyzer
from ...arith.const_int_bound import ConstIntBound
from ...error import IRTypeError, IRValueError
from ...tir.expr import IntImm, PrimExpr
from ..expr import Call, PrimValue, ShapeExpr
from ..struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ..struct_info_lattice import prove_dim_equal

Dims = tuple[PrimExpr, ...]


def op_name(call: Call) -> str:
    """The operator's name for messages."""
    return getattr(call.op, "name", str(call.op))


def fail(call: Call, message: str) -> IRValueError:
    """An error about the values of a call's arguments."""
    return IRValueError(f"{op_name(call)}: {message}")


def wrong_kind(call: Call, message: str) -> IRTypeError:
    """An error about the kinds or dtypes of a call's arguments."""
    return IRTypeError(f"{op_name(call)}: {message}")


def check_arity(call: Call, count: int) -> None:
    """Raise unless the call has ``count`` arguments."""
    if len(call.args) != count:
        raise fail(call, f"expected {count} arguments, got {len(call.args)}")


def tensor_arg(call: Call, index: int, name: str | None = None) -> TensorStructInfo:
    """The struct info of an argument that must be a tensor."""
    if index >= len(call.args):
        raise fail(call, f"expected at least {index + 1} arguments, got {len(call.args)}")
    info = call.args[index].struct_info
    if not isinstance(info, TensorStructInfo):
        label = f"argument {name!r}" if name else f"argument {index}"
        raise wrong_kind(call, f"{label} must be a tensor, got {info}")
    return info


def tensor_args(call: Call, count: int) -> list[TensorStructInfo]:
    """The struct infos of ``count`` arguments, all tensors."""
    check_arity(call, count)
    return [tensor_arg(call, index) for index in range(count)]


def tuple_of_tensors(call: Call, index: int) -> list[TensorStructInfo]:
    """The struct infos of an argument that must be a tuple of tensors."""
    info = call.args[index].struct_info
    if not isinstance(info, TupleStructInfo):
        raise wrong_kind(call, f"argument {index} must be a tuple of tensors, got {info}")
    for position, item in enumerate(info.fields):
        if not isinstance(item, TensorStructInfo):
            raise wrong_kind(call, f"field {position} of argument {index} must be a tensor, got {item}")
    return list(info.fields)  # type: ignore[arg-type]


def shape_arg(call: Call, index: int) -> ShapeStructInfo:
    """The struct info of an argument that must be a shape."""
    info = call.args[index].struct_info
    if not isinstance(info, ShapeStructInfo):
        raise wrong_kind(call, f"argument {index} must be a shape, got {info}")
    return info


def shape_target(call: Call, index: int) -> Any:
    """What to put as the shape of a result that has the shape given as argument: a ShapeExpr, a variable, or None."""
    info = shape_arg(call, index)
    arg = call.args[index]
    if isinstance(arg, ShapeExpr):
        return arg
    if info.values is not None:
        return ShapeExpr(info.values)
    return arg if info.ndim != -1 or info.values is None else None


def prim_arg(call: Call, index: int) -> PrimExpr | None:
    """The value of a scalar argument when it is known."""
    arg = call.args[index]
    if isinstance(arg, PrimValue):
        return arg.value
    info = arg.struct_info
    if not isinstance(info, PrimStructInfo):
        raise wrong_kind(call, f"argument {index} must be a scalar value, got {info}")
    return info.value


def as_int(value: Any) -> int | None:
    """The integer of a constant extent, else None."""
    return value.value if isinstance(value, IntImm) else None


def int64(value: int) -> IntImm:
    """An int64 constant."""
    return IntImm("int64", value)


def simplify(expr: Any, builder: Any = None) -> PrimExpr:
    """The expression simplified by the arithmetic analyzer; constants and variables come back at once.

    With a builder, the extents of parameters in its scope are known not to be negative.
    """
    if isinstance(expr, int):
        return int64(expr)
    if not list(_children(expr)):
        return expr
    return _analyzer(builder).simplify(expr)


def is_non_negative(expr: PrimExpr, builder: Any) -> bool:
    """Whether an expression of extents is known not to be negative."""
    return _analyzer(builder).can_prove(expr >= 0)


def _analyzer(builder: Any) -> Analyzer:
    analyzer = Analyzer()
    if builder is not None:
        for var in builder.scope_extents():
            analyzer.update(var, _EXTENT)
    return analyzer


_EXTENT = ConstIntBound(0, ConstIntBound.POS_INF)


def _children(expr: Any) -> list[Any]:
    found: list[Any] = []
    expr._visit_children(found.append)
    return found


def same_as(info: TensorStructInfo, dtype: str | None = None) -> TensorStructInfo:
    """A tensor of the same shape and device, with another dtype if given."""
    if dtype is None or dtype == info.dtype:
        return (
            info if info.span is None else TensorStructInfo(info.shape, info.dtype, info.vdevice, info.ndim)
        )
    return TensorStructInfo(info.shape, dtype, info.vdevice, info.ndim)


def common_vdevice(call: Call, infos: Sequence[TensorStructInfo]) -> Any:
    """The device that the tensors name, if any does; raises when two differ."""
    found = None
    for info in infos:
        if info.vdevice is None:
            continue
        if found is not None and found != info.vdevice:
            raise wrong_kind(
                call, f"tensors are on different devices: {found} and {info.vdevice}; use to_vdevice"
            )
        found = info.vdevice
    return found


def common_dtype(call: Call, infos: Sequence[TensorStructInfo | PrimStructInfo]) -> str:
    """The dtype that all operands share; "" when one is unknown; raises when two differ."""
    dtypes = {info.dtype for info in infos}
    known = sorted(dtypes - {""})
    if len(known) > 1:
        raise wrong_kind(
            call, f"operands must have one dtype, got {' and '.join(known)}; convert one with astype"
        )
    return "" if "" in dtypes else known[0]


def require_float(call: Call, info: TensorStructInfo, name: str = "the input") -> None:
    """Raise when a known dtype is not a floating-point one."""
    if info.dtype and not dt.is_float(info.dtype):
        raise wrong_kind(call, f"{name} must have a float dtype, got {info.dtype}")


def require_number(call: Call, info: StructInfo, name: str = "the input") -> None:
    """Raise when a known dtype is bool: of the arithmetic of numbers, bools have ``add`` and ``multiply`` (or and and)."""
    dtype = info.dtype if isinstance(info, TensorStructInfo | PrimStructInfo) else ""
    if dtype and dt.is_bool(dtype):
        raise wrong_kind(call, f"{name} must have a number dtype, got bool; convert it with astype")


def require_dtype(call: Call, info: TensorStructInfo, accepts: Callable[[str], bool], what: str) -> None:
    """Raise when a known dtype is not accepted."""
    if info.dtype and not accepts(info.dtype):
        raise wrong_kind(call, f"expected {what}, got {info.dtype}")


def require_ndim(call: Call, info: TensorStructInfo, ndim: int, name: str) -> None:
    """Raise when a known number of dimensions is another."""
    if info.ndim not in (-1, ndim):
        raise fail(call, f"{name} must have {ndim} dimensions, got {info.ndim}")


def broadcast_dims(call: Call, lhs: Sequence[PrimExpr], rhs: Sequence[PrimExpr]) -> Dims | None:
    """The extents of numpy-style broadcasting; None when symbolic extents leave it open; raises when they cannot match."""
    out: list[PrimExpr] = []
    longer, shorter = (lhs, rhs) if len(lhs) >= len(rhs) else (rhs, lhs)
    offset = len(longer) - len(shorter)
    for index, a in enumerate(longer):
        if index < offset:
            out.append(a)
            continue
        b = shorter[index - offset]
        if as_int(a) == 1:
            out.append(b)
        elif as_int(b) == 1 or prove_dim_equal(a, b):
            out.append(a)
        elif as_int(a) is not None and as_int(b) is not None:
            raise fail(
                call,
                f"shapes {show_dims(lhs)} and {show_dims(rhs)} cannot be broadcast: extents {as_int(a)} and"
                f" {as_int(b)} at dimension {index} differ and neither is 1",
            )
        else:
            return None
    return tuple(out)


def show_dims(dims: Sequence[Any]) -> str:
    """A shape for messages."""
    return (
        "("
        + ", ".join(
            str(as_int(dim)) if as_int(dim) is not None else str(getattr(dim, "name", dim)) for dim in dims
        )
        + ")"
    )


def broadcast_tensors(call: Call, infos: Sequence[TensorStructInfo], dtype: str) -> TensorStructInfo:
    """The tensor that broadcasting all operands gives."""
    vdevice = common_vdevice(call, infos)
    if any(info.ndim == -1 for info in infos):
        return TensorStructInfo(None, dtype, vdevice)
    ndim = max(info.ndim for info in infos)
    first = infos[0].shape
    if first is not None and all(info.shape is first for info in infos):
        return TensorStructInfo(first, dtype, vdevice)
    dims: Dims | None = ()
    for info in infos:
        values = info.shape_values
        if values is None or dims is None:
            return TensorStructInfo(None, dtype, vdevice, ndim)
        dims = broadcast_dims(call, dims, values)
    return TensorStructInfo(dims, dtype, vdevice, ndim)


def normalize_axis(call: Call, ndim: int, axis: Any, name: str = "axis") -> int:
    """The axis counted from the front; raises when it is out of range."""
    value = int(getattr(axis, "value", axis))
    if not -ndim <= value < ndim:
        raise fail(call, f"{name} {value} is out of range for {ndim} dimensions")
    return value % ndim


def normalize_axes(call: Call, ndim: int, axes: Sequence[Any], name: str = "axis") -> list[int]:
    """Axes counted from the front; raises when one is out of range or given twice."""
    found = [normalize_axis(call, ndim, axis, name) for axis in axes]
    if len(set(found)) != len(found):
        raise fail(call, f"{name} {[int(getattr(a, 'value', a)) for a in axes]} names a dimension twice")
    return found


def product(dims: Sequence[PrimExpr]) -> PrimExpr:
    """The number of elements."""
    total: PrimExpr = int64(1)
    for dim in dims:
        total = total * dim
    return total


def infer_unary_arith(call: Call, builder: Any) -> StructInfo:
    """The operand's shape and dtype, which must be floating-point."""
    (info,) = tensor_args(call, 1)
    require_float(call, info)
    return same_as(info)


def infer_unary_any(call: Call, builder: Any) -> StructInfo:
    """The operand's shape and dtype."""
    (info,) = tensor_args(call, 1)
    return same_as(info)


def infer_unary_number(call: Call, builder: Any) -> StructInfo:
    """The operand's shape and dtype, which must not be bool."""
    (info,) = tensor_args(call, 1)
    require_number(call, info)
    return same_as(info)


def infer_unary_check(call: Call, builder: Any) -> StructInfo:
    """A bool tensor of the operand's shape."""
    (info,) = tensor_args(call, 1)
    return same_as(info, "bool")


def optional_dtype(dtype: str | None) -> str:
    """A dtype attribute that may be left open: None and "void" (as programs print it) are ""."""
    return "" if dtype is None or dtype == "void" else str(dtype)


def optional_int_tuple(value: Any) -> tuple[int, ...] | None:
    """Axis arguments: None, one integer, or several."""
    if value is None:
        return None
    if isinstance(value, int | IntImm):
        return (int(value),)
    return tuple(int(item) for item in value)
