"""The namespace ``R`` of scripts: ``from ir.script import relax as R``.

Struct infos (``R.Tensor``), values (``R.const``, ``R.shape``), calls of functions, and every operator of
:mod:`ir.relax.op` as ``R.<name>`` (``R.add``, ``R.nn.conv2d``). Outside of scripts they build nodes.
"""

# ruff: noqa: F401  what is imported here is the namespace
from __future__ import annotations

import builtins
import difflib as _difflib
from collections.abc import Sequence
from typing import Any

from ..attrs import DictAttrs
from ..error import IRTypeError
from ..expr import RelaxExpr
from ..relax import expr as _x
from ..relax import op as _op
from ..relax.expr import Constant, DataflowVar, If, Var, const
from ..relax.function import ExternFunc
from ..relax.op import base as _base
from ..relax.op.declaration import OPERATORS as _OPERATORS
from ..relax.struct_info import StructInfo, TensorStructInfo
from .parser.relax_entry import dataflow, emit, func_attr, function, is_impure, match_cast, output
from .parser.struct_info import (
    Callable_ as Callable,
)
from .parser.struct_info import (
    Object,
    Prim,
    Shape,
    Tensor,
    Tuple,
)
from .parser.struct_info import (
    as_struct_info as _as_struct_info,
)
from .parser.struct_info import (
    resolve_vdevice as _resolve_vdevice,
)
from .parser.tir_entry import macro
from .tir import DtypeFunction as _DtypeFunction


def prim_value(value: Any) -> _x.PrimValue:
    """A scalar as a value."""
    return _x.PrimValue(value)


def str(value: Any) -> _x.StringImm:
    """A string as an argument."""
    return _x.StringImm(value)


def dtype(value: Any) -> _x.DataTypeImm:
    """A dtype as an argument."""
    return _x.DataTypeImm(value.dtype if isinstance(value, _DtypeFunction) else value)


def shape(value: Sequence[Any]) -> _x.ShapeExpr:
    """A shape as a value."""
    return _x.ShapeExpr(value)


def tuple(*fields: Any) -> _x.Tuple:
    """A tuple of values."""
    return _x.Tuple(fields)


def _infos(sinfo_args: Any) -> list[StructInfo]:
    if sinfo_args is None:
        return []
    items = sinfo_args if isinstance(sinfo_args, list | builtins.tuple) else [sinfo_args]
    return [_as_struct_info(item) for item in items]


def _call_args(args: Sequence[Any]) -> list[Any]:
    return [_x.convert_to_expr(item) for item in args]


def call_packed(func: Any, *args: Any, sinfo_args: Any = None, **kwargs: Any) -> _x.Call:
    """Call an external function; ``sinfo_args`` is the struct info of the result, keywords become attributes."""
    callee = ExternFunc(func) if isinstance(func, builtins.str) else func
    kwargs.pop("attrs_type_key", None)
    return _x.Call(callee, _call_args(args), DictAttrs(kwargs) if kwargs else None, _infos(sinfo_args))


def call_pure_packed(func: Any, *args: Any, sinfo_args: Any = None) -> _x.Call:
    """Call an external function that is promised to have no visible effect."""
    return _base.call_pure_packed(func, *_call_args(args), sinfo_args=_infos(sinfo_args))


def call_inplace_packed(func: Any, *args: Any, inplace_indices: Any, sinfo_args: Any = None) -> _x.Call:
    """Call an external function that overwrites some of its arguments."""
    return _base.call_inplace_packed(
        func, *_call_args(args), inplace_indices=inplace_indices, sinfo_args=_infos(sinfo_args)
    )


def invoke_closure(closure: Any, args: Any, sinfo_args: Any) -> _x.Call:
    """Call a closure."""
    return _base.invoke_closure(closure, args, _infos(sinfo_args))


def invoke_pure_closure(closure: Any, args: Any, sinfo_args: Any) -> _x.Call:
    """Call a closure without effects."""
    return _base.invoke_pure_closure(closure, args, _infos(sinfo_args))


def call_builtin_with_ctx(func: Any, args: Any, *, sinfo_args: Any = None) -> _x.Call:
    """Call a builtin with the virtual machine's context."""
    return _base.call_builtin_with_ctx(func, args, sinfo_args=_infos(sinfo_args))


def _out(out_sinfo: Any, dtype: Any) -> Any:
    """The outputs' struct infos; a shape with a separate dtype is the older form."""
    if dtype is not None:
        if isinstance(out_sinfo, list) and out_sinfo and isinstance(out_sinfo[0], list | builtins.tuple):
            dtypes = dtype if isinstance(dtype, list | builtins.tuple) else [dtype] * len(out_sinfo)
            return [TensorStructInfo(item, kind) for item, kind in zip(out_sinfo, dtypes, strict=True)]
        return TensorStructInfo(out_sinfo, dtype)
    if isinstance(out_sinfo, list | builtins.tuple):
        return [_as_struct_info(item) for item in out_sinfo]
    return _as_struct_info(out_sinfo)


def call_tir(func: Any, args: Any, out_sinfo: Any, tir_vars: Any = None, dtype: Any = None) -> _x.Call:
    """Call a PrimFunc of the module: ``R.call_tir(cls.f, (x,), out_sinfo=R.Tensor((2, 3), "float32"))``."""
    return _base.call_tir(func, args, _out(out_sinfo, dtype), tir_vars)


def call_tir_with_grad(
    func: Any,
    args: Any,
    out_sinfo: Any,
    te_grad_name: Any = None,
    te_grad_kwargs: Any = None,
    tir_vars: Any = None,
) -> _x.Call:
    """``R.call_tir`` with the name of a registered gradient."""
    return _base.call_tir_with_grad(func, args, _out(out_sinfo, None), te_grad_name, te_grad_kwargs, tir_vars)


def call_tir_inplace(
    func: Any, args: Any, out_sinfo: Any = None, inplace_indices: Any = None, tir_vars: Any = None
) -> _x.Call:
    """``R.call_tir`` that overwrites some arguments; outputs and indices may come in either order."""
    if isinstance(out_sinfo, int) or (
        isinstance(out_sinfo, list) and out_sinfo and isinstance(out_sinfo[0], int)
    ):
        out_sinfo, inplace_indices = inplace_indices, out_sinfo
    return _base.call_tir_inplace(func, args, inplace_indices, _out(out_sinfo, None), tir_vars)


def call_dps_packed(func: Any, args: Any, out_sinfo: Any, dtype: Any = None) -> _x.Call:
    """Call an external function in destination-passing style."""
    return _base.call_dps_packed(func, args, _out(out_sinfo, dtype))


def to_vdevice(data: Any, dst_vdevice: Any) -> _x.Call:
    """Copy a tensor to a virtual device of the module."""
    return _base.to_vdevice(data, _resolve_vdevice(dst_vdevice))


def hint_on_device(data: Any, *args: Any, **kwargs: Any) -> _x.Call:
    """Say that a tensor should live on a device."""
    if {"device_type", "index"} <= kwargs.keys() <= {"device_type", "index", "vdevice", "memory_scope"}:
        return _x.Call("relax.hint_on_device", [data], kwargs)
    return _base.hint_on_device(data, *args, **kwargs)


def print(*values: Any, format: Any = "") -> _x.Call:
    """Print values when the program runs."""
    return _base.print(*_call_args(values), format=format)


def assert_op(condition: Any, format_args: Any = None, format: Any = "") -> _x.Call:
    """Stop the program with a message unless a condition holds."""
    return _base.assert_op(condition, format_args, format)


def Call(op: Any, args: Any, attrs: Any = None, sinfo_args: Any = None) -> _x.Call:
    """A call by its parts: an operator's name or a function, arguments, attributes, struct infos."""
    return _x.Call(op, [_x.convert_to_expr(item) for item in args], attrs, _infos(sinfo_args))


class _Operators:
    """A group of operators by attribute: ``R.nn.relu``."""

    def __init__(self, prefix: Any) -> None:
        self._prefix = prefix

    def __getattr__(self, name: Any) -> Any:
        return _operator(f"{self._prefix}.{name}")

    def __dir__(self) -> Any:
        start = f"relax.{self._prefix}."
        return sorted({key[len(start) :].split(".")[0] for key in _OPERATORS if key.startswith(start)})

    def __repr__(self) -> Any:
        return f"R.{self._prefix}"


def _operator(name: Any) -> Any:
    """The function of an operator, or the group of operators below a name."""
    found = _OPERATORS.get(f"relax.{name}")
    if found is not None and found.build is not None:
        return found.build
    if any(key.startswith(f"relax.{name}.") for key in _OPERATORS):
        return _Operators(name)
    value: Any = _op
    for part in name.split("."):
        value = getattr(value, part, None)
    if value is not None:
        return value
    known = [key[6:] for key in _OPERATORS] + [key for key in globals() if not key.startswith("_")]
    close = _difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean R.{close[0]}?" if close else ""
    raise AttributeError(f"there is no operator or function R.{name}{hint}")


_ALIASES = {
    "nn": "nn",
    "image": "image",
    "builtin": "builtin",
    "memory": "memory",
    "grad": "grad",
    "vm": "vm",
    "ccl": "ccl",
}


def __getattr__(name: Any) -> Any:
    """Operators, looked up when they are used."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _ALIASES:
        return _Operators(name)
    return _operator(name)


def __dir__() -> Any:
    own = [key for key in globals() if not key.startswith("_")]
    return sorted({*own, *[key.split(".")[1] for key in _OPERATORS]})
