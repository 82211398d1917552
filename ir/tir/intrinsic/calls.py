"""Calls of what lies outside of the program: C functions, functions of LLVM, functions registered in Python."""

from __future__ import annotations

from typing import Any

from ...error import IRValueError
from ...node import Node
from ...span import Span
from ..expr import IterVar, PrimExpr
from ..operators import convert
from .declaration import INTRINSICS, CallEffectKind, call, intrinsic, primitive
from .memory import address_of

LIBRARY = "loopsmith."
"""Before this prefix and the name of an intrinsic: the function that a target's library of mathematics has for it."""


def _c_function(dtype: str, name: str, *args: Any) -> Any:
    """What C's mathematical functions (``expf``) and those of the library give: they are called like the intrinsics."""
    short = name.removeprefix(LIBRARY)
    for candidate in (short, short.removesuffix("f")):
        record = INTRINSICS.get(f"tir.{candidate}")
        if record is not None and record.elementwise and record.meaning is not None:
            return record.meaning(*args)
    raise IRValueError(f"what the C function {name} computes is not known here")


_UNLIKE_NAMES = {"ctpop": "popcount", "ctlz": "clz"}
"""Functions of LLVM that the intrinsic of the same meaning is named otherwise than."""


def _llvm_function(dtype: str, name: Any, *args: Any) -> Any:
    """``llvm.floor.v16f32`` and its like: where the name behind ``llvm.`` is that of an intrinsic, its meaning."""
    short = str(name).split(".")[1] if str(name).startswith("llvm.") else ""
    record = INTRINSICS.get(f"tir.{_UNLIKE_NAMES.get(short, short)}")
    if record is None or record.meaning is None:
        raise IRValueError(f"what the LLVM function {name} computes is not known here")
    most = record.arity[1]
    return record.meaning(*args[:most])  # behind the values LLVM takes flags


@intrinsic(
    arity=(1, None),
    result=None,
    effect=CallEffectKind.UPDATE_STATE,
    foreign=True,
    meaning=_c_function,
    lowering={"default": primitive},
)
def call_extern(dtype: str, func_name: str, *args: Any, span: Span | None = None) -> PrimExpr:
    """Call a C function by symbol; it may have effects."""
    return call("call_extern", func_name, *args, dtype=dtype, span=span)


@intrinsic(arity=(1, None), result=None, meaning=_c_function, lowering={"default": primitive})
def call_pure_extern(dtype: str, func_name: str, *args: Any, span: Span | None = None) -> PrimExpr:
    """Call a C function without effects by symbol."""
    return call("call_pure_extern", func_name, *args, dtype=dtype, span=span)


@intrinsic(
    arity=(1, None),
    result=None,
    effect=CallEffectKind.UPDATE_STATE,
    meaning=_llvm_function,
    lowering={"llvm": primitive},
)
def call_llvm_intrin(dtype: str, name: str, *args: Any, span: Span | None = None) -> PrimExpr:
    """Call an LLVM intrinsic by name; its value depends on more than the arguments."""
    return call("call_llvm_intrin", name, *args, dtype=dtype, span=span)


@intrinsic(arity=(1, None), result=None, meaning=_llvm_function, lowering={"llvm": primitive})
def call_llvm_pure_intrin(dtype: str, name: str, *args: Any, span: Span | None = None) -> PrimExpr:
    """Call a pure LLVM intrinsic by name, that of its types included (``llvm.floor.v16f32``)."""
    return call("call_llvm_pure_intrin", name, *args, dtype=dtype, span=span)


@intrinsic(
    name="tvm_call_packed",
    arity=(1, None),
    result="int32",
    effect=CallEffectKind.UPDATE_STATE,
    foreign=True,
    lowering={"default": primitive},
)
def call_packed(*args: Any, dtype: str = "int32", span: Span | None = None) -> PrimExpr:
    """Call a registered function (:func:`ir.register_func`), which returns a ``dtype``: its name, then buffers and values."""
    return call("tvm_call_packed", *[_packed_argument(item) for item in args], dtype=dtype, span=span)


@intrinsic(
    name="tvm_call_cpacked",
    arity=(1, None),
    result="int32",
    effect=CallEffectKind.UPDATE_STATE,
    foreign=True,
    lowering={"default": primitive},
)
def call_cpacked(*args: Any, dtype: str = "int32", span: Span | None = None) -> PrimExpr:
    """Call a packed C function by symbol, which returns a ``dtype``."""
    return call("tvm_call_cpacked", *[_packed_argument(item) for item in args], dtype=dtype, span=span)


def _packed_argument(item: Any) -> Any:
    is_buffer = isinstance(item, Node) and not isinstance(item, PrimExpr | IterVar)
    return address_of(item) if is_buffer else convert(item)
