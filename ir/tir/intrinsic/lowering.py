"""Lowerings that many intrinsics share: functions of LLVM, functions of the generated library, float32 for half floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import dtype as dt
from ..expr import IMMEDIATES, Call, Let, PrimExpr, Var
from ..operators import cast
from .calls import LIBRARY, call_llvm_pure_intrin, call_pure_extern
from .declaration import Lowering, find


def llvm_name(function: str, *dtypes: str) -> str:
    """The name of an overloaded function of LLVM for these dtypes: ``llvm.floor.v16f32``."""
    return ".".join(["llvm", function, *[_mangled(dtype) for dtype in dtypes]])


def _mangled(dtype: str) -> str:
    code, bits, lanes = dt.parse(dtype)
    element = f"f{bits}" if code == "float" else f"i{bits}"
    return element if lanes == 1 else f"v{lanes}{element}"


def in_float32(compute: Callable[[list[PrimExpr]], PrimExpr]) -> Lowering:
    """The lowering that computes half floats in float32 and rounds once; other dtypes are computed as they are."""

    def lower(call: Call) -> PrimExpr:
        args = [widened(arg) for arg in call.args]
        return cast(call.dtype, compute(args))

    return lower


def widened(value: PrimExpr) -> PrimExpr:
    """A half float as float32, anything else as it is."""
    if dt.is_float(value.dtype) and dt.bits(value.dtype) < 32:
        return cast(dt.with_lanes("float32", dt.lanes(value.dtype)), value)
    return value


def llvm_function(name: str) -> Lowering:
    """The lowering of a float function to the function of LLVM of the same meaning."""

    def compute(args: list[PrimExpr]) -> PrimExpr:
        dtype = args[0].dtype
        return call_llvm_pure_intrin(dtype, llvm_name(name, dtype), *args)

    return in_float32(compute)


def library_function(call: Call) -> PrimExpr:
    """The lowering of a float function to the one of its name in the library that comes with the target's emitter."""
    record = find(call)
    assert record is not None

    def compute(args: list[PrimExpr]) -> PrimExpr:
        return call_pure_extern(args[0].dtype, LIBRARY + record.name, *args)

    return in_float32(compute)(call)


def before_lowering(call: Call) -> tuple[str, tuple[PrimExpr, ...]]:
    """The operator and the arguments of what a call was, as a function of LLVM or the library (``llvm.floor.f32``), too: ``tir.floor``."""
    name, args = getattr(call.op, "name", ""), call.args
    if name not in ("tir.call_llvm_pure_intrin", "tir.call_pure_extern"):
        return name, args
    return "tir." + ".".join(str(getattr(args[0], "value", "")).split(".")[1:2]), args[1:]


def shared(values: Sequence[PrimExpr], use: Callable[..., PrimExpr]) -> PrimExpr:
    """``use(*values)`` for a formula that needs a value several times: each is computed once."""
    bound: list[tuple[Var, PrimExpr]] = []
    names: list[Any] = []
    for value in values:
        if isinstance(value, (Var, *IMMEDIATES)):
            names.append(value)
        else:
            bound.append((Var(f"x{len(bound)}" if bound else "x", value.dtype), value))
            names.append(bound[-1][0])
    result = use(*names)
    for var, value in reversed(bound):
        result = Let(var, value, result)
    return result
